"""Replicas are distinct, spread over racks and evenly shared; a new incarnation gets new epochs for all it owns."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.controller.replica_placement import leader_changes, new_partition, place
from bmq.metadata.image import NO_LEADER, Node
from bmq.metadata.state import partition_record
from bmq.protocol.metadata_records import BrokerRegistrationChangeRecord, MetadataRecord, TopicRecord
from tests.unit.controller.support import Cluster

pytestmark = pytest.mark.unit


@st.composite
def node_maps(draw: st.DrawFn, least: int = 1) -> dict[int, Node]:
    ids = draw(st.sets(st.integers(0, 50), min_size=least, max_size=8))
    racks = st.sampled_from([None, "a", "b", "c"])
    return {node_id: Node(node_id, "h", 1, draw(racks)) for node_id in sorted(ids)}


@given(node_maps(), st.integers(1, 40), st.integers(0, 2**128 - 1), st.data())
def test_placement(nodes: dict[int, Node], count: int, shift: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(nodes)))
    placed = place(nodes, count, factor, shift)
    assert len(placed) == count
    racks = {node.rack for node in nodes.values()}
    for replicas in placed:
        assert len(replicas) == factor == len(set(replicas))
        assert set(replicas) <= set(nodes)
        if None not in racks:
            assert len({nodes[node].rack for node in replicas}) == min(factor, len(racks))
    firsts = Counter(replicas[0] for replicas in placed)
    assert max(firsts.values()) - min((firsts[node] for node in nodes), default=0) <= 1


def test_placement_over_too_few_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="2 replicas over 1 nodes"):
        place({1: Node(1, "h", 1)}, 1, 2, 0)


def with_partitions(nodes: dict[int, Node], count: int, factor: int) -> Cluster:
    cluster = Cluster(*nodes.values())
    topic_id = UUID(int=99)
    records: list[MetadataRecord] = [TopicRecord(name="t", topic_id=topic_id)]
    for number, replicas in enumerate(place(nodes, count, factor, 3)):
        records.append(partition_record(topic_id, new_partition(number, replicas, nodes)))
    cluster.take(records)
    return cluster


@given(node_maps(least=2), st.integers(1, 12), st.data())
def test_every_partition_has_a_live_owner_after_any_change(
    nodes: dict[int, Node], count: int, data: st.DataObject
) -> None:
    cluster = with_partitions(nodes, count, data.draw(st.integers(1, len(nodes))))
    live_ids = data.draw(st.sets(st.sampled_from(sorted(nodes)), min_size=1))
    live = {node_id: nodes[node_id] for node_id in sorted(live_ids)}
    before = cluster.image.topics["t"].partitions
    cluster.take([BrokerRegistrationChangeRecord(broker_id=n, fenced=1) for n in nodes if n not in live])
    cluster.take(leader_changes(cluster.image, live))
    after = cluster.image.topics["t"].partitions
    for old, new in zip(before, after, strict=True):
        assert new.leader in live and new.leader in new.isr and set(new.isr) <= set(live)
        # Nobody moves without need, and whoever comes in gets an epoch that was never used.
        assert (new.leader_epoch == old.leader_epoch + 1) == (new.leader != old.leader)
        if set(old.replicas) & set(live):
            assert new.replicas == old.replicas
    assert leader_changes(cluster.image, live) == []


@given(node_maps(), st.integers(1, 12))
def test_a_new_incarnation_gets_new_epochs_for_its_partitions_only(nodes: dict[int, Node], count: int) -> None:
    cluster = with_partitions(nodes, count, 1)
    reborn = min(nodes)
    before = cluster.image.topics["t"].partitions
    cluster.take(leader_changes(cluster.image, nodes, reborn))
    for old, new in zip(before, cluster.image.topics["t"].partitions, strict=True):
        assert new.leader == old.leader
        assert new.leader_epoch == old.leader_epoch + (old.leader == reborn)


def test_without_any_live_node_nothing_changes() -> None:
    cluster = with_partitions({1: Node(1, "h", 1)}, 2, 1)
    assert leader_changes(cluster.image, {}) == []
    assert new_partition(0, (4, 5), {}).leader == NO_LEADER
