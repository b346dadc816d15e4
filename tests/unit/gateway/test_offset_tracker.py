"""Offsets are committed up to the first record that is not settled, whatever the order is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import data, integers, lists, permutations

from bmq.gateway.offset_tracker import OffsetTracker

pytestmark = pytest.mark.unit


@given(lists(integers(1, 4), min_size=1, max_size=30), data())
def test_a_commit_never_passes_an_unsettled_record(steps: list[int], draw: object) -> None:
    tracker = OffsetTracker()
    offsets: list[int] = []
    for step in steps:
        offsets.append((offsets[-1] if offsets else -1) + step)
        tracker.receive(offsets[-1])
    left = set(offsets)
    for offset in draw.draw(permutations(offsets)):  # type: ignore[attr-defined]
        tracker.settle(offset)
        left.discard(offset)
        commit = tracker.to_commit
        assert tracker.unsettled_count == len(left)
        if commit is not None:
            assert all(one >= commit for one in left)
            tracker.committed(commit)
            assert tracker.to_commit is None
    assert tracker.unsettled_count == 0


def test_what_was_not_received_is_not_settled() -> None:
    tracker = OffsetTracker()
    with pytest.raises(ValueError, match="offset 3 was not received"):
        tracker.settle(3)
    tracker.receive(3)
    tracker.settle(3)
    assert tracker.to_commit == 4
    with pytest.raises(ValueError, match="offset 3 was not received"):
        tracker.settle(3)
