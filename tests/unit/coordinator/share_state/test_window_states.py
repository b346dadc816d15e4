"""Whatever happens to records of a window, its counts agree with its columns, and a snapshot brings all of it back."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_state.holds import NO_HOLD
from bmq.coordinator.share_state.partition import PartitionKey, SharePartition
from bmq.coordinator.share_state.window import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    ARCHIVING_SPENT,
    AVAILABLE,
    DELAYED,
    Window,
)
from bmq.protocol.dead_letters import DeadReason
from bmq.protocol.share_state_records import (
    LockedRecords,
    SnapshotKey,
    SnapshotValue,
    StateBatch,
    UpdateValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

pytestmark = pytest.mark.unit

LOG_END = 40
KEY = PartitionKey("g", UUID(int=7), 0)
SPANS = st.tuples(st.integers(0, LOG_END), st.integers(1, 8))
STEPS = st.one_of(
    st.tuples(st.just("lock"), SPANS, st.integers(1, 5)),
    st.tuples(st.just("delay"), SPANS, st.integers(1, 5)),
    st.tuples(st.sampled_from(("dead", "spent", "done", "archived", "free")), SPANS, st.integers(1, 5)),
    st.tuples(st.just("pass"), SPANS, st.integers(1, 30)),
    st.tuples(st.just("advance"), SPANS, st.just(0)),
)


def changed(kind: str, first: int, last: int, count: int, wall_ms: int) -> UpdateValue:
    states = {
        "dead": (ARCHIVING, DeadReason.REJECTED),
        "spent": (ARCHIVING, DeadReason.DELIVERY_COUNT),
        "done": (ACKNOWLEDGED, 0),
        "archived": (ARCHIVED, 0),
    }
    state, reason = states.get(kind, (AVAILABLE, 0))
    due_ms = wall_ms + 10 * count if kind == "delay" else 0
    batch = StateBatch(
        first_offset=first, last_offset=last, delivery_state=state, delivery_count=count, due_ms=due_ms, reason=reason
    )
    locked = LockedRecords(first_offset=first, last_offset=last, deadline_ms=wall_ms + 1_000, member_id="m")
    return UpdateValue(start_offset=0, state_batches=[batch], locks=[locked] if kind == "lock" else [])


def check(window: Window) -> None:
    holds = window.holds
    numbers = set(window.numbers) - {NO_HOLD}
    locks = {number for number in numbers if holds.is_lock(number)}
    assert window.delayed == window.states.count(DELAYED) == sum(holds.held(one) for one in numbers - locks)
    assert window.locked == window.states.count(ACQUIRED) == sum(holds.held(one) for one in locks)
    assert (holds.locks, holds.delays, holds.count) == (len(locks), len(numbers - locks), len(numbers))
    assert window.in_use == window.locked + window.delayed
    for state, number in zip(window.states, window.numbers, strict=True):
        assert (number in locks) == (state == ACQUIRED) and (number in numbers - locks) == (state == DELAYED)
    dead = window.first_dead(1_000)
    assert (dead is None) == (window.archiving == 0)
    if dead is not None:
        first, last, count, reason = dead
        wanted = ARCHIVING_SPENT if reason is DeadReason.DELIVERY_COUNT else ARCHIVING
        low, high = first - window.start, last + 1 - window.start
        assert set(window.states[low:high]) == {wanted} and set(window.counts[low:high]) == {count}
        assert window.kept_start(LOG_END * 2) <= first


@given(st.lists(STEPS, max_size=25))
def test_counts_agree_and_a_snapshot_brings_all_back(steps: list[tuple[str, tuple[int, int], int]]) -> None:
    partition = SharePartition(KEY, 1)
    now = Moment(1_000.0, 5_000)
    partition.begin(SnapshotValue(start_offset=0), now)
    window = partition.window
    assert window is not None
    for kind, (first, size), count in steps:
        if kind == "pass":
            now = Moment(now.loop_ms + count, now.wall_ms + count)
            before = set(window.numbers)
            over = [one for one in window.holds.take_due(now.loop_ms, 100) if not window.holds.is_lock(one)]
            for delay in over:
                window.end_delay(delay)
            assert set(window.numbers) == before.difference(over)
        elif kind == "advance":
            window.advance(first)
        else:
            partition.change(changed(kind, first, first + size - 1, count, now.wall_ms), now)
        check(window)
    key = SnapshotKey(group="g", topic_id=KEY.topic_id, partition=0)
    read = decode_value(decode_key(encode_key(key)), encode_value(partition.snapshot(now, 1)))
    assert isinstance(read, SnapshotValue)
    again = SharePartition(KEY, 1)
    again.begin(read, now)
    assert again.window is not None
    check(again.window)
    window.strip()
    reach = max(len(window.states), len(again.window.states))
    assert again.window.start == window.start
    assert again.window.states.ljust(reach, b"\0") == window.states.ljust(reach, b"\0")
    assert again.window.counts.ljust(reach, b"\0") == window.counts.ljust(reach, b"\0")

    def due(one: Window) -> list[float]:
        return [
            one.holds.deadline_ms(number) if state == DELAYED else 0
            for state, number in zip(one.states, one.numbers, strict=True)
        ]

    assert due(again.window)[: len(window.numbers)] == due(window)[: len(again.window.numbers)]
