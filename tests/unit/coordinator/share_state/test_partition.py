"""One share partition over its records: what cannot have been written is refused, before it takes memory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_state.holds import HOLDS_MAX
from bmq.coordinator.share_state.partition import OFFSET_MAX, REACH_MAX, PartitionKey, SharePartition
from bmq.coordinator.share_state.window import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, SPAN_MAX
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.share_state_records import LockedRecords, SnapshotValue, StateBatch, UpdateValue

pytestmark = pytest.mark.unit

NOW = Moment(0.0, 1_000)
START = 10


def partition(start: int = START) -> SharePartition:
    made = SharePartition(PartitionKey("g", UUID(int=7), 0), 0)
    made.begin(SnapshotValue(start_offset=start), NOW)
    return made


def batch(first: int, last: int, state: int = AVAILABLE) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=1)


def delayed(offset: int) -> StateBatch:
    return StateBatch(first_offset=offset, last_offset=offset, delivery_state=AVAILABLE, delivery_count=1, due_ms=9_000)


def locked(first: int, last: int) -> LockedRecords:
    return LockedRecords(first_offset=first, last_offset=last, deadline_ms=2_000, member_id="a")


@pytest.mark.parametrize(
    "fields",
    [
        {"state_batches": (batch(START, START, -1),)},
        {"state_batches": (batch(START, START, ACQUIRED),)},
        {"state_batches": (batch(START, START, 5),)},
        {"state_batches": (batch(START + 5, START + 4),)},
        {"state_batches": (batch(-1, START),)},
        {"state_batches": (batch(START, START + REACH_MAX + 1),)},
        {"state_batches": (batch(START + 1, 2**62, ACKNOWLEDGED),)},
        {"state_batches": (batch(0, OFFSET_MAX, ARCHIVED),)},
        {"locks": (locked(START, START + REACH_MAX + 1),)},
        {"locks": (locked(START + 5, START + 4),)},
        {"locks": (locked(-1, -1),)},
        {"locks": tuple(locked(START + number, START + number) for number in range(HOLDS_MAX + 1))},
        {"state_batches": tuple(delayed(START + number) for number in range(HOLDS_MAX + 1))},
        {
            "state_batches": tuple(delayed(START + number) for number in range(0, HOLDS_MAX, 2)),
            "locks": tuple(locked(START + number, START + number) for number in range(1, HOLDS_MAX + 2, 2)),
        },
        {"start_offset": OFFSET_MAX + 1},
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        partition().change(UpdateValue(**fields), NOW)
    with pytest.raises(MalformedMessage):
        partition().begin(SnapshotValue(**{"start_offset": START, **fields}), NOW)


def test_what_the_decisions_may_write_is_taken() -> None:
    far = partition()
    last = START + SPAN_MAX - 1
    far.change(UpdateValue(state_batches=(batch(last, last),), locks=(locked(last, last),)), NOW)
    assert far.window is not None and far.window.locked == 1
    # All from the start on are done: of any length, in no memory.
    far.change(UpdateValue(state_batches=(batch(START, 2**61, ARCHIVED),)), NOW)
    assert (far.start_offset, len(far.window.states)) == (2**61 + 1, 0)
