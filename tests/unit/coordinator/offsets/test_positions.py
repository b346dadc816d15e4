"""Committed offsets as numbers for metrics: the same as those that are read, and looking changes nothing."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.offsets.offset_columns import TopicOffsets
from bmq.coordinator.offsets.offsets import Offsets
from bmq.protocol.group_records import OffsetCommitKey, OffsetCommitValue

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=7)
ONE = st.tuples(st.just("one"), st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 99) | st.none())
COLUMNS = st.tuples(
    st.just("columns"), st.sampled_from("ab"), st.lists(st.integers(0, 3), min_size=1, unique=True), st.integers(0, 99)
)


def value_of(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, leader_epoch=1, metadata="", commit_timestamp_ms=5)


def read(offsets: Offsets, group: str) -> dict[str, dict[int, int]]:
    return {
        topic: {index: value.offset for index, value in of.items()} for topic, of in offsets.committed(group).items()
    }


@given(st.lists(ONE | COLUMNS, max_size=12))
def test_they_are_what_is_committed(history: list[tuple[str, str, object, int | None]]) -> None:
    offsets = Offsets(CoordinatorConfig())
    for kind, topic, where, offset in history:
        if kind == "one":
            assert isinstance(where, int)
            offsets.replay(OffsetCommitKey("g", topic, where), None if offset is None else value_of(offset))
        else:
            assert isinstance(where, list) and offset is not None
            offsets.replay_topic("g", topic, TOPIC_ID, where, [offset] * len(where), [1] * len(where), 5)
    before = offsets.positions("g")
    assert offsets.positions("g") == before, "looking changes nothing"
    assert before == read(offsets, "g")
    assert offsets.positions("g") == before


def test_packed_offsets_stay_packed() -> None:
    offsets = Offsets(CoordinatorConfig())
    packed = TopicOffsets("g", "a", {0: value_of(4), 2: value_of(9)}).packed()
    offsets.restore(packed)
    assert offsets.positions("g") == {"a": {0: 4, 2: 9}}
    assert offsets.copied() == [packed]
    assert offsets.positions("unknown") == {}
