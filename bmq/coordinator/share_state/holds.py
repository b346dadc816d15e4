"""The holds of one window, which are locks and delays, as columns: what each holds, for whom and until when. Decisions only.

A lock: records that a member acquired at once and has not settled. A delay: records that were released at once and wait.
A hold has a number, from 1 on, under which its entries are found in all columns; numbers are used again. One hold takes
some 40 bytes. `_order` has all numbers by deadline. A hold that is due is taken; if it has not ended after RETRY_MS, it is
taken again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from bmq.coordinator.runtime.moment import NEVER_MS
from bmq.coordinator.share_state.holder import Holder

NO_HOLD: Final = 0
HOLDS_MAX: Final = 65_535
"""Numbers of holds; limits of locked records are lower."""
RETRY_MS: Final = 1_000
"""A lock that has run out while an append concerns its records is looked at again after this time."""
_ENTRIES_KEPT_MAX: Final = 16
"""Columns without holds that are longer are made anew."""
_SPARSE_ENTRIES_MIN: Final = 256
_NOTHING_TAKEN: Final = (-NEVER_MS, NO_HOLD)


class Lock(NamedTuple):
    """`held` of the records `first` … `last`. `deadline_ms`: on the loop's clock."""

    first: int
    last: int
    held: int
    deadline_ms: float
    holder: Holder


