"""The shard's heap has an entry for each share partition, however many locks it has."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.coordinator.runtime.moment import NEVER_MS, Moment
from bmq.coordinator.share_state.due_partitions import DuePartitions
from bmq.coordinator.share_state.partition import PartitionKey, SharePartition
from bmq.coordinator.share_state.window import ACKNOWLEDGED
from bmq.protocol.share_state_records import LockedRecords, SnapshotValue, StateBatch, UpdateValue

pytestmark = pytest.mark.unit

NOW = Moment(0.0, 0)
ENTRIES_MAX = 1_025
"""Of a heap with few partitions."""


def partition(number: int) -> SharePartition:
    made = SharePartition(PartitionKey("g", UUID(int=7), number), 0)
    made.begin(SnapshotValue(start_offset=0), NOW)
    return made


def lock(made: SharePartition, offset: int, deadline_ms: int) -> None:
    locked = LockedRecords(first_offset=offset, last_offset=offset, deadline_ms=deadline_ms, member_id="a")
    made.change(UpdateValue(locks=(locked,)), NOW)


def accept(made: SharePartition, offset: int) -> None:
    done = StateBatch(first_offset=offset, last_offset=offset, delivery_state=ACKNOWLEDGED, delivery_count=1)
    made.change(UpdateValue(state_batches=(done,)), NOW)


def entries(deadlines: DuePartitions) -> int:
    return len(deadlines._entries)


def test_locks_of_a_partition_have_one_entry() -> None:
    deadlines, made = DuePartitions(), partition(0)
    for offset in range(1_000):
        lock(made, offset, 100 + offset)
        deadlines.watch(made)
    assert (entries(deadlines), deadlines.next_ms) == (1, 100)
    assert deadlines.pop_due(99) is None
    assert deadlines.pop_due(100) is made and deadlines.next_ms == NEVER_MS
    deadlines.watch(made)
    assert (entries(deadlines), deadlines.next_ms) == (1, 100)


def test_what_ended_before_it_ran_out_is_looked_at_once_and_the_next_lock_in_time() -> None:
    deadlines, made = DuePartitions(), partition(0)
    for offset, deadline_ms in ((0, 100), (1, 300)):
        lock(made, offset, deadline_ms)
        deadlines.watch(made)
    accept(made, 0)
    deadlines.watch(made)
    assert deadlines.pop_due(100) is made and made.window is not None
    assert made.window.holds.take_due(100, 10) == []
    deadlines.watch(made)
    assert deadlines.pop_due(299) is None and deadlines.next_ms == 300
    assert deadlines.pop_due(300) is made


def test_an_earlier_deadline_wakes_earlier_and_what_the_heap_had_before_changes_nothing() -> None:
    deadlines, made, other = DuePartitions(), partition(0), partition(1)
    for one, offset, deadline_ms in ((made, 0, 300), (other, 0, 200), (made, 1, 100)):
        lock(one, offset, deadline_ms)
        deadlines.watch(one)
    assert deadlines.pop_due(100) is made and made.window is not None
    assert len(made.window.holds.take_due(100, 10)) == 1
    accept(made, 1)
    deadlines.watch(made)
    assert [deadlines.pop_due(400) for _ in range(3)] == [other, made, None]


def test_the_heap_is_bounded_by_its_partitions() -> None:
    deadlines, made = DuePartitions(), [partition(number) for number in range(10)]
    for number in range(20_000):
        one = made[number % 10]
        lock(one, 0, 30_000 - number)  # ever earlier: what the heap had before is later
        deadlines.watch(one)
        assert entries(deadlines) <= ENTRIES_MAX
    deadlines.clear()
    assert (entries(deadlines), deadlines.next_ms) == (0, NEVER_MS)
