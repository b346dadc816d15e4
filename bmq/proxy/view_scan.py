"""Filters batches by the C kernel, in memory or in a file that a thread reads, into pieces of a view's answer.

Batches that pass as a whole are not copied, but sent from where they lie. `Asked` stands for batches that the kernel does not
open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from bmq.protocol.compression import Buffer
from bmq.protocol.parts import FilePart
from bmq.protocol.record_batch import (
    CHECKSUMMED_POSITION,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    CorruptRecords,
    batches,
)
from bmq.proxy.view_answer import BatchInFile, Piece, ViewBatch
from bmq.records.record_filter import CompiledFilter, ScanBuffers
from bmq.records.record_filter_layout import SHOWN_MAX, SHOWN_NONE, SHOWN_PART, SHOWN_WHOLE, ShownBatches
from bmq.views.batch_filter import EmptyRun

SCAN_BUFFER_BYTES: Final = 1024 * 1024
"""Bytes of a file that are read at once; a single batch may be longer."""
IN_FILE_BYTES_MIN: Final = 32 * 1024
"""Neighbouring batches that pass as a whole are sent from their file if they have this many bytes; fewer are copied."""
_LENGTH: Final = Struct(">i")
_LENGTH_POSITION: Final = 8
_CRC: Final = Struct(">I")
_CRC_POSITION: Final = 17


class Asked(NamedTuple):
    """A whole batch that the kernel does not open (compressed, a control batch, or damaged), for the filter in Python."""

    data: Buffer
    header: BatchHeader

    @property
    def next_offset(self) -> int:
        return self.header.end_offset


Found = Piece | Asked


class ViewScan:
    """Scans batches, one scan at a time, in memory that it uses again."""

    def __init__(self) -> None:
        self._room = ScanBuffers()
        self._buffer = bytearray()

    def in_memory(self, passing: CompiledFilter, views: Sequence[memoryview], offset: int) -> list[Found]:
        """The pieces of whole batches, without batches that end before `offset`. Raises CorruptRecords."""
        found: list[Found] = []
        for data in views:
            some, place = self._filtered_pieces(passing, data, offset)
            for one in some:
                found += _in_memory(one, data) if isinstance(one, list) else (one,)
            found += _rest(data, place, offset)
        self._trim()
        return found

    def in_file(self, passing: CompiledFilter, part: FilePart, offset: int) -> list[Found]:
        """The pieces of the batches in a part of a file, which it reads, perhaps from a disk. Raises CorruptRecords, OSError."""
        found: list[Found] = []
        position, wanted = 0, SCAN_BUFFER_BYTES
        while position < len(part):
            wanted = min(wanted, len(part) - position)
            if len(self._buffer) < wanted:
                self._buffer = bytearray(wanted)
            data = memoryview(self._buffer)[:wanted]
            if part.fill(data, position) < wanted:
                raise CorruptRecords(f"a file ends before {position + wanted} of a part of {len(part)} bytes")
            some, place = self._filtered_pieces(passing, data, offset)
            for one in some:
                found += _in_file(one, part, position, data) if isinstance(one, list) else (one,)
            wanted = SCAN_BUFFER_BYTES
            if position + len(data) == len(part):
                found += _rest(data, place, offset)
                break
            if not place:
                wanted = max(wanted, _size_at(data))  # the next batch is longer than the buffer
                if wanted <= len(data):
                    asked = _asked(data, 0)
                    found += [asked] if asked.header.last_offset >= offset else []
                    place = asked.header.size_bytes
            position += place
        self._trim()
        return found

    def _filtered_pieces(
        self, passing: CompiledFilter, data: memoryview, offset: int
    ) -> tuple[list[Found | list[ShownBatches]], int]:
        """(pieces, where the next batch begins). A list among the pieces: neighbouring batches that pass as a whole."""
        found: list[Found | list[ShownBatches]] = []
        place, is_over = 0, False
        while not is_over:
            some, place = passing.filter_batches(data, place, offset, self._room)
            is_over = len(some) < SHOWN_MAX
            for one in some:
                if one.kind == SHOWN_NONE:
                    found.append(EmptyRun(one.base_offset, one.next_offset, one.leader_epoch))
                elif one.kind == SHOWN_PART:
                    found.append(ViewBatch(_checksummed(self._room.out, one), one.next_offset))
                elif one.kind == SHOWN_WHOLE:
                    last = found[-1] if found else None
                    if isinstance(last, list) and last[-1].place + last[-1].size_bytes == one.place:
                        last.append(one)
                    else:
                        found.append([one])
                else:
                    found.append(_asked(data, one.place))
        return found, place

    def _trim(self) -> None:
        """Free buffers that a long batch has needed."""
        if len(self._room.out) > 4 * SCAN_BUFFER_BYTES:
            self._room = ScanBuffers()
        if len(self._buffer) > 4 * SCAN_BUFFER_BYTES:
            self._buffer = bytearray()


def _in_memory(whole: list[ShownBatches], data: memoryview) -> Iterator[ViewBatch]:
    """Batches as views of `data`, which keep all of it in memory until they are sent; a small part is copied instead."""
    size_bytes = _size_of(whole)
    is_copied = size_bytes < min(IN_FILE_BYTES_MIN, len(data) // 2)
    for one in whole:
        batch = data[one.place : one.place + one.size_bytes]
        yield ViewBatch(bytes(batch) if is_copied else batch, one.next_offset, is_whole=True)


def _size_of(whole: list[ShownBatches]) -> int:
    return whole[-1].place + whole[-1].size_bytes - whole[0].place


def _in_file(whole: list[ShownBatches], part: FilePart, position: int, data: memoryview) -> Iterator[Found]:
    is_short = _size_of(whole) < IN_FILE_BYTES_MIN
    for one in whole:
        end = one.place + one.size_bytes
        if is_short:
            yield ViewBatch(bytes(data[one.place : end]), one.next_offset, is_whole=True)
        else:
            yield BatchInFile(part, position + one.place, position + end, one.next_offset)


def _rest(data: memoryview, place: int, offset: int) -> Iterator[Asked]:
    """The batches from `place` on, which the kernel has not opened. Raises CorruptRecords."""
    for position, header in batches(data, place):
        if header.last_offset >= offset:
            yield _asked(data, position)


def _asked(data: memoryview, place: int) -> Asked:
    header = BatchHeader.parse(data, place)
    return Asked(bytes(data[place : place + header.size_bytes]), header)


def _size_at(data: memoryview) -> int:
    """The size of the batch at the beginning of `data`, by its length field."""
    return int(_LENGTH.unpack_from(data, _LENGTH_POSITION)[0]) + LENGTH_OVERHEAD_BYTES


def _checksummed(out: bytearray, one: ShownBatches) -> Buffer:
    batch = out[one.place : one.place + one.size_bytes]
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CHECKSUMMED_POSITION:]))
    return batch
