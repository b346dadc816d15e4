"""Producer state: Kafka's rules one by one, then any history of produce, sync and rollback against a replay of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.aio.loop_turns import run_in_turns
from bmq.log.partition_log import AbortedTransaction
from bmq.log.producer_state import (
    BATCHES_KEPT,
    IDLE_MS_MIN,
    CorruptSnapshot,
    PlacedBatch,
    ProducerEntry,
    ProducerStates,
)
from bmq.protocol.control_batch import ControlType, EndTransactionMarker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader
from bmq.protocol.turns import at_once

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000
LAST_SEQUENCE = 2**31 - 1


def header(
    sequence: int = 0,
    *,
    producer: int = 7,
    epoch: int = 0,
    count: int = 1,
    timestamp_ms: int = 1_000,
    is_transactional: bool = False,
    is_control: bool = False,
) -> BatchHeader:
    attributes = (16 if is_transactional else 0) | (32 if is_control else 0)
    return BatchHeader(
        0, 100, 0, 2, 0, attributes, count - 1, timestamp_ms, timestamp_ms, producer, epoch, sequence, count
    )


def marker_header(*, producer: int = 7, epoch: int = 0) -> BatchHeader:
    return header(-1, producer=producer, epoch=epoch, is_transactional=True, is_control=True)


COMMIT = EndTransactionMarker(ControlType.COMMIT, 0)
ABORT = EndTransactionMarker(ControlType.ABORT, 0)


def states_after(*headers: BatchHeader, placed_ms: Sequence[int] = ()) -> ProducerStates:
    states = ProducerStates()
    offset = 0
    for place, each in enumerate(headers):
        assert states.check(each) is None
        states.place(each, offset, placed_ms[place] if placed_ms else NOW_MS)
        offset += each.last_offset_delta + 1
    return states


def refusal(states: ProducerStates, each: BatchHeader, **options: bool) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        states.check(each, **options)
    return caught.value.code


def test_an_unknown_producer_starts_anywhere() -> None:
    assert ProducerStates().check(header(77, epoch=3)) is None


def test_sequences_follow_each_other() -> None:
    states = states_after(header(0, count=3), header(3))
    assert states.check(header(4)) is None
    for sequence in (3, 5, 0, LAST_SEQUENCE):
        if sequence != 3:
            assert refusal(states, header(sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_around() -> None:
    states = states_after(header(LAST_SEQUENCE - 1, count=3))
    assert states.entry(7) is not None
    assert states.check(header(1)) is None
    assert refusal(states, header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    at_the_end = states_after(header(LAST_SEQUENCE))
    assert at_the_end.check(header(0)) is None


def test_the_last_five_batches_are_recognised() -> None:
    states = states_after(*(header(number * 2, count=2) for number in range(7)))
    for number in range(2, 7):
        repeated = states.check(header(number * 2, count=2))
        assert repeated is not None
        assert (repeated.base_offset, repeated.last_offset) == (number * 2, number * 2 + 1)
    # Older ones are not known any more, and a batch cut differently is not the same.
    assert refusal(states, header(2, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(states, header(4, count=3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_starts_with_sequence_0_and_ends_the_old_one() -> None:
    states = states_after(header(0), header(1))
    assert refusal(states, header(2, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, epoch=1)) is None
    states.place(header(0, epoch=1), 2, NOW_MS)
    assert refusal(states, header(2, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    # A duplicate counts within its own epoch only.
    assert states.check(header(0, epoch=1)) == PlacedBatch(0, 0, 2, 2, 1_000)


def test_coordinators_write_without_sequences() -> None:
    states = states_after(header(5))
    assert states.check(header(-1), is_client=False) is None
    assert refusal(states_after(header(0, epoch=4)), header(-1, epoch=3), is_client=False) is (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )


def test_a_transaction_holds_the_last_stable_offset_back_until_its_end_is_durable() -> None:
    states = states_after(header(0), header(1, is_transactional=True), header(2, is_transactional=True))
    assert refusal(states, header(3)) is ErrorCode.INVALID_TXN_STATE
    states.synced(3)
    assert states.last_stable_offset(3) == 1
    states.place_marker(marker_header(), 3, ABORT, NOW_MS)
    assert states.last_stable_offset(3) == 1
    states.synced(4)
    assert states.last_stable_offset(4) == 4
    assert states.aborted.overlapping(0, 4) == [AbortedTransaction(7, 1)]
    assert states.check(header(3)) is None


def test_a_marker_carries_epochs_on() -> None:
    states = states_after(header(0, is_transactional=True))
    states.place_marker(marker_header(epoch=1), 1, EndTransactionMarker(ControlType.COMMIT, 5), NOW_MS)
    entry = states.entry(7)
    assert entry == ProducerEntry(1, 5, NOW_MS, -1, (), 1_000)
    assert refusal(states, header(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, epoch=1)) is None
    with pytest.raises(KafkaError) as caught:
        states.check_marker(marker_header(epoch=0), COMMIT)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as caught:
        states.check_marker(marker_header(epoch=1), EndTransactionMarker(ControlType.COMMIT, 4))
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    states.check_marker(marker_header(epoch=1), EndTransactionMarker(ControlType.COMMIT, 5))
    states.check_marker(marker_header(producer=8), COMMIT)


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "is_taken"),
    [
        (0, 4, True, False),
        (1, 5, True, True),
        (1, 6, True, True),
        (1, 5, False, True),
        (2, 4, True, False),
        (2, 5, True, False),
        (2, 6, True, True),
        (2, 5, False, True),
        (2, 4, False, False),
    ],
)
def test_epochs_of_markers(version: int, epoch: int, is_open: bool, is_taken: bool) -> None:
    """The producer's last epoch is 5."""
    states = states_after(header(0, epoch=5, is_transactional=is_open))
    if is_taken:
        states.check_marker(marker_header(epoch=epoch), COMMIT, version)
        return
    with pytest.raises(KafkaError) as caught:
        states.check_marker(marker_header(epoch=epoch), COMMIT, version)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_where_epochs_are_bumped_an_unknown_producer_starts_at_0() -> None:
    states = ProducerStates()
    states.check_first_sequence(header(0))
    with pytest.raises(KafkaError) as caught:
        states.check_first_sequence(header(1))
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states_after(header(0)).check_first_sequence(header(1))