class Holds:
    """See the module. `locks`, `delays`: how many there are; `locked`, `delayed`: records that they hold."""

    __slots__ = (
        "_deadlines",
        "_details",
        "_firsts",
        "_free",
        "_held",
        "_order",
        "_retry_ms",
        "_sizes",
        "_taken",
        "delayed",
        "delays",
        "locked",
        "locks",
    )

    def __init__(self) -> None:
        self.locks = 0
        self.locked = 0
        self.delays = 0
        self.delayed = 0
        self._retry_ms = 0.0
        self._clear()

    def _clear(self) -> None:
        # Entry 0 is nobody's.
        self._firsts = array("q", (0,))  # offsets
        self._sizes = array("I", (0,))  # offsets from the first to the last
        self._held = array("I", (0,))
        self._deadlines = array("d", (0.0,))
        self._details: list[Holder | int | None] = [None]  # a lock's holder; a delay's due time; of a free number None
        self._free = array("H")
        self._order = array("H")
        self._taken = _NOTHING_TAKEN  # deadline and number of the last hold that was taken since the last retry

    @property
    def count(self) -> int:
        return len(self._order)

    @property
    def is_sparse(self) -> bool:
        """Whether `renumber` is worth its while: the columns are far longer than what is left in them."""
        return len(self._details) > max(_SPARSE_ENTRIES_MIN, 4 * len(self._order))

    def lock(self, first: int, size: int, deadline_ms: float, holder: Holder) -> int:
        """The number of a new lock. Raises OverflowError when all numbers are in use."""
        number = self._add(first, size, deadline_ms, holder)
        self.locks += 1
        self.locked += size
        return number

    def delay(self, first: int, size: int, deadline_ms: float, due_ms: int) -> int:
        """The number of a new delay; `due_ms`: wall clock. Raises OverflowError when all numbers are in use."""
        number = self._add(first, size, deadline_ms, due_ms)
        self.delays += 1
        self.delayed += size
        return number

    def end(self, number: int, count: int) -> None:
        """So many records are not held any more. A hold without records is gone, and its number is free."""
        is_lock = self.is_lock(number)
        if is_lock:
            self.locked -= count
        else:
            self.delayed -= count
        self._held[number] -= count
        if self._held[number]:
            return
        if is_lock:
            self.locks -= 1
        else:
            self.delays -= 1
        if len(self._order) == 1 and len(self._details) > _ENTRIES_KEPT_MAX:
            self._clear()
            return
        order = self._order
        del order[0 if order[0] == number else bisect_left(order, self._key(number), key=self._key)]
        self._details[number] = None
        self._free.append(number)

    # ---------------------------------------------------------------- one hold

    def is_lock(self, number: int) -> bool:
        return isinstance(self._details[number], Holder)

    def holder(self, number: int) -> Holder:
        """The holder of the lock with this number. Raises KeyError for a delay."""
        holder = self._details[number]
        if not isinstance(holder, Holder):
            raise KeyError(number)
        return holder

    def due_ms(self, number: int) -> int:
        """When the delay with this number is over, by the wall clock. Raises KeyError for a lock."""
        due_ms = self._details[number]
        if not isinstance(due_ms, int):
            raise KeyError(number)
        return due_ms

    def deadline_ms(self, number: int) -> float:
        """On the loop's clock."""
        return self._deadlines[number]

    def held(self, number: int) -> int:
        """How many records it holds."""
        return self._held[number]

    def range(self, number: int) -> tuple[int, int]:
        """The first offset that it held at the beginning, and the one behind the last."""
        first = self._firsts[number]
        return first, first + self._sizes[number]

    # ---------------------------------------------------------------- all of them

    def all_locks(self) -> Iterator[Lock]:
        for number, holder in enumerate(self._details):
            if isinstance(holder, Holder):
                first, end = self.range(number)
                yield Lock(first, end - 1, self._held[number], self._deadlines[number], holder)

    def delay_deadlines_ms(self) -> Iterator[float]:
        """On the loop's clock, in no order."""
        return (self._deadlines[number] for number, one in enumerate(self._details) if isinstance(one, int))

    def numbers_of(self, is_wanted: Callable[[Holder], bool]) -> list[int]:
        """Numbers of these holders' locks. Each holder is looked at once, however many locks it has."""
        wanted = {one for one in set(self._details) if isinstance(one, Holder) and is_wanted(one)}
        return [number for number, one in enumerate(self._details) if one in wanted] if wanted else []

    @property
    def next_due_ms(self) -> float:
        """When there is something to take; NEVER_MS without holds."""
        order = self._order
        if not order:
            return NEVER_MS
        if self._key(order[0]) > self._taken:
            return self._deadlines[order[0]]
        at = bisect_right(order, self._taken, key=self._key)
        return min(self._retry_ms, self._deadlines[order[at]] if at < len(order) else NEVER_MS)

    def take_due(self, now_ms: float, count_max: int) -> list[int]:
        """Numbers of holds that are due, the earliest first. Their deadlines stay as they are."""
        if now_ms >= self._retry_ms:
            self._taken = _NOTHING_TAKEN
            self._retry_ms = now_ms + RETRY_MS
        order = self._order
        low = bisect_right(order, self._taken, key=self._key)
        high = bisect_right(order, (now_ms, HOLDS_MAX), low, key=self._key)
        found = order[low : min(high, low + count_max)].tolist()
        if found:
            self._taken = self._key(found[-1])
        return found

    def renumber(self) -> dict[int, int]:
        """Give all holds numbers from 1 on, in the order of their deadlines: the new numbers by the former ones."""
        old = self._order
        taken = bisect_right(old, self._taken, key=self._key)
        new = {number: at for at, number in enumerate(old, 1)}
        numbers = (0, *old)
        self._firsts = array("q", [self._firsts[number] for number in numbers])
        self._sizes = array("I", [self._sizes[number] for number in numbers])
        self._held = array("I", [self._held[number] for number in numbers])
        self._deadlines = array("d", [self._deadlines[number] for number in numbers])
        self._details = [self._details[number] for number in numbers]
        self._free = array("H")
        self._order = array("H", range(1, len(numbers)))
        self._taken = self._key(taken) if taken else _NOTHING_TAKEN
        return new

    def fork(self) -> Holds:
        """A copy."""
        fork = Holds()
        fork.locks, fork.locked, fork.delays, fork.delayed = self.locks, self.locked, self.delays, self.delayed
        fork._firsts, fork._sizes, fork._held = self._firsts[:], self._sizes[:], self._held[:]
        fork._deadlines, fork._details = self._deadlines[:], self._details[:]
        fork._free, fork._order = self._free[:], self._order[:]
        fork._taken, fork._retry_ms = self._taken, self._retry_ms
        return fork

    # ---------------------------------------------------------------- inside

    def _add(self, first: int, size: int, deadline_ms: float, detail: Holder | int) -> int:
        if self._free:
            number = self._free.pop()
            self._firsts[number] = first
            self._sizes[number] = self._held[number] = size
            self._deadlines[number] = deadline_ms
            self._details[number] = detail
        else:
            number = len(self._details)
            if number > HOLDS_MAX:
                raise OverflowError(f"a share partition has more than {HOLDS_MAX} locks and delays")
            self._firsts.append(first)
            self._sizes.append(size)
            self._held.append(size)
            self._deadlines.append(deadline_ms)
            self._details.append(detail)
        order = self._order
        if not order or self._deadlines[order[-1]] < deadline_ms or self._key(order[-1]) < (deadline_ms, number):
            order.append(number)
        else:
            insort(order, number, key=self._key)
        return number

    def _key(self, number: int) -> tuple[float, int]:
        return self._deadlines[number], number
