"""A stream's offsets: the same text for the same place, a beginning that survives, nothing read twice or passed over."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.source.stream_offset import (
    Cluster,
    ForeignCheckpoint,
    StreamOffset,
    advance,
    is_same,
    limited,
    no_further,
    starts,
)

pytestmark = pytest.mark.unit

PARTITIONS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 11))
IDS = {"a": "id-a", "b": "id-b"}


def at(offsets: dict[tuple[str, int], int], begin: int = 0, *, is_initial: bool = False) -> StreamOffset:
    topics = {topic for topic, _ in offsets}
    ids = {topic: IDS[topic] for topic in topics}
    return StreamOffset(offsets, dict.fromkeys(offsets, begin), ids, is_initial)


@given(numbers=st.dictionaries(PARTITIONS, st.integers(0, 2**62)), is_initial=st.booleans(), seed=st.randoms())
def test_json_round_trip_and_one_text(numbers: dict[tuple[str, int], int], is_initial: bool, seed: object) -> None:
    offset = at(numbers, is_initial=is_initial)
    text = json.dumps(offset.to_json())
    assert StreamOffset.from_json(json.loads(text)) == offset
    shuffled = list(numbers.items())
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    assert json.dumps(at(dict(shuffled), is_initial=is_initial).to_json()) == text


@pytest.mark.parametrize(
    "found", [{}, {"t": {"0": 5}}, {"offsets": 3}, {"offsets": {}, "begin": {}, "topicIds": 5, "version": 1}]
)
def test_offsets_of_another_source_are_refused(found: dict[str, object]) -> None:
    with pytest.raises(ForeignCheckpoint, match=r"did not write"):
        StreamOffset.from_json(found)


def test_offsets_of_a_later_version_are_refused() -> None:
    with pytest.raises(ForeignCheckpoint, match=r"another version"):
        StreamOffset.from_json({**at({}).to_json(), "version": 2})


def test_the_first_batch_begins_where_its_end_says_whatever_latest_is_by_now() -> None:
    begun = at({("a", 0): 40}, 40, is_initial=True)
    cluster = Cluster({("a", 0): 0}, {("a", 0): 55}, {"a": "id-a"})
    end = advance(begun, cluster).end
    assert (dict(end.offsets), dict(end.begin), end.is_initial) == ({("a", 0): 55}, {("a", 0): 40}, False)
    moved = at({("a", 0): 90}, 90, is_initial=True)
    assert starts(moved, StreamOffset.from_json(end.to_json())) == {("a", 0): 40}


def test_a_new_partition_is_read_from_its_beginning_whenever_that_is_repeated() -> None:
    seen = at({("a", 0): 40})
    cluster = Cluster({("a", 0): 7, ("a", 1): 0}, {("a", 0): 41, ("a", 1): 3}, {"a": "id-a"})
    found = advance(seen, cluster)
    assert found.losses == () and starts(seen, found.end) == {("a", 0): 40, ("a", 1): 0}
    late = advance(seen, Cluster({("a", 0): 7, ("a", 1): 2}, cluster.latest, {"a": "id-a"}))
    assert starts(seen, late.end)["a", 1] == 2
    assert late.losses == ("a-1 is new and begins at offset 2, not at 0",)


def test_what_is_gone_is_a_loss() -> None:
    seen = at({("a", 0): 40, ("b", 0): 5})
    found = advance(seen, Cluster({("a", 0): 0}, {("a", 0): 30}, {"a": "id-a"}))
    assert found.losses == ("partition 0 of topic b was deleted", "a-0 ends at 30, and was read up to 40")
    assert dict(found.end.topic_ids) == {"a": "id-a"}
    assert starts(seen, found.end) == {("a", 0): 30}


def test_a_topic_that_was_made_again_is_read_from_its_beginning() -> None:
    seen = at({("a", 0): 40})
    found = advance(seen, Cluster({("a", 0): 0}, {("a", 0): 30}, {"a": "new"}))
    assert found.losses == ("topic a was deleted and made again",)
    assert starts(seen, found.end) == {("a", 0): 0} and not is_same(seen, found.end)


@given(
    begins=st.dictionaries(PARTITIONS, st.integers(0, 100), min_size=1),
    grown=st.lists(st.dictionaries(PARTITIONS, st.integers(0, 50)), min_size=1, max_size=6),
    limit=st.integers(1, 60),
)
def test_batches_under_a_limit_read_everything_once(
    begins: dict[tuple[str, int], int], grown: list[dict[tuple[str, int], int]], limit: int
) -> None:
    latest = dict(begins)
    seen = StreamOffset(begins, dict(begins), at(begins).topic_ids, is_initial=True)
    read: dict[tuple[str, int], int] = {}
    while grown or read != latest:
        for one, count in (grown.pop() if grown else {}).items():
            latest[one] = latest.get(one, 0) + count
        cluster = Cluster(dict.fromkeys(latest, 0), dict(latest), {topic: IDS[topic] for topic, _ in latest})
        found = advance(seen, cluster)
        end = limited(seen, found.end, limit)
        assert not found.losses
        batch = {one: (start, end.offsets[one]) for one, start in starts(seen, end).items()}
        assert sum(last - start for start, last in batch.values()) <= limit + len(batch)
        for one, (start, last) in batch.items():
            assert start == read.get(one, begins.get(one, 0)) and start <= last <= latest[one]
            read[one] = last
        seen = StreamOffset.from_json(end.to_json())


def test_available_now_ends_at_its_target() -> None:
    target = at({("a", 0): 50})
    end = no_further(at({("a", 0): 70, ("a", 1): 5, ("b", 0): 3}), target)
    assert (dict(end.offsets), dict(end.topic_ids)) == ({("a", 0): 50}, {"a": "id-a"})