def test_idle_producers_are_forgotten() -> None:
    states = states_after(
        header(0, producer=1),
        header(0, producer=2, is_transactional=True),
        header(0, producer=3),
        header(0, producer=4),
        placed_ms=(0, 0, 500, 0),
    )
    states.synced(3)
    assert states.expire(1_000, 501) == 1
    assert [number for number in range(1, 5) if states.entry(number)] == [2, 3, 4]
    states.synced(4)
    assert states.expire(1_000, 501) == 1
    assert len(states) == 2


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 400_000), st.booleans()), max_size=20),
    st.integers(1, 6),
)
def test_only_the_longest_silent_make_room(steps: list[tuple[int, bool, int, bool]], count_max: int) -> None:
    """Each step: a batch of a producer, in a transaction or not, later by so much, durable or in flight."""
    states, now_ms = ProducerStates(), 0
    for end_offset, (producer, is_transactional, later_ms, is_durable) in enumerate(steps):
        now_ms += later_ms
        entry = states.entry(producer)
        if entry is not None and entry.transaction_first_offset >= 0:
            states.place_marker(marker_header(producer=producer), end_offset, COMMIT, now_ms)
        else:
            sequence = entry.batches[-1].last_sequence + 1 if entry and entry.batches else 0
            each = header(sequence, producer=producer, is_transactional=is_transactional)
            states.place(each, end_offset, now_ms)
        if is_durable:
            states.synced(end_offset + 1)
    in_flight = {producer for _, producer, _ in states._undo}
    before = dict(states.entries())
    may_go = [
        producer
        for producer, entry in sorted(before.items(), key=lambda item: item[1].placed_ms)
        if entry.transaction_first_offset < 0 and producer not in in_flight and now_ms - entry.placed_ms >= IDLE_MS_MIN
    ]
    wanted = max(0, len(before) - count_max + 1)
    assert states.forget_idle(count_max, now_ms) == min(wanted, len(may_go))
    gone = before.keys() - dict(states.entries()).keys()
    assert sorted(before[producer].placed_ms for producer in gone) == [
        before[producer].placed_ms for producer in may_go[: len(gone)]
    ]


