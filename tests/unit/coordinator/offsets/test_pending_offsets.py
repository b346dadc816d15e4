"""Pending offsets against a model that looks at the whole log: whatever the order of commits, ends, deletions and snapshots."""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.offsets.offset_columns import PackedOffsets
from bmq.coordinator.offsets.offsets import Offsets
from bmq.coordinator.offsets.pending_offsets import OpenTransaction, PendingOffset, PendingOffsets
from bmq.coordinator.snapshot import ShardState, decode_snapshot, encode_snapshot
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import OffsetCommitKey, OffsetCommitValue, decode_key
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequestTopics
from tests.unit.coordinator.cluster import FakeTopics

pytestmark = pytest.mark.unit

KEYS = [OffsetCommitKey(group, topic, index) for group in "gh" for topic in "tu" for index in range(2)]
_KEYS = st.sampled_from(KEYS)
_PRODUCERS = st.integers(1, 3)
_WEEK_MS = CoordinatorConfig().offsets_retention_ms


class Entry(NamedTuple):
    """What stands in the log. `producer` 0: of no transaction; `value` None: a tombstone; `ends`: a marker."""

    producer: int = 0
    key: OffsetCommitKey | None = None
    value: OffsetCommitValue | None = None
    ends: str = ""


class OffsetsHistory(RuleBasedStateMachine):
    """What is committed and pending is what the log says, and the same after a restart from any snapshot.

    Method: the model derives everything from the list of entries. An offset counts if it is the furthest one of its
    partition behind the last tombstone that no open or aborted transaction holds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Entry] = []
        self.offsets = Offsets(CoordinatorConfig())
        self.saved: tuple[int, bytes] = (0, b"")

    def write(self, entry: Entry) -> None:
        apply(self.offsets, entry, len(self.log))
        self.log.append(entry)

    @rule(key=_KEYS, offset=st.integers(0, 99))
    def commit(self, key: OffsetCommitKey, offset: int) -> None:
        self.write(Entry(0, key, OffsetCommitValue(offset)))

    @rule(producer=_PRODUCERS, key=_KEYS, offset=st.integers(0, 99))
    def commit_in_transaction(self, producer: int, key: OffsetCommitKey, offset: int) -> None:
        self.write(Entry(producer, key, OffsetCommitValue(offset)))

    @rule(producer=_PRODUCERS, what=st.sampled_from(["commit", "abort"]))
    def end(self, producer: int, what: str) -> None:
        self.write(Entry(producer, ends=what))

    @rule(key=_KEYS)
    def delete(self, key: OffsetCommitKey) -> None:
        self.write(Entry(0, key))

    @rule(group=st.sampled_from("gh"))
    def delete_group(self, group: str) -> None:
        for key, _ in self.offsets.delete_group(group):
            self.write(Entry(0, key_of(key)))
        assert not self.offsets.has_group(group)

    @rule(topic=st.sampled_from("tu"))
    def delete_topic(self, topic: str) -> None:
        for key, _ in self.offsets.delete_topics(frozenset({topic})):
            self.write(Entry(0, key_of(key)))

    @rule(group=st.sampled_from("gh"))
    def expire(self, group: str) -> None:
        records, is_empty = self.offsets.expire(group, None, _WEEK_MS)
        pending = {key for key in self.pending() if key.group == group}
        assert {key_of(key) for key, _ in records} == {k for k in self.committed() if k.group == group} - pending
        assert is_empty == (not pending)
        for key, _ in records:
            self.write(Entry(0, key_of(key)))

    @rule()
    def save(self) -> None:
        state = ShardState([], self.offsets.copied(), self.offsets.pending.copied())
        self.saved = len(self.log), asyncio.run(encode_snapshot(state))

    @rule()
    def restart(self) -> None:
        self.offsets = self.restored()

    def restored(self) -> Offsets:
        offsets = Offsets(CoordinatorConfig())
        start, data = self.saved
        for part in decode_snapshot(data):
            if isinstance(part, PackedOffsets):
                offsets.restore(part)
            else:
                assert isinstance(part, OpenTransaction)
                offsets.pending.restore(part)
        for place in range(start, len(self.log)):
            apply(offsets, self.log[place], place)
        return offsets

    # The model.

    def deleted_at(self, key: OffsetCommitKey) -> int:
        places = [n for n, entry in enumerate(self.log) if entry.key == key and entry.value is None]
        return max(places, default=-1)

    def end_of(self, producer: int, place: int) -> str:
        ends = (entry.ends for entry in self.log[place:] if entry.producer == producer and entry.ends)
        return next(ends, "open")

    def committed(self) -> dict[OffsetCommitKey, OffsetCommitValue]:
        found = {}
        for place, entry in enumerate(self.log):
            if entry.key is None or entry.value is None or place < self.deleted_at(entry.key):
                continue
            if entry.producer == 0 or self.end_of(entry.producer, place) == "commit":
                found[entry.key] = entry.value
        return found

    def pending(self) -> set[OffsetCommitKey]:
        return {
            entry.key
            for place, entry in enumerate(self.log)
            if entry.producer and entry.key is not None and entry.value is not None
            if place > self.deleted_at(entry.key) and self.end_of(entry.producer, place) == "open"
        }

    @invariant()
    def everything_is_as_the_log_says(self) -> None:
        committed, pending = self.committed(), self.pending()
        opened = {
            entry.producer
            for place, entry in enumerate(self.log)
            if entry.producer and not entry.ends and self.end_of(entry.producer, place) == "open"
        }
        for offsets in (self.offsets, self.restored()):
            assert picture(offsets) == (committed, pending)
            assert {n for n in range(1, 4) if offsets.pending.open_epoch(n) is not None} == opened
            assert sorted(offsets.group_ids()) == sorted({key.group for key in {*committed, *pending}})
            assert all(offsets.has_group(key.group) for key in {*committed, *pending})
            assert offsets.count == len(committed)
            assert offsets.pending.count == sum(len(t.offsets) for t in offsets.pending.copied())
            for key in KEYS:
                assert fetched(offsets, key, require_stable=False) == committed.get(key, OffsetCommitValue(-1)).offset
                if key in pending:
                    assert fetched(offsets, key, require_stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert by_producer(self.restored().pending) == by_producer(self.offsets.pending)


def apply(offsets: Offsets, entry: Entry, place: int) -> None:
    if entry.ends:
        offsets.replay_end(entry.producer, is_commit=entry.ends == "commit")
        return
    assert entry.key is not None
    if entry.producer:
        offsets.pending.open(entry.producer, 0)
        offsets.replay_pending(entry.producer, entry.key, entry.value, place)
    else:
        offsets.replay(entry.key, entry.value)


def picture(offsets: Offsets) -> tuple[dict[OffsetCommitKey, OffsetCommitValue], set[OffsetCommitKey]]:
    committed = {
        OffsetCommitKey(group, topic, index): value
        for group in "gh"
        for topic, partitions in offsets.committed(group).items()
        for index, value in partitions.items()
    }
    pending = {OffsetCommitKey(group, *where) for group in "gh" for where in offsets.pending.partitions_of(group)}
    return committed, pending


def by_producer(pending: PendingOffsets) -> dict[int, OpenTransaction]:
    return {transaction.producer_id: transaction for transaction in pending.copied()}


def fetched(offsets: Offsets, key: OffsetCommitKey, *, require_stable: bool) -> int | ErrorCode:
    asked = [OffsetFetchRequestTopics(name=key.topic, partition_indexes=[key.partition])]
    (topic,) = offsets.fetch(key.group, asked, FakeTopics(), require_stable=require_stable)
    (part,) = topic.partitions
    return ErrorCode(part.error_code) or part.committed_offset


def key_of(data: bytes) -> OffsetCommitKey:
    key = decode_key(data)
    assert isinstance(key, OffsetCommitKey)
    return key


OffsetsHistory.TestCase.settings = settings(stateful_step_count=30)
TestOffsetsHistory = OffsetsHistory.TestCase


def test_the_later_record_counts_whichever_transaction_ends_first() -> None:
    pending = PendingOffsets()
    key = KEYS[0]
    for place, producer in enumerate((1, 2)):
        pending.open(producer, 0)
        pending.add(producer, key, OffsetCommitValue(place), place)
    assert pending.end(2, is_commit=True) == [(key, OffsetCommitValue(1))]
    assert pending.partitions_of("g") == {("t", 0)}, "the other one is open, whatever becomes of it"
    assert pending.end(1, is_commit=True) == []
    assert not pending.has_group("g") and pending.count == 0


def test_a_transaction_is_open_until_its_marker() -> None:
    pending = PendingOffsets()
    pending.open(1, 4)
    pending.add(1, KEYS[0], OffsetCommitValue(1), 0)
    pending.erase(KEYS[0])
    assert (pending.open_epoch(1), pending.count) == (4, 0)
    assert pending.copied() == [OpenTransaction(1, 4, {})]
    assert pending.end(1, is_commit=True) == []
    assert pending.open_epoch(1) is None and pending.end(1, is_commit=True) == []


_INT64 = st.integers(-1, 2**63 - 1)
_VALUES = st.builds(
    OffsetCommitValue,
    offset=_INT64,
    leader_epoch=st.integers(-1, 9),
    metadata=st.text(max_size=3),
    commit_timestamp_ms=_INT64,
    expire_timestamp_ms=st.just(-1),
    topic_id=st.sampled_from([None, UUID(int=1)]),
)
_TRANSACTIONS = st.builds(
    OpenTransaction,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.dictionaries(_KEYS, st.builds(PendingOffset, st.integers(0, 2**63 - 1), st.none() | _VALUES), max_size=4),
)


@given(_TRANSACTIONS, st.data())
def test_bytes_of_an_open_transaction(transaction: OpenTransaction, data: st.DataObject) -> None:
    producer, offsets = transaction.encoded()
    assert OpenTransaction.decoded(producer, offsets) == transaction
    for cut in (offsets[:-1], offsets + b"x") if offsets else (b"x",):
        with pytest.raises(MalformedMessage):
            OpenTransaction.decoded(producer, cut)
    with pytest.raises(MalformedMessage):
        OpenTransaction.decoded(producer[:-1], offsets)
    if offsets:
        bad = bytearray(offsets)
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
        try:
            OpenTransaction.decoded(producer, bytes(bad))
        except MalformedMessage:
            pass


def test_a_snapshot_has_a_producer_once() -> None:
    pending = PendingOffsets()
    pending.restore(OpenTransaction(1, 0, {}))
    with pytest.raises(MalformedMessage):
        pending.restore(OpenTransaction(1, 0, {}))
