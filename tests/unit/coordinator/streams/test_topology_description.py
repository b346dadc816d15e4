"""When members are asked for the topology's description, and what is kept of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.streams.topology_description import DESCRIPTION_BYTES_MAX, KnownDescription
from bmq.protocol import codec
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from bmq.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

pytestmark = pytest.mark.unit

NAMES = st.text(st.characters(codec="utf-8"), max_size=5)
NODES = st.builds(
    TopologyDescriptionNode,
    name=NAMES,
    node_type=st.sampled_from([1, 2, 3]),
    source_topics=st.lists(NAMES, max_size=2).map(tuple),
    sink_topic=st.none() | NAMES,
    stores=st.lists(NAMES, max_size=2).map(tuple),
    successors=st.lists(NAMES, max_size=2).map(tuple),
)
STORES = st.builds(
    TopologyDescriptionGlobalStore,
    source=st.builds(TopologyDescriptionNode, name=NAMES, node_type=st.just(1)),
    processor=st.builds(TopologyDescriptionNode, name=NAMES, node_type=st.just(2)),
)
SUBTOPOLOGIES = st.builds(
    TopologyDescriptionSubtopology, subtopology_id=NAMES, nodes=st.lists(NODES, max_size=3).map(tuple)
)
DESCRIPTIONS = st.builds(
    TopologyDescription,
    subtopologies=st.lists(SUBTOPOLOGIES, max_size=3).map(tuple),
    global_stores=st.lists(STORES, max_size=2).map(tuple),
)


def update(description: TopologyDescription) -> StreamsGroupTopologyDescriptionUpdateRequest:
    return StreamsGroupTopologyDescriptionUpdateRequest(
        group_id="g", member_id="m", topology_epoch=0, topology_description=description
    )


def of_nodes(*nodes: TopologyDescriptionNode) -> StreamsGroupTopologyDescriptionUpdateRequest:
    return update(TopologyDescription(subtopologies=(TopologyDescriptionSubtopology(nodes=nodes),)))


@given(description=DESCRIPTIONS)
def test_what_is_shown_is_what_came(description: TopologyDescription) -> None:
    """Byte for byte: both messages have the description in the same form."""
    shown = KnownDescription().of(0).brought(update(description)).described()
    assert shown is not None
    group = DescribedGroup(group_id="g", topology_description=shown, topology_description_status=3)
    answer = StreamsGroupDescribeResponse(groups=(group,))
    written = codec.encode("response", ApiKey.STREAMS_GROUP_DESCRIBE, 1, answer)
    came = codec.encode("request", ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0, update(description))
    head = b"\x02g\x02m" + bytes(4)
    assert b"\x01" + came[len(head) : -1] + b"\x03" in written
    assert (
        codec.decode("response", ApiKey.STREAMS_GROUP_DESCRIBE, 1, written).groups[0].topology_description is not None
    )


def test_members_are_asked_ever_less_often() -> None:
    known, now_ms = KnownDescription().of(0), 0.0
    waits_s = []
    for _ in range(10):
        assert known.is_wanted(now_ms)
        known = known.asked_at(now_ms)
        waits_s.append((known.next_ask_ms - now_ms) / 1000)
        assert not known.is_wanted(known.next_ask_ms - 1)
        now_ms = known.next_ask_ms
    assert waits_s == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert known.of(0) is known
    assert known.of(1).is_wanted(now_ms - 1), "another topology is another matter"


def test_what_is_known_is_not_asked_for() -> None:
    known = KnownDescription().of(0).brought(of_nodes(TopologyDescriptionNode(name="n", node_type=1)))
    assert not known.is_wanted(1e12)
    assert known.of(1).described() is None


def test_a_large_description_is_refused_for_good() -> None:
    large = of_nodes(TopologyDescriptionNode(name="n" * 30_000, node_type=2, stores=("s" * 30_000,) * 8))
    known = KnownDescription().of(0).brought(large)
    assert known.is_refused and known.encoded is None and not known.is_wanted(1e12)
    small = of_nodes(TopologyDescriptionNode(name="n", node_type=2, stores=("s" * 30_000,) * 8))
    known = known.brought(small)
    assert known.encoded is not None and not known.is_refused and len(known.encoded) <= DESCRIPTION_BYTES_MAX


@pytest.mark.parametrize(
    "bad",
    [
        of_nodes(TopologyDescriptionNode(name="n", node_type=0)),
        of_nodes(TopologyDescriptionNode(name="n", node_type=4)),
        update(TopologyDescription(global_stores=(TopologyDescriptionGlobalStore(),))),
    ],
)
def test_nodes_that_nobody_could_read(bad: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
    with pytest.raises(KafkaError) as raised:
        KnownDescription().of(0).brought(bad)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