def test_producers_that_must_stay_are_not_looked_at_each_time() -> None:
    states = states_after(
        *(header(0, producer=producer, is_transactional=True) for producer in range(1_500)), placed_ms=[0] * 1_500
    )
    states.synced(1_500)
    states.place(header(0, producer=5_000), 1_500, 0)
    states.synced(1_501)
    assert states.forget_idle(1_000, IDLE_MS_MIN) == 0
    assert states.forget_idle(1_000, IDLE_MS_MIN) == 1
    assert states.entry(5_000) is None and len(states) == 1_500
    assert states.last_stable_offset(1_501) == 0


@pytest.mark.parametrize("timestamp_ms", [-1, 0, NOW_MS - 3 * 86_400_000, NOW_MS + 86_400_000])
def test_a_producer_of_records_of_any_time_is_remembered_from_its_last_batch(timestamp_ms: int) -> None:
    """A backfill writes old timestamps: forgotten by these, its retry would be written twice."""
    states = states_after(header(0, timestamp_ms=timestamp_ms), header(1, timestamp_ms=timestamp_ms))
    states.synced(2)
    for _ in range(2):  # over a takeover as well
        assert states.expire(NOW_MS + 86_399_999, 86_400_000) == 0
        repeated = states.check(header(1, timestamp_ms=timestamp_ms))
        assert repeated is not None and repeated.base_offset == 1
        entry = states.entry(7)
        assert entry is not None and entry.last_timestamp_ms == timestamp_ms
        states = ProducerStates.decode_snapshot(states.encode_snapshot(2))
        at_once(states.correcting_times(NOW_MS + 5_000))
    assert states.expire(NOW_MS + 86_400_000, 86_400_000) == 1


def test_times_of_an_older_releases_snapshot_begin_anew() -> None:
    """It has the batch's timestamp where the time of placing is now; a marker's is that time in both."""
    old_ms = NOW_MS - 7 * 86_400_000
    states = states_after(
        header(0, producer=1, timestamp_ms=old_ms),
        header(0, producer=2, timestamp_ms=old_ms, is_transactional=True),
        header(0, producer=3, timestamp_ms=old_ms),
        header(0, producer=4, timestamp_ms=old_ms),
        placed_ms=(old_ms, old_ms, NOW_MS + 86_400_000, old_ms + 1),
    )
    states.place_marker(marker_header(producer=2), 4, COMMIT, old_ms)
    states = ProducerStates.decode_snapshot(states.encode_snapshot(5))
    at_once(states.correcting_times(NOW_MS))
    placed_ms = [entry.placed_ms for _, entry in sorted(states.entries())]
    assert placed_ms == [NOW_MS, old_ms, NOW_MS, old_ms + 1]


PLACED = st.builds(
    PlacedBatch,
    st.integers(-1, LAST_SEQUENCE),
    st.integers(-1, LAST_SEQUENCE),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.integers(-1, 2**62),
)


def read_entry(*fields: Any) -> ProducerEntry:
    """As a snapshot gives it: it has no timestamp of the last batch or marker beside those of the batches."""
    entry = ProducerEntry(*fields)
    is_marker_last = entry.coordinator_epoch != -1 and entry.transaction_first_offset == -1
    is_batch_last = bool(entry.batches) and not is_marker_last
    return entry._replace(last_timestamp_ms=entry.batches[-1].timestamp_ms if is_batch_last else entry.placed_ms)


