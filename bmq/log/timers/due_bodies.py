"""Bodies of one partition's records that are due now or soon, in memory, by the records' names. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import compress
from typing import Final, NamedTuple

from bmq.log.timers.announcements import START, Held, Position
from bmq.log.timers.delivering import DeliveryDraft
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.compression import Buffer
from bmq.records.deliveries import due_rows
from bmq.records.held_row_layout import BODY, BODY_BYTES, CANCELS, ROW_FIELDS, DueTerms
from bmq.records.held_rows import sort_rows

_PART_BITS: Final = 32
_ROW_MASK: Final = (1 << _PART_BITS) - 1


class _Part(NamedTuple):
    rows: array[int]
    data: Buffer
    last: Position


class DueBodies:
    """Bodies in parts: a buffer, with a row for each of its records (records/held_row_layout).

    A part is dropped when deliveries have passed its last record. `size_bytes`: bytes of all buffers.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self._parts: dict[int, _Part] = {}
        self._places: dict[int, int] = {}  # record name -> number of its part (high bits) and of its row there
        self._next = 0

    def __contains__(self, name: int) -> bool:
        return name in self._places

    def add(self, rows: array[int], data: Buffer) -> None:
        """Add a part: rows in order of delivery, whose bodies lie in `data`."""
        if not rows:
            return
        number, self._next = self._next, self._next + 1
        names = rows[1::ROW_FIELDS]
        first = number << _PART_BITS
        self._places.update(zip(names, range(first, first + len(names)), strict=True))
        self._parts[number] = _Part(rows, data, Position(rows[-ROW_FIELDS], rows[1 - ROW_FIELDS]))
        self.size_bytes += len(data)

    def put(self, records: Sequence[Pending], draft: DeliveryDraft, bytes_max: int) -> None:
        """Add the first of these records to a delivery: up to one whose body is missing, or until it has `bytes_max`."""
        places, parts, rows = self._places, self._parts, draft.rows
        left_bytes, add = bytes_max - draft.size_bytes, draft.part_of.append
        for record in records:
            place = places.get(record.offset)
            if place is None or left_bytes <= 0:
                break
            number = place >> _PART_BITS
            start = (place & _ROW_MASK) * ROW_FIELDS
            part = parts[number]
            row = part.rows[start : start + ROW_FIELDS]
            rows += row
            add(draft.number_of(number, part.data))
            left_bytes -= row[BODY_BYTES]
        draft.size_bytes = bytes_max - left_bytes

    def drop_passed(self, position: Position) -> None:
        """Drop the parts that lie wholly at or below `position`, to which deliveries have durably come."""
        passed = [number for number, part in self._parts.items() if part.last <= position]
        for number in passed:
            part = self._parts.pop(number)
            self.size_bytes -= len(part.data)
            for name in part.rows[1::ROW_FIELDS]:
                # A later part may have the record as well: it was read from the log first, and then from a run.
                if self._places.get(name, -1) >> _PART_BITS == number:
                    del self._places[name]

    def clear(self) -> None:
        self._parts.clear()
        self._places.clear()
        self.size_bytes = 0


def without_cancellations(rows: array[int]) -> tuple[array[int], list[Position]]:
    """(the rows of records, the places that the rows of cancellations name)."""
    if not rows or min(rows[BODY_BYTES::ROW_FIELDS]) != CANCELS:
        return rows, []
    left, cancelled = array("q"), []
    for start in range(0, len(rows), ROW_FIELDS):
        if rows[start + BODY_BYTES] == CANCELS:
            cancelled.append(Position(rows[start], rows[start + 1]))
        else:
            left += rows[start : start + ROW_FIELDS]
    return left, cancelled


class NotHeld(Exception):
    """A hold lacks a record that is expected in it."""


class DueDraft:
    """A part in the making: of the wanted records, the earliest in the order of deliveries, up to `bytes_max` and at least one.

    Records are added in the order of the log. Before `finish` the draft may have twice `bytes_max`.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._wanted: dict[int, list[Pending]] = {}
        self._first, self._until = Position(2**62, 0), START
        self._rows = array("q")
        self._bodies = bytearray()

    def want(self, wanted: Sequence[Pending]) -> None:
        """Want these records too, given in order. Call before the first `add`."""
        if not wanted:
            return
        of_holds = self._wanted
        for record in wanted:
            of_hold = of_holds.get(record.hold_offset)
            if of_hold is None:
                of_holds[record.hold_offset] = [record]
            else:
                of_hold.append(record)
        self._first = min(self._first, wanted[0].position)
        self._until = max(self._until, wanted[-1].position)

    @property
    def hold_offsets(self) -> list[int]:
        """Offsets of the holds that have wanted records, in the order of the log."""
        return sorted(self._wanted)

    def first_of(self, hold_offset: int) -> Position:
        """The first wanted record of this hold, in the order of deliveries."""
        return min(record.position for record in self._wanted[hold_offset])

    def is_behind(self, hold_offset: int) -> bool:
        """Whether all wanted records of this hold come behind those that still fit."""
        return self.first_of(hold_offset) > self._until

    def add(self, held: Held, hold_offset: int) -> None:
        """Add the wanted records of the announcement at `hold_offset`. Raises NotHeld, CorruptRecords, BadCompressedData."""
        until = self._until
        names = {one.offset for one in self._wanted[hold_offset] if (one.due_ms, one.offset) <= until}
        if not names:
            return
        above = Position(self._first.due_ms, self._first.offset - 1)
        terms = DueTerms(hold_offset + 1, len(self._bodies), above, self._until)
        try:
            rows, taken = due_rows(held.columns.packed, held.bodies, terms)
        except ValueError as error:
            raise NotHeld(str(error)) from error
        found = rows[1::ROW_FIELDS]
        missing = names.difference(found)
        if missing:
            raise NotHeld(f"the delayed record {min(missing)} is not where it is held")
        if len(found) > len(names):
            of_rows = (name in names for name in found for _ in range(ROW_FIELDS))
            rows = array("q", compress(rows, of_rows))
        self._rows += rows
        self._bodies += taken
        if len(self._bodies) > 2 * self._bytes_max:
            self._cut()

    def finish(self) -> tuple[array[int], bytearray]:
        """(rows, bodies) in order, for DueBodies.add."""
        if len(self._bodies) > self._bytes_max:
            self._cut()
        else:
            sort_rows(self._rows)
        return self._rows, self._bodies

    def _cut(self) -> None:
        """Drop the last records in the order, so that `bytes_max` remain."""
        sort_rows(self._rows)
        rows, bodies = self._rows, memoryview(self._bodies)
        kept, count = bytearray(), 0
        while count < len(rows) and (not count or len(kept) < self._bytes_max):
            body = rows[count + BODY]
            rows[count + BODY] = len(kept)
            kept += bodies[body : body + rows[count + BODY_BYTES]]
            count += ROW_FIELDS
        bodies.release()
        self._rows, self._bodies = rows[:count], kept
        self._until = Position(rows[count - ROW_FIELDS], rows[count - ROW_FIELDS + 1])
