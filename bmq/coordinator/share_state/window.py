"""The records of one share partition from its start offset on: which are available, locked or done. Decisions only.

Columns of bytes, one entry for each offset from `start` to `end`: state, delivery count, and number of the lock or delay
(holds.py). Records at or past `end` were never given. 10,000 locked records take 40 KB, and 40 bytes for each time a
member acquired some.

A decision on records becomes an append; until it is durable (or has failed) they are reserved, and are neither given nor
acknowledged. So what `apply` does to a window is in the log.

A released record may wait for a while before it is available again: it is delayed, which the log has as available.

Done records at the start leave the window; a record that stays locked there holds up no others, but a window spans
SPAN_MAX offsets at most.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Final

from bmq.coordinator.share_state.holder import Holder, holder_of
from bmq.coordinator.share_state.holds import NO_HOLD, Holds
from bmq.protocol.dead_letters import DeadReason
from bmq.protocol.share_state_records import LockedRecords, StateBatch

AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVING: Final = 3
ARCHIVED: Final = 4
DELAYED: Final = 5
"""Not in Kafka, and in the log as available: it is given again once its back-off is over."""
ARCHIVING_SPENT: Final = 6
"""In the log as archiving: the delivery count has reached its limit. Other archiving records were rejected."""
RESERVED: Final = 0x80
"""Set in a state's byte while an append about the record is in flight."""
SPAN_MAX: Final = 100_000
"""Offsets from the start to the last record that was given."""
COUNT_MAX: Final = 255
"""The highest delivery count that is told apart; limits are far lower."""

_RUN_LENGTH_AT_FIRST: Final = 64
_SEVERAL: Final = -1
"""In place of the number of a hold."""
_DEAD: Final = (ARCHIVING, ARCHIVING_SPENT)
_DONE: Final = bytes((ACKNOWLEDGED, ARCHIVED))
_RESERVE: Final = bytes(byte | RESERVED for byte in range(256))
_FREE: Final = bytes(byte & ~RESERVED for byte in range(256))