ENTRIES = st.builds(
    read_entry,
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**62),
    st.integers(-1, 2**62),
    st.lists(PLACED, max_size=BATCHES_KEPT).map(tuple),
)


def states_of(entries: dict[int, ProducerEntry]) -> ProducerStates:
    states = ProducerStates()
    states._entries.update(entries)
    return states


@given(st.dictionaries(st.integers(0, 2**63 - 1), ENTRIES, max_size=5), st.data())
def test_snapshot_round_trip_and_damage(entries: dict[int, ProducerEntry], data: st.DataObject) -> None:
    snapshot = states_of(entries).encode_snapshot(0)
    decoded = ProducerStates.decode_snapshot(snapshot)
    assert decoded._entries == entries
    damaged = bytearray(snapshot)
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptSnapshot):
        ProducerStates.decode_snapshot(damaged)
    with pytest.raises(CorruptSnapshot):
        ProducerStates.decode_snapshot(snapshot[: data.draw(st.integers(0, len(snapshot) - 1))])


async def test_many_producers_are_encoded_and_decoded_in_slices() -> None:
    """The snapshot is of the moment in which it was taken, whatever is placed before it is encoded."""
    entry = ProducerEntry(0, -1, NOW_MS, -1, (PlacedBatch(0, 0, 5, 5, 1_000),), 1_000)
    states = states_of(dict.fromkeys(range(5_000), entry))
    snapshot = states.snapshot(6)
    states.place(header(1, producer=9), 6, NOW_MS)
    assert sum(1 for _ in snapshot.encoding()) == 2
    data = await run_in_turns(snapshot.encoding())
    assert data == snapshot.encode()
    assert sum(1 for _ in ProducerStates.decoding(data)) == 2
    assert (await run_in_turns(ProducerStates.decoding(data)))._entries == dict.fromkeys(range(5_000), entry)


