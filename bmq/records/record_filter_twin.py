"""Which records pass a filter, in Python: as native/record_filter.c, for any bytes. Pure."""

from __future__ import annotations

from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    parsed_header,
)
from bmq.records import batch_layout as layout
from bmq.records.record_filter_layout import (
    BEGIN,
    SHOWN_ASK,
    SHOWN_MAX,
    SHOWN_NONE,
    SHOWN_PART,
    SHOWN_WHOLE,
    TERMS_MAX,
    FilteredRecords,
    RecordFilter,
    ShownBatches,
)
from bmq.records.records_twin import Damage, RecordPlaces, headers_of, record_places_from

_INT32_MAX = (1 << 31) - 1
_OFFSET_MAX = (1 << 63) - 1 - (1 << 31)


class ScanBuffers:
    """As record_filter.ScanBuffers."""

    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out = bytearray()


class CompiledFilter:
    """As record_filter.CompiledFilter."""

    def __init__(self, wanted: RecordFilter) -> None:
        if len(wanted.terms) > TERMS_MAX:
            raise ValueError(f"a filter with {len(wanted.terms)} terms")
        self._wanted = wanted

    def filter_records(self, body: Buffer, last: FilteredRecords, count: int, last_delta: int) -> FilteredRecords:
        """As record_filter.CompiledFilter.filter_records."""
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
        return FilteredRecords(place, previous, runs, passed)

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

    def filter_batches(
        self, data: Buffer, place: int, offset: int, room: ScanBuffers
    ) -> tuple[list[ShownBatches], int]:
        """As record_filter.CompiledFilter.filter_batches."""
        if not 0 <= place <= len(data):
            raise ValueError("numbers that contradict each other")
        found, room.out = list[ShownBatches](), bytearray()
        view = memoryview(data)
        while (header := _possible_header(view[place:])) is not None:
            end = place + header.size_bytes
            if header.end_offset > offset:
                one, part = self._shown(bytes(view[place:end]), header, place, len(room.out))
                last = found[-1] if found else None
                if last is not None and _is_run(last, one):
                    found[-1] = last._replace(next_offset=one.next_offset)
                elif len(found) == SHOWN_MAX:
                    break
                else:
                    found.append(one)
                    room.out += part
            place = end
        return found, place

    def _shown(self, batch: bytes, header: BatchHeader, place: int, out: int) -> tuple[ShownBatches, bytes]:
        one = ShownBatches(
            SHOWN_ASK, header.base_offset, header.end_offset, header.leader_epoch, place, header.size_bytes
        )
        if header.attributes & CONTROL:
            return one, b""
        if header.record_count <= 0:
            return one._replace(kind=SHOWN_NONE), b""
        if header.attributes & COMPRESSION_MASK:
            return one, b""
        body = batch[HEADER_BYTES:]
        try:
            seen = self.filter_records(body, BEGIN, header.record_count, header.last_offset_delta)
        except Damage:
            return one, b""
        if seen.place != len(body):
            return one, b""
        if seen.passed in (0, header.record_count):
            return one._replace(kind=SHOWN_WHOLE if seen.passed else SHOWN_NONE), b""
        kept = b"".join(body[begin:end] for begin, end in seen.runs)
        length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(kept)
        head = batch[:8] + length.to_bytes(4, "big") + batch[12:57] + seen.passed.to_bytes(4, "big")
        return one._replace(kind=SHOWN_PART, place=out, size_bytes=HEADER_BYTES + len(kept)), head + kept


def _possible_header(data: memoryview) -> BatchHeader | None:
    header = parsed_header(data)
    if header is None or header.size_bytes > len(data) or header.last_offset_delta < 0:
        return None
    return header if 0 <= header.base_offset <= _OFFSET_MAX else None


def _is_run(last: ShownBatches, one: ShownBatches) -> bool:
    """Whether neither shows a record, and one batch without records may stand for both."""
    return (
        last.kind == one.kind == SHOWN_NONE
        and last.leader_epoch == one.leader_epoch
        and 0 <= one.next_offset - 1 - last.base_offset <= _INT32_MAX
    )
