"""Which records pass a filter, in Python: as native/passing.c, for any bytes. Pure."""

from __future__ import annotations

from bmq.protocol.compression import Buffer
from bmq.records import batch_layout as layout
from bmq.records.passing_layout import TERMS_MAX, Passing, RecordFilter
from bmq.records.records_twin import RecordPlaces, headers_of, record_places_from

_INT32_MAX = (1 << 31) - 1


class PassingRecords:
    """As passing.PassingRecords."""

    def __init__(self, wanted: RecordFilter) -> None:
        if len(wanted.terms) > TERMS_MAX:
            raise ValueError(f"a filter with {len(wanted.terms)} terms")
        self._wanted = wanted

    def look(self, body: Buffer, last: Passing, count: int, last_delta: int) -> Passing:
        """As passing.PassingRecords.look."""
        if not (0 <= last.place <= len(body) and count >= 0 and 0 <= last_delta <= _INT32_MAX and last.previous >= -1):
            raise ValueError("numbers that contradict each other")
        place, previous, runs, passed = last.place, last.previous, list[tuple[int, int]](), 0
        body = bytes(body)
        found = record_places_from(body, last.place, len(body), count, last_delta, layout.WANTS_HEADERS, last.previous)
        for places in found:
            place, previous = places.stop, places.offset_delta
            if not self._wanted.truths >> self._true(body, places) & 1:
                continue
            passed += 1
            if runs and runs[-1][1] == places.begin:
                runs[-1] = (runs[-1][0], places.stop)
            else:
                runs.append((places.begin, places.stop))
        return Passing(place, previous, runs, passed)

    def _true(self, body: bytes, places: RecordPlaces) -> int:
        found, terms = 0, self._wanted.terms
        if places.key_bytes >= 0:
            key = body[places.key : places.key + places.key_bytes]
            found |= sum(1 << bit for bit, term in enumerate(terms) if not term.names and key in term.values)
        for name, value in headers_of(body, places):
            if value is not None:
                for bit, term in enumerate(terms):
                    found |= (name in term.names and value in term.values) << bit
        return found