@given(st.binary(max_size=100))
def test_nonsense_is_no_snapshot(data: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        ProducerStates.decode_snapshot(data)


@dataclass(frozen=True)
class Placed:
    offset: int
    header: BatchHeader
    marker: EndTransactionMarker | None = None


def replay(log: list[Placed]) -> ProducerStates:
    states = ProducerStates()
    for item in log:
        if item.marker is None:
            states.place(item.header, item.offset, NOW_MS)
        else:
            states.place_marker(item.header, item.offset, item.marker, NOW_MS)
    states.synced(log[-1].offset + log[-1].header.last_offset_delta + 1 if log else 0)
    return states


class ProducerHistory(RuleBasedStateMachine):
    """Whatever is placed, synced and rolled back: the state is that of the log as it stands, and nobody's batch twice."""

    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStates()
        self.log: list[Placed] = []
        self.high_watermark = 0
        self.next_sequence: dict[tuple[int, int], int] = {}

    @property
    def end_offset(self) -> int:
        return self.log[-1].offset + self.log[-1].header.last_offset_delta + 1 if self.log else 0

    @rule(producer=st.integers(0, 2), count=st.integers(1, 3), is_bump=st.booleans(), is_transactional=st.booleans())
    def produce(self, producer: int, count: int, is_bump: bool, is_transactional: bool) -> None:
        entry = self.states.entry(producer)
        epoch = 0 if entry is None else entry.epoch + is_bump
        last = entry.batches[-1].last_sequence if entry and entry.batches and not is_bump else -1
        is_transactional |= entry is not None and entry.transaction_first_offset >= 0
        each = header(last + 1, producer=producer, epoch=epoch, count=count, is_transactional=is_transactional)
        assert self.states.check(each) is None
        self.states.place(each, self.end_offset, NOW_MS)
        self.log.append(Placed(self.end_offset, each))

    @precondition(lambda self: self.log)
    @rule(
        producer=st.integers(0, 2),
        marker=st.sampled_from([COMMIT, ABORT]),
        bump=st.integers(-1, 2),
        transaction_version=st.integers(0, 2),
    )
    def end_transaction(self, producer: int, marker: EndTransactionMarker, bump: int, transaction_version: int) -> None:
        entry = self.states.entry(producer)
        epoch = max(0, (entry.epoch if entry else 0) + bump)
        each = marker_header(producer=producer, epoch=epoch)
        is_open = entry is not None and entry.transaction_first_offset >= 0
        least = -1 if entry is None else entry.epoch + (transaction_version == 2 and is_open)
        if epoch < least:
            with pytest.raises(KafkaError) as caught:
                self.states.check_marker(each, marker, transaction_version)
            assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
            return
        self.states.check_marker(each, marker, transaction_version)
        self.states.place_marker(each, self.end_offset, marker, NOW_MS)
        self.log.append(Placed(self.end_offset, each, marker))
        # Behind a new epoch the next batch starts at 0, behind the same one where it was.
        after = self.states.entry(producer)
        assert after is not None and after.transaction_first_offset == -1 and after.epoch == epoch
        assert after.batches == (entry.batches if entry is not None and entry.epoch == epoch else ())

    @rule(data=st.data(), expiration_ms=st.sampled_from([0, 2_000]))
    def expire(self, data: st.DataObject, expiration_ms: int) -> None:
        """Only looked at: a log replayed from its beginning knows what was forgotten."""
        copy = ProducerStates.decode_snapshot(self.states.encode_snapshot(self.end_offset))
        before = dict(copy.entries())
        count = copy.expire(NOW_MS, expiration_ms)
        kept = {producer for producer, entry in before.items() if entry.transaction_first_offset >= 0 or expiration_ms}
        assert {producer for producer, _ in copy.entries()} == kept and count == len(before) - len(kept)

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.log))
        entry = self.states.entry(item.header.producer_id)
        known = entry.batches if entry and entry.epoch == item.header.producer_epoch else ()
        repeated = next((batch for batch in known if batch.base_offset == item.offset), None)
        if item.marker is None and repeated is not None:
            assert self.states.check(item.header) == repeated
        elif item.marker is None:
            with pytest.raises(KafkaError):
                self.states.check(item.header)

    @precondition(lambda self: self.high_watermark < self.end_offset)
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        ends = [item.offset for item in self.log if item.offset > self.high_watermark] + [self.end_offset]
        self.high_watermark = data.draw(st.sampled_from(ends))
        self.states.synced(self.high_watermark)

    @precondition(lambda self: self.high_watermark < self.end_offset)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        ends = [item.offset for item in self.log if item.offset >= self.high_watermark]
        end_offset = data.draw(st.sampled_from(ends))
        self.log = [item for item in self.log if item.offset < end_offset]
        self.states.rollback(end_offset)

    @invariant()
    def state_is_that_of_the_log(self) -> None:
        model = replay(self.log)
        assert self.states._entries == model._entries
        assert list(self.states.aborted) == list(model.aborted)
        durable = replay([item for item in self.log if item.offset < self.high_watermark])
        snapshot = ProducerStates.decode_snapshot(self.states.encode_snapshot(self.high_watermark))
        assert snapshot._entries == {producer: read_entry(*entry[:5]) for producer, entry in durable.entries()}
        assert snapshot.last_stable_offset(self.high_watermark) == durable.last_stable_offset(self.high_watermark)

    @invariant()
    def nothing_undecided_lies_below_the_last_stable_offset(self) -> None:
        """A transaction is decided once its marker is durable."""
        undecided, open_since = [self.high_watermark], {}  # type: ignore[var-annotated]
        for item in self.log:
            producer = item.header.producer_id
            if item.marker is None:
                if item.header.is_transactional:
                    open_since.setdefault(producer, item.offset)
            elif producer in open_since:
                first = open_since.pop(producer)
                if item.offset >= self.high_watermark:
                    undecided.append(first)
        assert self.states.last_stable_offset(self.high_watermark) == min(*undecided, *open_since.values(), 2**63)


TestProducerHistory = ProducerHistory.TestCase
