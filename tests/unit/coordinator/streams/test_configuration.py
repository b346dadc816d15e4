"""Topologies: which are refused, how many tasks they make, and which topics they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.streams.configuration import ConfiguredTopology, StatusCode, configured
from bmq.coordinator.streams.topology import required_topics, topology_of
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.streams_group_heartbeat_request import Subtopology, TopicInfo, Topology
from tests.unit.coordinator.cluster import FakeTopic, FakeTopics
from tests.unit.coordinator.streams.bench import subtopology

pytestmark = pytest.mark.unit

T = TypeVar("T")


def on(topics: Mapping[str, int], *subtopologies: Subtopology) -> ConfiguredTopology:
    topology = topology_of(Topology(epoch=3, subtopologies=subtopologies))
    image = FakeTopics(
        {
            name: FakeTopic(name, UUID(int=number), tuple(range(count)))
            for number, (name, count) in enumerate(topics.items())
        }
    )
    return configured(topology, image)


def missing(answer: ConfiguredTopology) -> dict[str, int]:
    return {topic.name: topic.num_partitions for topic in answer.missing}


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (subtopology("0", ["t"], source_topic_regex=["t.*"]), ErrorCode.INVALID_REQUEST),
        (subtopology("0"), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (subtopology("0", ["a/b"]), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (subtopology("0", [""]), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (subtopology("0", ["__consumer_offsets"]), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (subtopology("0", ["t"], sinks=["__transaction_state"]), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (subtopology("0", ["t"], changelogs=["."]), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (subtopology("0", ["t"], repartitions={"r": -1}), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (subtopology("0", ["t"], copartitions=[([1], [])]), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (subtopology("0", ["t"], copartitions=[([-1], [])]), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (subtopology("0", ["t"], copartitions=[([0], [0])]), ErrorCode.STREAMS_INVALID_TOPOLOGY),
    ],
)
def test_topologies_that_are_refused(bad: Subtopology, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        topology_of(Topology(epoch=0, subtopologies=[bad]))
    assert refused.value.code is code


def test_a_changelog_says_no_number_and_ids_are_not_given_twice() -> None:
    bad = subtopology("0", ["t"])
    bad.state_changelog_topics = [TopicInfo(name="log", partitions=3)]
    for subtopologies in ([bad], [subtopology("0", ["t"]), subtopology("0", ["u"])]):
        with pytest.raises(KafkaError) as refused:
            topology_of(Topology(epoch=0, subtopologies=subtopologies))
        assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_the_order_of_subtopologies_does_not_matter() -> None:
    one, other = subtopology("0", ["t"]), subtopology("1", ["u"])
    topology = topology_of(Topology(epoch=0, subtopologies=[one, other]))
    assert topology == topology_of(Topology(epoch=0, subtopologies=[other, one]))
    assert required_topics(topology) == {"t", "u"}


def test_the_largest_source_makes_the_tasks_and_the_changelogs() -> None:
    answer = on({"t": 2, "u": 5}, subtopology("0", ["t", "u"], changelogs=["log"]))
    assert answer.subtopologies is not None and answer.epoch == 3
    assert answer.subtopologies["0"].task_count == 5
    assert answer.subtopologies["0"].is_stateful
    assert missing(answer) == {"log": 5}
    assert answer.problem is not None and answer.problem.status is StatusCode.MISSING_INTERNAL_TOPICS
    assert not answer.is_ready
    assert on({"t": 2, "u": 5, "log": 5}, subtopology("0", ["t", "u"], changelogs=["log"])).is_ready


def test_what_is_made_is_made_as_the_topology_says() -> None:
    made = subtopology("0", ["t"])
    made.state_changelog_topics = [TopicInfo(name="a", replication_factor=3), TopicInfo(name="b")]
    answer = on({"t": 1}, made)
    assert [(topic.name, topic.replication_factor) for topic in answer.missing] == [("a", 3), ("b", -1)]


def test_missing_sources_come_first() -> None:
    answer = on({"t": 2}, subtopology("0", ["t", "x", "y"]), subtopology("1", ["z"], changelogs=["log"]))
    assert answer.subtopologies is None and not answer.missing
    assert answer.problem == (StatusCode.MISSING_SOURCE_TOPICS, "Source topics x, y, z are missing.")


def test_many_missing_topics_are_not_all_named() -> None:
    answer = on({}, subtopology("0", [f"t{number:02}" for number in range(12)]))
    assert answer.problem is not None and answer.problem.detail.endswith("t09 and 2 more are missing.")


CHAIN = (
    subtopology("0", ["t"], sinks=["r1"]),
    subtopology("1", repartitions={"r1": 0}, sinks=["r2"]),
    subtopology("2", repartitions={"r2": 0}, changelogs=["log"]),
)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_repartition_topics_follow_those_who_write_them(order: Sequence[int]) -> None:
    answer = on({"t": 4}, *(CHAIN[place] for place in order))
    assert missing(answer) == {"r1": 4, "r2": 4, "log": 4}


def test_a_number_that_the_topology_says_counts() -> None:
    answer = on({"t": 4}, subtopology("0", ["t"], sinks=["r"]), subtopology("1", repartitions={"r": 7}))
    assert missing(answer) == {"r": 7}


def test_a_writer_with_one_source_that_is_not_known_yet_waits_for_it() -> None:
    answer = on(
        {"t": 2, "u": 9},
        subtopology("0", ["t"], repartitions={"big": 0}, sinks=["r"]),
        subtopology("1", ["u"], sinks=["big"]),
        subtopology("2", repartitions={"r": 0}),
    )
    assert missing(answer) == {"big": 9, "r": 9}


def test_a_loop_starts_from_what_is_known() -> None:
    answer = on({"t": 2}, subtopology("0", ["t"], repartitions={"r": 0}, sinks=["r"]))
    assert missing(answer) == {"r": 2}


def by_looking_at_all_in_each_step(topics: Mapping[str, int], subtopologies: Sequence[Subtopology]) -> dict[str, int]:
    """Partitions of the repartition topics, as Apache Kafka goes about it. Raises ValueError: they cannot be found."""
    counts = {
        topic.name: topic.partitions
        for one in subtopologies
        for topic in one.repartition_source_topics
        if topic.partitions
    }
    writers = {name: one for one in subtopologies for name in one.repartition_sink_topics if name not in counts}
    while writers:
        whole, partly = {}, {}
        for name, writer in writers.items():
            sources = [topic.name for topic in writer.repartition_source_topics]
            known = [topics[source] for source in writer.source_topics]
            known += [counts[source] for source in sources if source in counts]
            if known:
                partly[name] = max(known)
                if len(known) == len(writer.source_topics) + len(sources):
                    whole[name] = max(known)
        if not partly:
            raise ValueError
        counts |= whole or partly
        writers = {name: writer for name, writer in writers.items() if name not in counts}
    if any(topic.name not in counts for one in subtopologies for topic in one.repartition_source_topics):
        raise ValueError
    return counts


_repartition_topics = st.sampled_from([f"r{number}" for number in range(6)])


@st.composite
def _any_subtopologies(draw: st.DrawFn) -> list[Subtopology]:
    made = []
    for number in range(draw(st.integers(1, 6))):
        sources = draw(st.lists(st.sampled_from(["t", "u"]), unique=True))
        read = draw(st.lists(_repartition_topics, unique=True, max_size=3, min_size=0 if sources else 1))
        counts = {name: draw(st.sampled_from([0, 0, 0, 7])) for name in read}
        sinks = draw(st.lists(_repartition_topics, unique=True, max_size=3))
        made.append(subtopology(str(number), sources, repartitions=counts, sinks=sinks))
    return made


@given(subtopologies=_any_subtopologies())
def test_any_repartition_topics_get_what_a_look_at_all_gives(subtopologies: list[Subtopology]) -> None:
    topics = {"t": 2, "u": 5}
    try:
        expected = by_looking_at_all_in_each_step(topics, subtopologies)
    except ValueError:
        with pytest.raises(KafkaError) as refused:
            on(topics, *subtopologies)
        assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
        return
    read = {topic.name for one in subtopologies for topic in one.repartition_source_topics}
    assert missing(on(topics, *subtopologies)) == {name: count for name, count in expected.items() if name in read}


class Counted(tuple[T, ...]):
    """Counts how often it is gone through."""

    looks = 0

    def __iter__(self) -> Iterator[T]:
        Counted.looks += 1
        return super().__iter__()


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_long_chain_is_gone_through_once(is_closed: bool) -> None:
    """As large as one request may be: what looks at all of it for each of its links stops the node for a minute."""
    length = 1_000
    links = [subtopology(f"{n:05}", repartitions={f"r{n}": 0}, sinks=[f"r{n - 1}"]) for n in range(1, length + 1)]
    first = subtopology("first", ["t"], sinks=[f"r{length}"], repartitions={"r0": 0} if is_closed else None)
    last = [] if is_closed else [subtopology("last", repartitions={"r0": 0}, copartitions=[([], [0])])]
    topology = topology_of(Topology(epoch=0, subtopologies=[first, *links, *last]))
    counted = replace(
        topology,
        subtopologies=tuple(
            replace(
                one,
                source_topics=Counted(one.source_topics),
                repartition_source_topics=Counted(one.repartition_source_topics),
                repartition_sink_topics=Counted(one.repartition_sink_topics),
            )
            for one in topology.subtopologies
        ),
    )
    Counted.looks = 0
    answer = configured(counted, FakeTopics({"t": FakeTopic("t", UUID(int=1), (0, 1))}))
    assert missing(answer) == {f"r{n}": 2 for n in range(length + 1)}
    assert Counted.looks < 20 * length


@pytest.mark.parametrize(
    "bad",
    [
        [subtopology("0", repartitions={"a": 0}, sinks=["b"]), subtopology("1", repartitions={"b": 0}, sinks=["a"])],
        [subtopology("0", ["t"]), subtopology("1", repartitions={"r": 0})],
    ],
)
def test_topologies_that_no_topics_can_make_work(bad: list[Subtopology]) -> None:
    with pytest.raises(KafkaError) as refused:
        on({"t": 1}, *bad)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_copartitioned_sources_must_agree() -> None:
    both = subtopology("0", ["t", "u"], copartitions=[([0, 1], [])])
    assert on({"t": 2, "u": 2}, both).is_ready
    answer = on({"t": 2, "u": 3}, both)
    assert answer.subtopologies is None
    assert answer.problem == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{t=2, u=3}]",
    )


def test_repartition_topics_adapt_to_what_they_go_with() -> None:
    writer = subtopology("0", ["t"], sinks=["r"])
    assert missing(
        on({"t": 2, "u": 5}, writer, subtopology("1", ["u"], repartitions={"r": 0}, copartitions=[([0], [0])]))
    ) == {"r": 5}
    answer = on({"t": 2, "u": 5}, writer, subtopology("1", ["u"], repartitions={"r": 4}, copartitions=[([0], [0])]))
    assert answer.problem is not None and answer.problem.status is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_among_repartition_topics_the_fixed_or_the_largest_decides() -> None:
    writers = (subtopology("0", ["t"], sinks=["a"]), subtopology("1", ["u"], sinks=["b"]))
    together: list[tuple[list[Any], list[int]]] = [([], [0, 1])]
    both = subtopology("2", repartitions={"a": 0, "b": 0}, copartitions=together)
    assert missing(on({"t": 2, "u": 5}, *writers, both)) == {"a": 5, "b": 5}
    fixed = subtopology("2", repartitions={"a": 3, "b": 0}, copartitions=together)
    assert missing(on({"t": 2, "u": 5}, *writers, fixed)) == {"a": 3, "b": 3}
    clash = subtopology("2", repartitions={"a": 3, "b": 4}, copartitions=together)
    answer = on({"t": 2, "u": 5}, *writers, clash)
    assert answer.problem is not None and answer.problem.status is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert not on({"t": 1, "a": 1}, subtopology("0", ["t"], sinks=["a"], copartitions=[([], [])])).missing


def test_internal_topics_that_are_there_must_fit() -> None:
    answer = on({"t": 4, "log": 3}, subtopology("0", ["t"], changelogs=["log"]))
    assert answer.problem == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic log has different number of partitions: expected 4, found 3",
    )


def test_a_table_may_be_restored_from_its_own_source() -> None:
    answer = on({"t": 4, "table": 2}, subtopology("0", ["t", "table"], changelogs=["table"]))
    assert answer.is_ready and answer.subtopologies is not None
    assert answer.subtopologies["0"].changelogs[0].partition_count == 2
