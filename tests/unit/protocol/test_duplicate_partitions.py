"""A Produce request that names a partition twice."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.hot_produce import ProducedData, ProducedTopic, without_duplicates

pytestmark = pytest.mark.unit

RECORDS = [memoryview(b"%d" % number) for number in range(40)]
TOPICS = st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 4), max_size=5)), max_size=5)


def topics_of(named: list[tuple[str, list[int]]]) -> list[ProducedTopic]:
    """Each partition with records of its own."""
    records = iter(RECORDS)
    return [
        ProducedTopic(name, None, [ProducedData(partition, next(records)) for partition in partitions])
        for name, partitions in named
    ]


@given(TOPICS)
def test_the_last_batch_of_each_partition_stays_and_each_topic_is_named_once(
    named: list[tuple[str, list[int]]],
) -> None:
    topics = topics_of(named)
    last = {(topic.name, data.partition): data.records for topic in topics for data in topic.partitions}
    once = without_duplicates(topics)
    kept = [(topic.name, data.partition, data.records) for topic in once for data in topic.partitions]
    assert len(kept) == len(last)
    assert {(name, partition): records for name, partition, records in kept} == last
    assert sorted(str(topic.name) for topic in once) == sorted({name for name, _ in named})


@given(st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), min_size=1))
def test_a_request_that_names_each_once_comes_back_as_it_is(pairs: set[tuple[str, int]]) -> None:
    names = sorted({name for name, _ in pairs})
    topics = topics_of([(name, [partition for other, partition in pairs if other == name]) for name in names])
    assert without_duplicates(topics) is topics


def test_topics_are_told_apart_by_id() -> None:
    data = [ProducedData(0, RECORDS[0])]
    topics = [ProducedTopic(None, UUID(int=1), data), ProducedTopic(None, UUID(int=2), data)]
    assert without_duplicates(topics) is topics
