"""Random histories of one log with owners, cuts, refusals and clocks that differ: nothing lost, doubled, early or out of order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.log.timers.announcements import (
    START,
    Cancel,
    Delivery,
    HeldColumns,
    HeldRecord,
    NamedBatch,
    Position,
    encode_delivery,
    encode_held,
)
from bmq.log.timers.due_order import CANCELLED_MAX, DueOrder
from bmq.log.timers.replay import Replay
from bmq.log.timers.waiting_records import Hold as WholeHold
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.record_batch import BatchHeader, rewrite

pytestmark = pytest.mark.unit

ENTRY = Struct(">qqii")


@pytest.fixture(autouse=True)
def short_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.log.timers.waiting_records.HOLD_MIN", 1)


def place_held(order: DueOrder, records: Sequence[Pending], end_offset: int) -> None:
    """Every other time as a whole hold."""
    if end_offset % 4 < 2:
        base = records[0].offset
        entries = [ENTRY.pack(record.due_ms, 0, record.offset - base, 0) for record in records]
        hold = WholeHold(HeldColumns(b"".join(entries)), base, records[0].hold_offset)
        assert list(hold) == list(records)
        records = hold
    order.place(records[0].hold_offset, records, (), end_offset)


@dataclass
class Log:
    """Batches, of which the first `durable` are durable."""

    batches: list[bytearray] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    durable: int = 0

    @property
    def end_offset(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def high_watermark(self) -> int:
        return self.ends[self.durable - 1] if self.durable else 0

    def place(self, batch: bytearray, epoch: int) -> int:
        offset = self.end_offset
        rewrite(batch, 0, offset, epoch)
        self.batches.append(batch)
        self.ends.append(offset + BatchHeader.parse(batch).last_offset_delta + 1)
        return offset

    def cut(self, count: int) -> None:
        del self.batches[count:]
        del self.ends[count:]


class Hold(NamedTuple):
    """What a producer's append placed."""

    offset: int
    due_ms: int
    control: bytearray
    visible: bytearray


class Cancelled(NamedTuple):
    """The same of one that cancels."""

    target: Position
    end_offset: int
    control: bytearray
    visible: bytearray


class Owner:
    """As an owner does it, with a log in place of files. The manifest: where to replay from, and a position."""

    def __init__(self, log: Log, epoch: int, manifest: tuple[int, Position], clock_ms: int) -> None:
        self.log = log
        self.epoch = epoch
        self.clock_ms = clock_ms
        replay = Replay(manifest[1])
        for batch, end in zip(log.batches, log.ends, strict=True):
            if end > manifest[0]:
                replay.add_batch(batch, 0, BatchHeader.parse(batch))
        self.order = DueOrder(replay.position)
        if epoch % 2:
            replay.drop_delivered()
        self.order.recover(replay.pending, replay.cancelled)

    def hold(self, name: int, after_ms: int) -> Hold:
        visible = encode_batch([Record(None, b"")], base_sequence=name, producer_id=1, producer_epoch=0)
        due_ms = max(self.clock_ms + after_ms, self.order.floor_ms)
        header = BatchHeader.parse(visible)
        control = encode_held([HeldRecord(due_ms, 0, 0, b"%d" % name)], NamedBatch.of(header))
        hold_offset = self.log.place(control, self.epoch)
        offset = self.log.place(visible, self.epoch)
        place_held(self.order, [Pending(due_ms, offset, hold_offset)], self.log.end_offset)
        return Hold(offset, due_ms, control, visible)

    def cancel(self, name: int, target: Position) -> Cancelled | None:
        if self.order.why_not_cancelled(target):
            return None
        visible = encode_batch([Record(None, b"")], base_sequence=name, producer_id=3, producer_epoch=0)
        control = encode_held([], NamedBatch.of(BatchHeader.parse(visible)), cancels=[Cancel(target, 0)])
        hold_offset = self.log.place(control, self.epoch)
        self.log.place(visible, self.epoch)
        self.order.place(hold_offset, [], [target], self.log.end_offset)
        return Cancelled(target, self.log.end_offset, control, visible)

    def deliver(self, count_max: int) -> None:
        if self.order.is_delivering:
            return
        due = self.order.take(self.clock_ms, count_max)
        if not due:
            return
        assert all(one.due_ms <= max(self.clock_ms, self.order.position.due_ms) for one in due)
        batch = encode_batch([Record(b"%d" % one.due_ms, b"%d" % one.offset) for one in due])
        announced = Delivery(NamedBatch.of(BatchHeader.parse(batch)), self.order.position, due[-1].position)
        start = self.log.place(encode_delivery(announced), self.epoch)
        self.log.place(batch, self.epoch)
        self.order.place_delivery(due, start, self.log.end_offset)

    def sync(self, count: int) -> None:
        self.log.durable = min(self.log.durable + count, len(self.log.batches))
        self.order.synced(self.log.high_watermark)

    def refuse(self, count: int) -> None:
        """The batches that wait last are refused, as by a full store."""
        self.log.cut(max(self.log.durable, len(self.log.batches) - count))
        self.order.rollback(self.log.end_offset)

    def manifest(self) -> tuple[int, Position]:
        return self.order.oldest_needed(self.log.high_watermark), self.order.position


