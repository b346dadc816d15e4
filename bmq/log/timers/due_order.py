"""Which held records of one partition are pending, which is next, and how far deliveries have come. Pure.

The order follows the log: holds, cancellations and deliveries are placed when they get offsets, take effect when they are
durable, and are undone when they are refused.

Records move from memory to runs (bmq/broker/timers): `seal` sets durable records apart, and `drop_sealed` forgets them once runs
have them. `load` brings the first records of a run back. No delivery passes a record that is not loaded yet (`unloaded`).

A cancelled record stops being pending when its cancellation is durable. Until then no delivery passes it, so in the log no
delivery of a record comes behind its cancellation. If the record is in a run, or may be, the cancellation waits until deliveries
come to it.

Committed half messages (`kept`) are pending like delayed records, but stay in the log until they are delivered: no run has them,
and they cannot be cancelled. HalfOrder, not this class, says from which offset the log is needed for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from sortedcontainers import SortedDict

from bmq.dataclass import dataclass
from bmq.log.timers.announcements import START, Position
from bmq.log.timers.waiting_records import Hold, Pending, WaitingRecords, pending_of

CANCELLED_MAX: Final = 10_000
"""How many cancelled records are remembered, so that a repeated cancellation is answered like the first."""
PAGE_RECORDS: Final = 1_000
"""Records in one page of `upcoming`: some 1 ms of the event loop."""


_LAST: Final = Position(2**63, 0)


@dataclass(slots=True)
class _Placed:
    """One append in flight: a hold, a cancellation, a delivery or a commit of half messages.

    It takes effect when the high watermark reaches `end_offset`. `first`: the first place that it holds, cancels or commits; no
    delivery passes that meanwhile.
    """

    start_offset: int
    end_offset: int
    first: Position | None = None
    held: Sequence[Pending] = ()
    delivered: tuple[Pending, ...] = ()
    cancelled: tuple[Position, ...] = ()
    kept: tuple[Pending, ...] = ()


class _Window:
    """Pending records that are held in the log and in no run.

    `counts`: for each hold, in the order of the log, how many of its entries keep the log: records that are not delivered
    durably, and cancellations of records that may be in a run.
    """

    __slots__ = ("counts", "waiting")

    def __init__(self) -> None:
        self.waiting = WaitingRecords()
        self.counts: dict[int, int] = {}


class DueOrder:
    """The pending records of one partition at its owner, in order of due time and name.

    `position`: the last record delivered durably. `delivered_count`, `cancelled_count`: since the partition is owned.
    `sealed_below`: records held below this offset are set apart for runs; 0 if none are. `unloaded`: for each run with records
    that are not loaded, by its key, a place at or before the first of them. `may_be_in_run`: whether a run may have a record at
    a place.
    """

    def __init__(self, position: Position = START) -> None:
        self.position = position
        self.sealed_below = 0
        self.unloaded: dict[Hashable, Position] = {}
        self.may_be_in_run: Callable[[Position], bool] = lambda _: False
        self.delivered_count = 0
        self.cancelled_count = 0
        self._floor = position  # the last place ever taken: no hold may come before it, even if the clock is set back
        self._window = _Window()
        self._sealed = _Window()
        self._kept = WaitingRecords()
        self._kept_holds: Counter[int] = Counter()  # half messages not delivered durably, by their hold
        self._loaded = WaitingRecords()
        self._cancels: SortedDict[Position, int] = SortedDict()  # target -> hold_offset of its cancellation
        self._cancelled: dict[Position, None] = {}  # the last CANCELLED_MAX targets, oldest first
        self._taken_count = 0
        self._placed: deque[_Placed] = deque()

    # --- the present state

    def __len__(self) -> int:
        """How many records in memory are pending, or in flight to be held."""
        on_their_way = sum(len(one.held) + len(one.kept) for one in self._placed)
        return self.window_waiting_count + len(self._kept) + len(self._loaded) + on_their_way

    @property
    def window_waiting_count(self) -> int:
        """How many durable records are pending and in no run."""
        return len(self._window.waiting) + len(self._sealed.waiting)

    @property
    def window_count(self) -> int:
        """How many records and cancellations take memory until runs have them: those that wait, and those in flight."""
        on_their_way = sum(len(one.held) + len(one.cancelled) for one in self._placed)
        return self.window_waiting_count + len(self._cancels) + on_their_way

    @property
    def loaded_count(self) -> int:
        """How many pending records were loaded from runs."""
        return len(self._loaded)

    @property
    def is_settled(self) -> bool:
        """Whether no delivery is under way: each record that was taken is delivered durably or given back."""
        return not self._taken_count

    @property
    def floor_ms(self) -> int:
        """The earliest due time that a new record may be held with; a delivery would pass an earlier one."""
        return self._floor.due_ms

    @property
    def next_due_ms(self) -> int | None:
        """Due time of the next record to deliver or to load; None if there is none, or if it waits for an append in flight."""
        first, limit = self._first(), self._limit()
        return None if first is None or (limit is not None and first >= limit) else first.due_ms

    @property
    def first_due_ms(self) -> int | None:
        """Due time of the first pending record, or an earlier time; None if no record is pending."""
        first = self._first()
        return None if first is None else max(first, self.position).due_ms

    def _first(self) -> Position | None:
        firsts = [first.position for waiting in self._lists() if (first := waiting.first) is not None]
        return min((*firsts, *self.unloaded.values()), default=None)

    def open_some(self, count_max: int) -> bool:
        """Sort about `count_max` more records of holds; whether some are left. Call until False, so that `listed` is fast."""
        return any(window.waiting.open_some(count_max) for window in (self._window, self._sealed))

    def listed(self, after: Position, limit: int) -> tuple[Position, ...]:
        """The places of the first `limit` pending records behind `after`, without half messages and records of runs."""
        found: list[Position] = []
        for window in (self._window, self._sealed):
            places = window.waiting.behind(after)
            found += islice((place for place in places if place not in self._cancels), limit)
        return tuple(sorted(found)[:limit])

    @property
    def cancels_count(self) -> int:
        """How many durable cancellations wait for their records."""
        return len(self._cancels)

    @property
    def waiting_cancels(self) -> tuple[Position, ...]:
        """The records that waiting cancellations name."""
        return tuple(self._cancels)

    def is_cancelled(self, target: Position) -> bool:
        """Whether a durable cancellation of this record waits."""
        return target in self._cancels

    @property
    def has_kept(self) -> bool:
        """Whether committed half messages are pending, or taken for a delivery."""
        return bool(self._kept_holds)

    def is_kept(self, record: Pending) -> bool:
        """Whether this record is a committed half message."""
        return record.hold_offset in self._kept_holds

    @property
    def is_delivering(self) -> bool:
        return any(one.delivered for one in self._placed)

    def oldest_needed(self, high_watermark: int) -> int:
        """The offset from which the log is needed: the oldest hold of a pending record, or append in flight."""
        first = next(iter(self._sealed.counts or self._window.counts), high_watermark)
        oldest = min(first, high_watermark)
        return min(oldest, self._placed[0].start_offset) if self._placed else oldest

    def why_not_cancelled(self, target: Position, is_in_run: Callable[[Position], bool] = lambda _: True) -> str:
        """A sentence that says why the record cannot be cancelled; empty if it can, or was before.

        `is_in_run`: called for a place in whose range there is a run.
        """
        if target in self._cancelled or any(waiting.has(target) for waiting in self._delayed_lists()):
            return ""
        if target <= self.position:
            return f"too late: what was due at {target.due_ms} has been delivered"
        if target <= self._floor:
            return f"too late: what was due at {target.due_ms} is being delivered"
        if self.may_be_in_run(target) and is_in_run(target):
            return ""
        return f"no delayed record of this partition has offset {target.offset} and is due at {target.due_ms}"

    # --- events

    def recover(
        self,
        pending: Iterable[Pending],
        cancelled: Mapping[Position, int] | None = None,
        kept: Iterable[Pending] = (),
    ) -> None:
        """Begin with what a replay of the log has found.

        `pending`: held records, in the order of their holds. `cancelled`: the records that cancellations name, each with the hold
        that has the cancellation. `kept`: committed half messages. Records up to the position were delivered, and are ignored.
        """
        cancelled = {} if cancelled is None else cancelled
        unmet = {target: hold_offset for target, hold_offset in cancelled.items() if target > self.position}
        above = [record for record in pending if record.position > self.position]
        found = [record for record in above if unmet.pop(record.position, None) is None] if unmet else above
        self._window.waiting.update(found)
        unmet = {target: hold_offset for target, hold_offset in unmet.items() if self._may_come(target)}
        self._cancels.update(unmet)
        hold_offsets = [record.hold_offset for record in found]
        self._window.counts = dict(Counter(sorted((*hold_offsets, *unmet.values()))))  # in the order of the log
        for target in cancelled:
            self._remember(target)
        for record in kept:
            if record.position > self.position:
                self._keep(record)

    def take(self, now_ms: int, count_max: int) -> list[Pending]:
        """Take the next due records, in order. `place_delivery` or `give_back` has to follow.

        Takes no record behind one whose hold is in flight: that one would count as delivered. The clock of deliveries is never
        behind the position, so a due time that was reached once stays reached.
        """
        now_ms = max(now_ms, self.position.due_ms)
        limit = self._limit()
        if self.unloaded:
            limit = min(self.unloaded.values()) if limit is None else min(limit, *self.unloaded.values())
        taken: list[Pending] = []
        lists = self._lists()
        behind = Position(now_ms + 1, 0)
        before = behind if limit is None else min(limit, behind)
        while not taken:
            heads = [waiting.heads(before, count_max) for waiting in lists]
            numbers = sorted(chain.from_iterable(heads))[:count_max]
            if not numbers:
                return []
            for waiting, head in zip(lists, heads, strict=True):
                waiting.drop(bisect_right(head, numbers[-1]))
            taken = self._without_cancelled(list(map(pending_of, numbers)))
        self._floor = max(self._floor, taken[-1].position)
        self._taken_count += len(taken)
        return taken

    def open_due(self, until_ms: int, count_max: int) -> bool:
        """Sort about `count_max` more due records of holds; whether some are left.

        Call until False before `take` and `upcoming`, which else take long if many holds have due records.
        """
        behind = Position(until_ms + 1, 0)
        return any(waiting.open_due(behind, count_max) for waiting in self._held_lists())

    def upcoming(self, until_ms: int, count_max: int) -> Iterator[list[Pending]]:
        """Pages of the next records, in order, that the log holds, are due by `until_ms` and are not taken.

        At most `count_max` in all, PAGE_RECORDS a page, as they are at the call. Some may be cancelled.
        """
        behind = Position(until_ms + 1, 0)
        heads = [waiting.heads(behind, count_max) for waiting in self._held_lists()]
        numbers = sorted(chain.from_iterable(heads))[:count_max]
        for start in range(0, len(numbers), PAGE_RECORDS):
            yield list(map(pending_of, numbers[start : start + PAGE_RECORDS]))

    def give_back(self, records: Iterable[Pending]) -> None:
        """Make taken records pending again, because they are not in flight."""
        for record in records:
            self._taken_count -= 1
            if record.hold_offset in self._kept_holds:
                waiting = self._kept
            else:
                waiting = self._loaded if record.is_in_run else self._window_of(record.hold_offset).waiting
            waiting.add(record)

    def place(
        self, hold_offset: int, records: Sequence[Pending], cancelled: Sequence[Position], end_offset: int
    ) -> None:
        """Note a hold in flight: its announcement is at `hold_offset`, and the batch behind it ends at `end_offset`.

        `records`: those that are held. `cancelled`: the records that cancellations in the announcement name.
        """
        firsts = (records.first,) if isinstance(records, Hold) else (record.position for record in records)
        first = min(*firsts, *cancelled, _LAST)
        self._placed.append(_Placed(hold_offset, end_offset, first, records, cancelled=tuple(cancelled)))

    def place_kept(self, records: Sequence[Pending], end_offset: int) -> None:
        """Note a commit of half messages in flight. `hold_offset` of a record: the control batch that holds its half message."""
        first = min(record.position for record in records)
        self._placed.append(_Placed(records[0].hold_offset, end_offset, first, kept=tuple(records)))

    def place_delivery(self, records: Sequence[Pending], start_offset: int, end_offset: int) -> None:
        """Note a delivery in flight. Its records were taken."""
        self._placed.append(_Placed(start_offset, end_offset, delivered=tuple(records)))

    def synced(self, high_watermark: int) -> None:
        """All offsets below `high_watermark` are durable: appends up to there take effect."""
        placed = self._placed
        while placed and placed[0].end_offset <= high_watermark:
            one = placed.popleft()
            if one.held:
                self._wait(one.held)
            for record in one.kept:
                self._keep(record)
            for target in one.cancelled:
                self._cancel(target, one.start_offset)
            if one.delivered:
                self._deliver(one.delivered)

    def rollback(self, end_offset: int) -> None:
        """Undo appends that end past `end_offset`: they are not in the log. No high watermark has passed them."""
        placed = self._placed
        while placed and placed[-1].end_offset > end_offset:
            one = placed.pop()
            if one.delivered:
                self.give_back(one.delivered)

    # --- runs

    def seal(self, high_watermark: int) -> bool:
        """Set durable records apart, to be written to runs; whether there are any. `drop_sealed` or `unseal` has to follow."""
        assert not self.sealed_below
        if not self._window.counts:
            return False
        self.sealed_below = min(high_watermark, self._placed[0].start_offset) if self._placed else high_watermark
        self._sealed, self._window = self._window, _Window()
        return True

    def unseal(self) -> None:
        """Undo `seal`: the runs were not written."""
        sealed, window = self._sealed, self._window
        sealed.waiting.take_over(window.waiting)
        sealed.counts.update(window.counts)  # the window's holds are later ones, so the order stays
        self.sealed_below = 0
        self._sealed, self._window = _Window(), sealed
        met = [target for target in self._cancels if sealed.waiting.has(target)]
        for target in met:
            hold_offset = self._cancels.pop(target)
            if hold_offset != target.offset:
                self._uncount(hold_offset)
            self._cancel(target, hold_offset)

    def sealed_pending(self) -> int:
        """How many of the records set apart are pending."""
        waiting = self._sealed.waiting
        return len(waiting) - sum(map(waiting.has, self._cancels))

    def drop_sealed(self) -> None:
        """Forget the records set apart: runs have them, or they are delivered. Only while `is_settled`."""
        assert self.is_settled
        # Cancellations in the sealed holds are in the runs too, and are loaded again before their records are passed.
        held = [(target, hold_offset) for target, hold_offset in self._cancels.items() if hold_offset != target.offset]
        for target, hold_offset in held:
            if hold_offset < self.sealed_below:
                del self._cancels[target]
        self.sealed_below = 0
        self._sealed = _Window()

    def load(self, records: Iterable[tuple[int, int]], cancelled: Iterable[Position] = ()) -> None:
        """Add records of a run, as (due time, name), and the targets of its cancellations.

        None of the records is loaded already, and all are above the position.
        """
        self._loaded.load(records)
        for target in cancelled:
            self._cancels.setdefault(target, target.offset)

    def unload(self) -> None:
        """Forget all records and cancellations loaded from runs; the caller sets `unloaded` anew. Only while `is_settled`."""
        assert self.is_settled
        self._loaded.clear()
        for target in [target for target, hold_offset in self._cancels.items() if hold_offset == target.offset]:
            del self._cancels[target]

    # --- inside

    def _limit(self) -> Position | None:
        """The first place of an append in flight, which no delivery may pass; None without one."""
        return min((one.first for one in self._placed if one.first is not None), default=None)

    def _lists(self) -> tuple[WaitingRecords, ...]:
        return self._window.waiting, self._sealed.waiting, self._loaded, self._kept

    def _held_lists(self) -> tuple[WaitingRecords, ...]:
        return self._window.waiting, self._sealed.waiting

    def _delayed_lists(self) -> tuple[WaitingRecords, ...]:
        return self._window.waiting, self._sealed.waiting, self._loaded

    def _window_of(self, hold_offset: int) -> _Window:
        return self._sealed if hold_offset < self.sealed_below else self._window

    def _wait(self, records: Sequence[Pending]) -> None:
        """Make the records of one hold pending."""
        window = self._window
        if isinstance(records, Hold):
            window.waiting.add_hold(records)
        else:
            window.waiting.update(records)
        self._count(records[0].hold_offset, len(records))

    def _keep(self, record: Pending) -> None:
        self._kept.add(record)
        self._kept_holds[record.hold_offset] += 1

    def _deliver(self, records: Sequence[Pending]) -> None:
        self.delivered_count += len(records)
        self._taken_count -= len(records)
        self.position = records[-1].position
        for hold_offset, count in Counter(one.hold_offset for one in records if not one.is_in_run).items():
            if hold_offset not in self._kept_holds:
                self._uncount(hold_offset, count)
                continue
            self._kept_holds[hold_offset] -= count
            if not self._kept_holds[hold_offset]:
                del self._kept_holds[hold_offset]
        while self._cancels and self._cancels.peekitem(0)[0] <= self.position:
            target, hold_offset = self._cancels.popitem(0)
            if hold_offset != target.offset:
                self._uncount(hold_offset)

    def _cancel(self, target: Position, hold_offset: int) -> None:
        record = self._window.waiting.pop(target)
        if record is not None:
            self._uncount(record.hold_offset)
            self.cancelled_count += 1
        elif target > self.position and target not in self._cancels and self._may_come(target):
            self._cancels[target] = hold_offset
            self._count(hold_offset)
        self._remember(target)

    def _may_come(self, target: Position) -> bool:
        """Whether the record may be in a run, or is being written to one."""
        return self.may_be_in_run(target) or self._sealed.waiting.has(target)

    def _without_cancelled(self, records: list[Pending]) -> list[Pending]:
        """These records without the cancelled ones. Their cancellations stay: the record may be in a run, and be loaded again."""
        if not self._cancels:
            return records
        left = [record for record in records if record.position not in self._cancels]
        self.cancelled_count += len(records) - len(left)
        for record in records:
            if not record.is_in_run and record.position in self._cancels:
                self._uncount(record.hold_offset)
        return left

    def _remember(self, target: Position) -> None:
        self._cancelled[target] = None
        if len(self._cancelled) > CANCELLED_MAX:
            del self._cancelled[next(iter(self._cancelled))]

    def _count(self, hold_offset: int, count: int = 1) -> None:
        counts = self._window.counts
        counts[hold_offset] = counts.get(hold_offset, 0) + count

    def _uncount(self, hold_offset: int, count: int = 1) -> None:
        counts = self._window_of(hold_offset).counts
        left = counts[hold_offset] - count
        if left:
            counts[hold_offset] = left
        else:
            del counts[hold_offset]