class Window:
    """See the module. `start` is the share partition's start offset."""

    __slots__ = ("_pending", "counts", "holds", "numbers", "start", "states")

    def __init__(self, start: int) -> None:
        self.start = start
        self.states = bytearray()
        self.counts = bytearray()
        self.numbers = array("H")
        self.holds = Holds()
        self._pending = 0  # available records that are reserved

    @property
    def end(self) -> int:
        """Follows the last record that was ever given, or is reserved."""
        return self.start + len(self.states)

    @property
    def locked(self) -> int:
        """Records that are locked, or about to be."""
        return self.holds.locked + self._pending

    @property
    def delayed(self) -> int:
        """Records that wait."""
        return self.holds.delayed

    @property
    def in_use(self) -> int:
        """What counts against the limit of locked records: a record that waits keeps its place."""
        return self.holds.locked + self._pending + self.holds.delayed

    @property
    def done(self) -> int:
        """Records past the start that are acknowledged or archived."""
        return self.states.count(ACKNOWLEDGED) + self.states.count(ARCHIVED)

    @property
    def archiving(self) -> int:
        """Records whose dead letters are not written yet."""
        return sum(self.states.count(state) for state in _DEAD)

    def first_dead(self, length_max: int) -> tuple[int, int, int, DeadReason] | None:
        """The first records without their dead letters that are alike: first, last, delivery count and reason."""
        found = [at for state in _DEAD if (at := self.states.find(state)) >= 0]
        if not found:
            return None
        at = min(found)
        end = _run_end(self.states, at, min(at + length_max, len(self.states)))
        low, high, count = next(_runs(self.counts, at, end))
        is_spent = self.states[at] == ARCHIVING_SPENT
        reason = DeadReason.DELIVERY_COUNT if is_spent else DeadReason.REJECTED
        return self.start + low, self.start + high - 1, count, reason

    def kept_start(self, log_start_offset: int) -> int:
        """The start when the log begins there: records whose dead letters are not written yet stay."""
        if log_start_offset <= self.start:
            return self.start
        dead = self.first_dead(1)
        return log_start_offset if dead is None else max(self.start, min(log_start_offset, dead[0]))

    def first_available(self) -> int:
        """The lowest offset that might be given: of an available record, or the end."""
        at = self.states.find(AVAILABLE)
        return self.end if at < 0 else self.start + at

    # ---------------------------------------------------------------- for decisions

    def available(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Runs (first, last, delivery count) of available records in a range; those never given count 0."""
        at, end = max(first, self.start), min(last + 1, self.end)
        while at < end:
            found = self.states.find(AVAILABLE, at - self.start, end - self.start)
            if found < 0:
                break
            at = self.start + found
            until = self.start + _run_end(self.states, found, end - self.start)
            for low, high, count in _runs(self.counts, at - self.start, until - self.start):
                yield self.start + low, self.start + high - 1, count
            at = until
        at = max(first, self.end)
        if at <= last:
            yield at, last, 0

    def counted(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Runs (first, last, delivery count) of a range inside the window."""
        for low, high, count in _runs(self.counts, first - self.start, last + 1 - self.start):
            yield self.start + low, self.start + high - 1, count

    def is_held(self, first: int, last: int, member_id: str) -> bool:
        """Whether the member has all records of a range inside the window, and none of them is reserved."""
        low, high = first - self.start, last + 1 - self.start
        if self.states.count(ACQUIRED, low, high) != high - low:
            return False
        held = self.numbers[low:high]
        number = _only(held)
        numbers = set(held) if number == _SEVERAL else (number,)
        return all(self.holds.holder(one).member_id == member_id for one in numbers)

    def held(self, number: int) -> Iterator[tuple[int, int]]:
        """Ranges that the lock of this number still holds, without reserved ones."""
        low, high = self._range(number)
        if self.holds.held(number) == high - low == self.states.count(ACQUIRED, low, high):
            yield self.start + low, self.start + high - 1
            return
        first = -1
        for at in range(low, high):
            if self.numbers[at] == number and self.states[at] == ACQUIRED:
                first = at if first < 0 else first
            elif first >= 0:
                yield self.start + first, self.start + at - 1
                first = -1
        if first >= 0:
            yield self.start + first, self.start + high - 1

    def locked_by(self, first: int, last: int) -> Iterator[tuple[int, int, Holder]]:
        """Runs (first, last, holder) of a range of locked records, one or more for each lock."""
        low, high = first - self.start, last + 1 - self.start
        while low < high:
            number, end = self.numbers[low], low + 1
            while end < high and self.numbers[end] == number:
                end += 1
            yield self.start + low, self.start + end - 1, self.holds.holder(number)
            low = end

    def fork(self) -> Window:
        """A copy of the columns, for a snapshot."""
        fork = Window(self.start)
        fork.states, fork.counts, fork.numbers = self.states[:], self.counts[:], self.numbers[:]
        fork.holds = self.holds.fork()
        return fork

    def reserve(self, first: int, last: int) -> None:
        """An append about these records begins; the window reaches them from now on."""
        self._reach(last)
        low, high = max(first - self.start, 0), last + 1 - self.start
        self._pending += self.states.count(AVAILABLE, low, high)
        self.states[low:high] = self.states[low:high].translate(_RESERVE)

    def free(self, first: int, last: int) -> None:
        """The append has failed: the records are as before."""
        low, high = max(first - self.start, 0), min(last, self.end - 1) + 1 - self.start
        if low < high:
            self._pending -= self.states.count(RESERVED | AVAILABLE, low, high)
            self.states[low:high] = self.states[low:high].translate(_FREE)

    # ---------------------------------------------------------------- what is durable

    def apply(self, batch: StateBatch) -> None:
        """Records have a new state; nobody has them locked any more, and they do not wait (`delay` comes after this)."""
        if batch.last_offset < self.start:
            return
        first, last = max(batch.first_offset, self.start), batch.last_offset
        if first == self.start and batch.delivery_state in _DONE and last >= self.end:
            self.advance(last + 1)  # however long the range is
            return
        self._reach(last)
        low, high = first - self.start, last + 1 - self.start
        self._unlock(low, high)
        is_spent = batch.delivery_state == ARCHIVING and batch.reason == DeadReason.DELIVERY_COUNT
        self.states[low:high] = bytes((ARCHIVING_SPENT if is_spent else batch.delivery_state,)) * (high - low)
        self.counts[low:high] = bytes((min(max(batch.delivery_count, 0), COUNT_MAX),)) * (high - low)

    def lock(self, records: LockedRecords, deadline_ms: float) -> None:
        """Records are locked until `deadline_ms` on the loop's clock; those below the start are not.

        Raises OverflowError when there are HOLDS_MAX locks and delays.
        """
        if records.last_offset < self.start:
            return
        low, high = max(records.first_offset - self.start, 0), records.last_offset + 1 - self.start
        self._reach(records.last_offset)
        self._unlock(low, high)
        self._renumber_if_sparse()
        holder = holder_of(records.member_id, records.node_id, records.node_epoch, records.session)
        number = self.holds.lock(self.start + low, high - low, deadline_ms, holder)
        self._mark(low, high, number, ACQUIRED)

    def delay(self, first: int, last: int, due_ms: int, deadline_ms: float) -> None:
        """Available records wait until `due_ms` by the wall clock, `deadline_ms` on the loop's; those below the start do not.

        Raises OverflowError when there are HOLDS_MAX locks and delays.
        """
        low, high = max(first - self.start, 0), min(last + 1 - self.start, len(self.states))
        if low < high:
            self._renumber_if_sparse()
            self._mark(low, high, self.holds.delay(self.start + low, high - low, deadline_ms, due_ms), DELAYED)

    def end_delay(self, number: int) -> None:
        """What still waits is available."""
        for low, high in tuple(_runs_of(self.numbers, number, *self._range(number), self.holds.held(number))):
            self._unlock(low, high)
            self.states[low:high] = bytes(high - low)

    def advance(self, start: int) -> None:
        """Move the start up to this offset; lower ones change nothing. Locks below it are over."""
        gone = min(start - self.start, len(self.states))
        if start <= self.start:
            return
        self._unlock(0, gone)
        del self.states[:gone]
        del self.counts[:gone]
        del self.numbers[:gone]
        self.start = start

    def strip(self) -> None:
        """Move the start past records that are done."""
        if self.states and self.states[0] in _DONE:
            self.advance(self.start + len(self.states) - len(self.states.lstrip(_DONE)))

    # ---------------------------------------------------------------- inside

    def _reach(self, last: int) -> None:
        missing = last + 1 - self.end
        if missing > 0:
            self.states.extend(bytes(missing))
            self.counts.extend(bytes(missing))
            self.numbers.frombytes(bytes(missing * self.numbers.itemsize))

    def _unlock(self, low: int, high: int) -> None:
        """Records are no longer locked or reserved; a lock without records is gone."""
        self._pending -= self.states.count(RESERVED | AVAILABLE, low, high)
        held = self.numbers[low:high]
        only = _only(held)
        if only == NO_HOLD:
            return
        if only == _SEVERAL:
            for number, count in Counter(held).items():
                if number != NO_HOLD:
                    self.holds.end(number, count)
        else:
            self.holds.end(only, high - low)
        self.numbers[low:high] = array("H", bytes((high - low) * held.itemsize))

    def _mark(self, low: int, high: int, number: int, state: int) -> None:
        self.numbers[low:high] = array("H", (number,)) * (high - low)
        self.states[low:high] = bytes((state,)) * (high - low)

    def _range(self, number: int) -> tuple[int, int]:
        """Where records of a hold may be in the columns."""
        first, end = self.holds.range(number)
        return max(first - self.start, 0), end - self.start

    def _renumber_if_sparse(self) -> None:
        if self.holds.is_sparse:
            former = self.numbers
            self.numbers = array("H", bytes(len(former) * former.itemsize))
            for old, new in self.holds.renumber().items():
                for low, high in _runs_of(former, old, *self._range(new), self.holds.held(new)):
                    self.numbers[low:high] = array("H", (new,)) * (high - low)


def _only(numbers: array[int]) -> int:
    """The number that all of these are; NO_HOLD if there are none, _SEVERAL if they differ. It compares bytes: to look at each
    number takes some twenty times as long."""
    if not numbers:
        return NO_HOLD
    data = numbers.tobytes()
    return numbers[0] if data == data[: numbers.itemsize] * len(numbers) else _SEVERAL


def _run_end(column: bytearray, low: int, high: int) -> int:
    """Where the run of equal bytes that begins at `low` ends, at `high` at the latest."""
    value = column[low : low + 1]
    length = _RUN_LENGTH_AT_FIRST
    while True:
        end = min(low + length, high)
        left = len(column[low:end].lstrip(value))
        if left or end == high:
            return end - left
        low, length = end, 2 * length


def _runs_of(numbers: array[int], number: int, low: int, high: int, count: int) -> Iterator[tuple[int, int]]:
    """Where this number is: `count` times from `low` on, before `high`."""
    while count:
        low = numbers.index(number, low, high)
        end = low + 1
        while end < high and numbers[end] == number:
            end += 1
        yield low, end
        count -= end - low
        low = end


def _runs(column: bytearray, low: int, high: int) -> Iterator[tuple[int, int, int]]:
    while low < high:
        end = _run_end(column, low, high)
        yield low, end, column[low]
        low = end