def facts_of(log: Log, holds: list[Hold]) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """(name -> due time) of all that is held, and what was delivered, in order; by the objects that lie in the log."""
    places = {id(batch): place for place, batch in enumerate(log.batches)}
    held = {
        one.offset: one.due_ms
        for one in holds
        if id(one.visible) in places and places.get(id(one.control)) == places[id(one.visible)] - 1
    }
    delivered: list[tuple[int, int]] = []
    for batch in log.batches:
        header = BatchHeader.parse(batch)
        if not header.is_control and header.producer_id < 0:
            delivered += [(int(one.key or b""), int(one.value or b"")) for one in decode_records(batch)]
    return held, delivered


def durable_cancels(log: Log, cancels: list[Cancelled]) -> list[Cancelled]:
    """Those that count, in the durable part of the log."""
    places = {id(batch): place for place, batch in enumerate(log.batches[: log.durable])}
    return [
        one
        for one in cancels
        if id(one.visible) in places and places.get(id(one.control)) == places[id(one.visible)] - 1
    ]


ACTIONS = st.one_of(
    st.tuples(st.just("hold"), st.integers(1, 30)),
    st.tuples(st.just("deliver"), st.integers(1, 3)),
    st.tuples(st.just("sync"), st.integers(1, 5)),
    st.tuples(st.just("refuse"), st.integers(1, 4)),
    st.tuples(st.just("tick"), st.integers(1, 20)),
    st.tuples(st.just("manifest"), st.just(0)),
    st.tuples(st.just("takeover"), st.integers(-40, 40)),
    st.tuples(st.just("plain"), st.just(0)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
)


DELIVERED = [("hold", 1), ("sync", 9), ("tick", 20), ("deliver", 3), ("sync", 9)]


@given(st.lists(ACTIONS, max_size=60), st.data())
# A hold on its way is not passed; the next owner's clock is behind; a refused delivery; a refused hold; a lost delivery.
@example([("hold", 5), ("sync", 2), ("hold", 1), ("tick", 9), ("deliver", 3), ("sync", 9)], None)
@example([*DELIVERED, ("takeover", -40), ("hold", 1), ("sync", 9)], None)
@example([*DELIVERED[:-1], ("refuse", 2)], None)
@example([("hold", 5), ("sync", 1), ("refuse", 1), ("plain", 0), ("sync", 9), ("takeover", 0)], None)
@example([*DELIVERED[:-1], ("sync", 1), ("refuse", 1), ("plain", 0), ("sync", 9), ("takeover", 0)], None)
@example([*DELIVERED, ("hold", 9), ("manifest", 0), ("sync", 2), ("takeover", 0)], None)
# Cancelled; while it is due, and again; with a takeover; refused; cut; behind a manifest that begins behind the hold.
@example([("hold", 5), ("sync", 9), ("cancel", 0), ("sync", 9)], None)
@example([("hold", 5), ("sync", 9), ("cancel", 0), ("tick", 20), ("deliver", 3), ("cancel", 0), ("sync", 9)], None)
@example([("hold", 5), ("hold", 6), ("sync", 9), ("cancel", 0), ("sync", 9), ("takeover", 0), ("cancel", 0)], None)
@example([("hold", 5), ("sync", 9), ("cancel", 0), ("refuse", 2), ("plain", 0), ("sync", 9), ("takeover", 0)], None)
@example([("hold", 5), ("sync", 9), ("cancel", 0), ("sync", 1), ("refuse", 1), ("plain", 0), ("takeover", 0)], None)
@example([("hold", 5), ("sync", 9), ("cancel", 0), ("sync", 9), ("manifest", 0), ("takeover", 0)], None)
def test_every_held_record_is_delivered_once_in_order(
    actions: list[tuple[str, int]], data: st.DataObject | None
) -> None:
    log = Log()
    manifest = (0, START)
    epoch = 1
    owner = Owner(log, epoch, manifest, 1000)
    name = 0
    holds: list[Hold] = []
    cancels: list[Cancelled] = []
    cancelled: set[int] = set()
    acknowledged: dict[int, int] = {}
    for action, number in actions:
        match action:
            case "hold":
                holds.append(owner.hold(name := name + 1, number))
            case "cancel" if holds:
                hold = holds[-1 - number % len(holds)]
                one = owner.cancel(name := name + 1, Position(hold.due_ms, hold.offset))
                if one is not None:
                    cancels.append(one)
                assert one is None or hold.offset not in {offset for _, offset in facts_of(log, holds)[1]}
            case "plain":
                log.place(encode_batch([Record(None, b"p")], producer_id=2, producer_epoch=0, base_sequence=0), epoch)
            case "deliver":
                owner.deliver(number)
            case "sync":
                owner.sync(number)
            case "refuse":
                owner.refuse(number)
            case "tick":
                owner.clock_ms += number
            case "manifest":
                manifest = owner.manifest()
            case "takeover":
                end = len(log.batches)
                log.cut(end if data is None else data.draw(st.integers(log.durable, end)))
                log.durable = len(log.batches)
                epoch += 1
                owner = Owner(log, epoch, manifest, max(0, owner.clock_ms + number))
        for offset, due_ms in facts_of(log, holds)[0].items():
            if offset < log.high_watermark:
                acknowledged.setdefault(offset, due_ms)
        cancelled |= {one.target.offset for one in durable_cancels(log, cancels)}
    owner.clock_ms = max(owner.clock_ms, *(one.due_ms for one in holds), 0)
    while len(owner.order) or owner.order.is_delivering:
        owner.deliver(2)
        owner.sync(100)
    cancelled |= {one.target.offset for one in durable_cancels(log, cancels)}
    held, delivered = facts_of(log, holds)
    assert held.keys() >= acknowledged.keys()
    assert delivered == sorted(delivered), "in order of due time and name"
    due = sorted((due, offset) for offset, due in held.items() if offset not in cancelled)
    assert [offset for _, offset in delivered] == [offset for _, offset in due]


def test_a_hold_on_its_way_is_not_passed() -> None:
    order = DueOrder()
    place_held(order, [Pending(20, 1, 0)], 2)
    order.synced(2)
    place_held(order, [Pending(10, 3, 2)], 4)
    assert order.take(100, 9) == [], "the record at 3 would count as delivered"
    assert order.next_due_ms is None, "no use to wake up for it"
    order.synced(4)
    assert order.take(100, 9) == [Pending(10, 3, 2), Pending(20, 1, 0)]


def replayed(*batches: tuple[bytearray, int, int], position: Position = START) -> Replay:
    """Of (batch, base offset, leader epoch)."""
    replay = Replay(position)
    for batch, offset, epoch in batches:
        rewrite(batch, 0, offset, epoch)
        replay.add_batch(batch, 0, BatchHeader.parse(batch))
    return replay


def test_an_announcement_without_its_batch_is_void() -> None:
    visible, other = encode_batch([Record(None, b"a")]), encode_batch([Record(None, b"b")])
    held = encode_held([HeldRecord(5, 0, 0, b"")], NamedBatch.of(BatchHeader.parse(visible)))
    assert replayed((held, 7, 1), (visible, 8, 1)).pending == [Pending(5, 8, 7)]
    assert replayed((held, 7, 1)).pending == []
    assert replayed((held, 7, 1), (other, 8, 1)).pending == []
    assert replayed((held, 7, 1), (visible, 8, 2)).pending == [], "of another owner"
    assert replayed((held, 7, 1), (visible, 9, 1)).pending == []
    assert replayed((held, 7, 1), (other, 8, 1), (visible, 9, 1)).pending == []


def test_a_replay_that_begins_with_a_later_position_keeps_it() -> None:
    batch = encode_batch([Record(None, b"a")])
    behind = NamedBatch.of(BatchHeader.parse(batch))
    delivery = encode_delivery(Delivery(behind, START, Position(5, 8)))
    assert replayed((delivery, 7, 1), (batch, 8, 1)).position == Position(5, 8)
    assert replayed((delivery, 7, 1), (batch, 8, 1), position=Position(9, 2)).position == Position(9, 2)
    assert replayed((delivery, 7, 1), (batch, 8, 2)).position == START


def test_a_hold_is_not_below_what_was_taken() -> None:
    """The clock may be set back while the records of a delivery are read: then a hold comes in front of it in the log."""
    order = DueOrder()
    place_held(order, [Pending(10, 1, 0), Pending(20, 2, 0)], 3)
    order.synced(3)
    due = order.take(100, 9)
    assert order.floor_ms == 20
    order.give_back(due[1:])
    place_held(order, [Pending(order.floor_ms, 4, 3)], 5)
    order.place_delivery(due[:1], 5, 7)
    order.synced(7)
    assert order.take(100, 9) == [Pending(20, 2, 0), Pending(20, 4, 3)]


def test_the_log_is_needed_while_a_record_is_taken_or_on_its_way() -> None:
    order = DueOrder()
    place_held(order, [Pending(10, 1, 0), Pending(30, 2, 0)], 3)
    assert order.oldest_needed(0) == 0
    order.synced(3)
    place_held(order, [Pending(5, 6, 5)], 7)
    assert (order.oldest_needed(3), len(order)) == (0, 3)
    alone = DueOrder()
    place_held(alone, [Pending(5, 6, 5)], 7)
    assert (alone.oldest_needed(6), alone.oldest_needed(5)) == (5, 5), "its announcement is durable, its batch is not"
    order.synced(7)
    due = order.take(100, 9)
    assert (order.oldest_needed(7), len(order), order.next_due_ms) == (0, 0, None)
    order.place_delivery(due, 7, 10)
    assert order.oldest_needed(7) == 0 and order.is_delivering
    order.synced(10)
    assert order.oldest_needed(10) == 10 and order.position == Position(30, 2)


def test_a_refused_delivery_is_pending_again() -> None:
    order = DueOrder()
    place_held(order, [Pending(10, 1, 0)], 2)
    order.synced(2)
    order.place_delivery(order.take(10, 9), 2, 4)
    assert order.floor_ms == 10
    order.rollback(3)  # its announcement is in the log, the records are not
    assert (order.position, order.floor_ms, order.next_due_ms) == (START, 10, 10)
    assert order.take(9, 9) == []
    assert order.take(10, 9) == [Pending(10, 1, 0)]


def test_the_clock_of_deliveries_is_not_behind_the_position() -> None:
    order = DueOrder(Position(50, 3))
    order.recover([Pending(40, 9, 8), Pending(50, 2, 0), Pending(50, 5, 4), Pending(51, 7, 6)])
    assert order.take(10, 9) == [Pending(50, 5, 4)], (
        "that time has been reached once; the others were delivered, or are not due"
    )


def held(order: DueOrder, *records: Pending) -> None:
    """They are durable."""
    end_offset = max(record.offset for record in records) + 1
    place_held(order, records, end_offset)
    order.synced(end_offset)


def test_no_delivery_passes_a_cancellation_on_its_way() -> None:
    order = DueOrder()
    held(order, Pending(10, 1, 0), Pending(20, 2, 0), Pending(30, 3, 0))
    order.place(4, [], [Position(20, 2)], 6)
    assert order.take(100, 9) == [Pending(10, 1, 0)]
    assert order.next_due_ms is None, "no use to wake up before it is durable"
    order.synced(6)
    assert (len(order), order.cancelled_count) == (1, 1)
    assert order.take(100, 9) == [Pending(30, 3, 0)]


def test_a_refused_cancellation_cancels_nothing() -> None:
    order = DueOrder()
    held(order, Pending(10, 1, 0))
    order.place(2, [], [Position(10, 1)], 4)
    order.rollback(3)
    assert order.take(100, 9) == [Pending(10, 1, 0)]


def test_the_log_is_not_needed_for_what_was_cancelled() -> None:
    order = DueOrder()
    held(order, Pending(10, 1, 0), Pending(20, 2, 0))
    order.place(3, [], [Position(10, 1), Position(20, 2)], 5)
    assert order.oldest_needed(3) == 0
    order.synced(5)
    assert (order.oldest_needed(5), order.next_due_ms, len(order)) == (5, None, 0)


def test_why_a_record_cannot_be_cancelled_is_said() -> None:
    order = DueOrder()
    held(order, Pending(10, 1, 0), Pending(20, 2, 0), Pending(30, 3, 0))
    assert [order.why_not_cancelled(Position(due, offset)) for due, offset in ((10, 1), (20, 2))] == ["", ""]
    foreign = "no delayed record of this partition has offset 2 and is due at 30"
    assert order.why_not_cancelled(Position(30, 2)) == foreign
    due = order.take(10, 9)
    assert order.why_not_cancelled(Position(10, 1)) == "too late: what was due at 10 is being delivered"
    order.place_delivery(due, 4, 6)
    order.synced(6)
    assert order.why_not_cancelled(Position(10, 1)) == "too late: what was due at 10 has been delivered"
    order.place(6, [], [Position(20, 2)], 8)
    order.place(8, [], [Position(20, 2)], 10)
    order.synced(10)
    assert order.why_not_cancelled(Position(20, 2)) == "", "a cancellation may be sent again"
    assert (len(order), order.cancelled_count, order.delivered_count) == (1, 1, 1)


def test_so_many_cancelled_records_are_remembered() -> None:
    order = DueOrder()
    count = CANCELLED_MAX + 1
    order.recover((), {Position(10, offset): 5 for offset in range(count)})
    assert order.why_not_cancelled(Position(10, 0)).startswith("no delayed record")
    assert order.why_not_cancelled(Position(10, 1)) == order.why_not_cancelled(Position(10, count - 1)) == ""


def test_a_replay_forgets_cancelled_records_and_keeps_cancellations_of_what_it_has_not_seen() -> None:
    """The hold of such a one lies before the replay began."""
    visible, two = encode_batch([Record(None, b"a")]), encode_batch([Record(None, b"b"), Record(None, b"c")])
    held_one = encode_held([HeldRecord(5, 0, 0, b"")], NamedBatch.of(BatchHeader.parse(visible)))
    cancels = [Cancel(Position(5, 8), 0), Cancel(Position(9, 3), 1)]
    cancelling = encode_held([], NamedBatch.of(BatchHeader.parse(two)), cancels=cancels)
    replay = replayed((held_one, 7, 1), (visible, 8, 1), (cancelling, 9, 1), (two, 10, 1))
    assert replay.pending == [Pending(5, 8, 7)]
    replay.drop_delivered()
    assert (replay.pending, replay.cancelled) == ([], {Position(9, 3): 9})


def test_what_is_set_apart_is_pending_until_it_is_in_runs() -> None:
    order = DueOrder()
    order.recover([Pending(30, 1, 0), Pending(10, 2, 0)])
    place_held(order, [Pending(20, 6, 5)], 7)
    assert order.seal(5) and order.sealed_below == 5
    order.synced(7)
    assert (order.oldest_needed(7), order.sealed_pending(), order.window_count) == (0, 2, 3)
    (first,) = order.take(10, 9)
    assert first == Pending(10, 2, 0) and not order.is_settled
    order.give_back([first])
    order.drop_sealed()
    assert (order.oldest_needed(7), order.window_count) == (5, 1), "the hold behind it is in no run"
    order.unloaded["run"] = Position(10, 2)
    assert (order.next_due_ms, order.take(100, 9)) == (10, []), "it has to be read first"
    order.load([Position(10, 2)])
    order.unloaded["run"] = Position(30, 1)
    assert order.take(100, 9) == [Pending(10, 2, 2), Pending(20, 6, 5)]
    order.place_delivery([Pending(10, 2, 2), Pending(20, 6, 5)], 7, 10)
    order.synced(10)
    assert order.is_settled and order.oldest_needed(10) == 10


def test_what_was_set_apart_in_vain_is_in_memory_as_before() -> None:
    order = DueOrder()
    order.recover([Pending(30, 1, 0), Pending(10, 2, 0)])
    assert order.seal(5)
    order.place(5, [Pending(20, 6, 5)], [Position(30, 1)], 7)
    order.synced(7)
    assert (order.sealed_pending(), order.cancels_count) == (1, 1)
    order.unseal()
    assert (order.cancels_count, order.cancelled_count, order.oldest_needed(7)) == (0, 1, 0)
    assert order.take(100, 9) == [Pending(10, 2, 0), Pending(20, 6, 5)]


def test_a_cancellation_of_a_record_in_a_run_waits_for_it_and_needs_the_log() -> None:
    order = DueOrder()
    order.may_be_in_run = lambda place: place.offset < 5
    order.unloaded["run"] = Position(10, 1)
    order.place(5, [], [Position(20, 2)], 7)
    order.synced(7)
    assert (order.cancels_count, order.oldest_needed(7)) == (1, 5)
    assert order.seal(7), "the cancellation has to be written to a run"
    order.drop_sealed()
    assert (order.oldest_needed(7), order.cancels_count) == (7, 0)
    order.load([Position(10, 1), Position(20, 2), Position(30, 3)], [Position(20, 2)])
    place_held(order, [Pending(90, 8, 7)], 9)
    order.synced(9)
    assert order.seal(9)
    order.drop_sealed()
    assert order.cancels_count == 1, "it was loaded from another run, and is not loaded again"
    order.unloaded.clear()
    due = order.take(100, 9)
    assert [one.offset for one in due] == [1, 3]
    order.place_delivery(due, 9, 12)
    order.synced(12)
    assert (order.cancels_count, order.cancelled_count) == (0, 1)


def test_an_owner_that_replays_keeps_cancellations_of_what_may_be_in_runs_alone() -> None:
    order = DueOrder()
    order.may_be_in_run = lambda place: place.offset < 3
    cancelled = {Position(20, 2): 8, Position(20, 4): 9, Position(30, 11): 12}
    order.recover([Pending(30, 11, 10), Pending(5, 7, 6)], cancelled)
    assert order.waiting_cancels == (Position(20, 2),)
    assert order.oldest_needed(20) == 6
    assert order.take(100, 9) == [Pending(5, 7, 6)]
