"""The keys of one share partition whose group keeps the order of each key (key_shared). Decisions only.

A record of a key may be given to a member if no other member has one of the key, none of the key is in transition or waits for
its back-off, and all earlier ones of the key are done, or the member's. So locks, which the log has, say who has a key.
In memory alone are hashes of keys, which proxies send again if they are not known (no record behind an unknown one is
given), and the members, among whom ranges of hashes are spread.

A range moves when members come and go. Its hashes are given to the next member once the former one has none of their
records; until then no member is given more of them.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from bmq.coordinator.config import RecordLimits
from bmq.coordinator.share_state.decisions import Span
from bmq.coordinator.share_state.holder import Holder
from bmq.coordinator.share_state.window import AVAILABLE, SPAN_MAX, Window
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.records.key_layout import LOCK_NUMBERS, NOBODY, SLOTS, UNKNOWN, KeyWindow, TakenKeys
from bmq.records.keys import own_slots, take_keys

ABSENT_MS: Final = 5_000
"""A member that has not asked for so long, while others did, is given no more keys until it asks again."""
MEMBERS_MAX: Final = 1_000
"""Members of one partition that have ranges of hashes; further ones get records without a key alone."""
_HASH_BYTES: Final = 2
_NO_OWNERS: Final = array("H", bytes(_HASH_BYTES * SLOTS))
_FULL: Final = -1


class _Presence(NamedTuple):
    """A member that asks for records, and when it did last."""

    holder: Holder
    asked_ms: float


class KeyWait(NamedTuple):
    """For operators: `member_count`: members with ranges of hashes; `waiting`: records in the window that are available, and not
    given; `unknown_offset`: of the first open record whose key is not known.
    """

    member_count: int
    waiting: int
    unknown_offset: int


class PartitionKeys:
    """See the module. Times are the loop's."""

    __slots__ = ("_asked_ms", "_hashes", "_numbers", "_owners", "_present", "_since_ms", "_start")

    def __init__(self, start: int) -> None:
        self._start = start
        self._hashes = array("H")
        self._present: dict[str, _Presence] = {}
        self._numbers: dict[str, int] = {}  # of those with ranges
        self._owners = _NO_OWNERS
        self._asked_ms = self._since_ms = -ABSENT_MS * 2.0

    # ---------------------------------------------------------------- members

    def asked(self, holder: Holder, now_ms: float) -> None:
        """A member wants records."""
        if now_ms - self._asked_ms > ABSENT_MS:
            self._since_ms = now_ms  # no member asked: there was nothing to ask for
        self._asked_ms = now_ms
        is_new = holder.member_id not in self._present
        if is_new and len(self._present) >= MEMBERS_MAX:
            return
        self._present[holder.member_id] = _Presence(holder, now_ms)
        first_ms = now_ms - ABSENT_MS
        absent: list[str] = []
        if first_ms > self._since_ms:
            absent = [member_id for member_id, one in self._present.items() if one.asked_ms < first_ms]
        if is_new or absent:
            self._remove(absent)

    def left(self, is_gone: Callable[[Holder], bool]) -> bool:
        """Share sessions, or proxies, have ended. Whether members were among them that had ranges."""
        gone = [member_id for member_id, one in self._present.items() if is_gone(one.holder)]
        if gone:
            self._remove(gone)
        return bool(gone)

    def _remove(self, members: Iterable[str]) -> None:
        """And spread the ranges among those that are left."""
        for member_id in members:
            del self._present[member_id]
        ordered = sorted(self._present)
        self._numbers = {member_id: number for number, member_id in enumerate(ordered)}
        seeds = [xxh3_64_intdigest(member_id.encode()) for member_id in ordered]
        self._owners = own_slots(seeds) if seeds else _NO_OWNERS

    # ---------------------------------------------------------------- hashes

    def learn(self, start: int, first: int, data: bytes | bytearray | memoryview) -> None:
        """Hashes of the offsets from `first` on; what lies below `start`, or too far behind it, is not kept.

        A hash that is known stays: a record that compaction has removed meanwhile may still be locked. Raises KafkaError
        INVALID_REQUEST.
        """
        self._begin_at(start)
        if not data:
            return
        if len(data) % _HASH_BYTES or first < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{len(data)} bytes of key hashes from offset {first} on")
        hashes = array("H")
        hashes.frombytes(data)
        if sys.byteorder == "big":
            hashes.byteswap()
        low = first - self._start
        if low < 0:
            del hashes[:-low]
            low = 0
        del hashes[max(SPAN_MAX - low, 0) :]
        if not hashes:
            return
        known = self._hashes
        if low > len(known):
            known.frombytes(bytes(_HASH_BYTES * (low - len(known))))
        both = min(len(known) - low, len(hashes))
        if both and known[low : low + both].count(UNKNOWN):
            for at in range(both):
                known[low + at] = known[low + at] or hashes[at]
        known.extend(hashes[both:])

    def _begin_at(self, start: int) -> None:
        if start > self._start:
            del self._hashes[: start - self._start]
        elif start < self._start:
            del self._hashes[:]  # the state has begun anew
        self._start = start

    # ---------------------------------------------------------------- what may be given

    def spans(
        self, window: Window, member_id: str, batches: Iterable[Span], log_start: int, records_max: int
    ) -> list[Span]:
        """Records of these batches, in order, that the member may be given; so many at most."""
        bounds = list(batches)
        if not bounds or records_max <= 0:
            return []
        found = self._taken(window, member_id, Span(bounds[0].first, bounds[-1].last), log_start, records_max)
        return [Span(window.start + low, window.start + high) for low, high in found.spans]

    def next_offset(self, window: Window, member_id: str, log_start: int, limits: RecordLimits) -> int:
        """Where the member reads on: at the first record that it may be given, or whose key is not known; -1: too many
        records are locked, or the window is as long as it may be."""
        if window.in_use >= limits.record_locks_max:
            return _FULL
        found = self._taken(window, member_id, Span(0, -1), log_start, 0)
        index = found.unknown_index if found.next_index < 0 else found.next_index
        return _FULL if index >= SPAN_MAX else window.start + index

    def may_free(self, window: Window) -> bool:
        """Whether the end of a lock may let others have records: some were read, and not given."""
        self._begin_at(window.start)
        return len(self._hashes) > len(window.states) or AVAILABLE in window.states

    def wait(self, window: Window) -> KeyWait:
        found = self._taken(window, "", Span(0, -1), window.start, 0)
        return KeyWait(len(self._present), found.waiting, window.start + found.unknown_index)

    def _taken(self, window: Window, member_id: str, span: Span, log_start: int, records_max: int) -> TakenKeys:
        self._begin_at(window.start)
        mine = bytearray(LOCK_NUMBERS)
        for number in window.holds.numbers_of(lambda holder: holder.member_id == member_id):
            mine[number] = 1
        me = self._numbers.get(member_id, NOBODY)
        view = KeyWindow(window.states, window.numbers, self._hashes, mine, self._owners, me)
        low = max(log_start - window.start, 0)
        return take_keys(view, low, span.first - window.start, span.last + 1 - window.start, records_max)
