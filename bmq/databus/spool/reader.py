"""Reads a spool's records in order, from any number on. One thread has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from bmq.databus.record_fields import BadFields
from bmq.databus.spool.frame import (
    FILE_HEADER_BYTES,
    FRAME_HEADER_BYTES,
    SpooledRecord,
    decoded_frame,
    frame_bytes_wanted,
    frame_end,
    is_whole,
    number_of_frame,
)
from bmq.databus.spool.loop_pauses import RECORDS_BETWEEN
from bmq.databus.spool.spool import Segment, Spool

CHUNK_BYTES: Final = 1 << 20


class SpoolReader:
    """`next_number`: records below it were read. `on_damage` gets a sentence for each damaged file or record.

    `pause` is called every RECORDS_BETWEEN records.
    """

    def __init__(self, spool: Spool, on_damage: Callable[[str], None], pause: Callable[[], None]) -> None:
        self._spool = spool
        self._on_damage = on_damage
        self._pause = pause
        self._descriptor = -1
        self._first = -1
        self._offset = 0
        self._unreadable_to = -1
        """Number of the last record that was left out and counted."""
        self.next_number = 0

    def seek(self, number: int) -> None:
        """Read from this record on."""
        self.close()
        self.next_number = number

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._first, self._offset = -1, -1, 0

    def read(self, bytes_max: int, records_max: int) -> list[SpooledRecord]:
        """The next records, at most so many and about so many bytes, at least one; empty: there are no more.

        Raises OSError.
        """
        found: list[SpooledRecord] = []
        size = 0
        while size < bytes_max and len(found) < records_max:
            segment = self._current()
            if segment is None:
                break
            records = self._records_of(segment, min(bytes_max - size, CHUNK_BYTES), records_max - len(found))
            found += records
            size += sum(len(record.frame) for record in records)
        return found

    def _current(self) -> Segment | None:
        """The file that has the next record, open at its place."""
        while True:
            segment = self._spool.segment_from(self.next_number)
            if segment is None:
                return None
            if segment.first != self._first:
                self.close()
                try:
                    self._descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    # Dropped to make room a moment ago, or deleted by hand: then it is listed still.
                    following = self._spool.segment_after(segment.first)
                    if following is None:
                        return None
                    self.next_number = max(self.next_number, following.first)
                    continue
                self._first, self._offset = segment.first, FILE_HEADER_BYTES
                self.next_number = max(self.next_number, segment.first)
            if self._offset < segment.size:
                return segment
            following = self._spool.segment_after(segment.first)
            if following is None:
                return None
            self.next_number = max(self.next_number, following.first)

    def _records_of(self, segment: Segment, bytes_max: int, records_max: int) -> list[SpooledRecord]:
        data = self._chunk(segment, bytes_max)
        found: list[SpooledRecord] = []
        offset = 0
        while len(found) < records_max:
            if len(found) % RECORDS_BETWEEN == 0:
                self._pause()
            end = frame_end(data, offset, len(data))
            if end is None:
                if not self._is_length_wrong(segment, data, offset):
                    break
                return self._damaged(segment, offset, found, "a length is wrong")
            if not is_whole(data, offset, end):
                return self._damaged(segment, offset, found, "a checksum is wrong")
            number = number_of_frame(data, offset)
            if number >= self.next_number:
                try:
                    found.append(decoded_frame(data, offset, end))
                except BadFields as error:
                    self._left_out(segment, number, str(error))
                self.next_number = number + 1
            offset = end
        self._offset += offset
        return found

    def _chunk(self, segment: Segment, bytes_max: int) -> bytes:
        """The next bytes: at least one frame, if its length is right."""
        left = segment.size - self._offset
        length = min(max(bytes_max, FRAME_HEADER_BYTES), left)
        data = os.pread(self._descriptor, length, self._offset)
        wanted = frame_bytes_wanted(data, 0, len(data))
        if wanted is not None and len(data) < wanted <= left:
            data = os.pread(self._descriptor, wanted, self._offset)
        return data

    def _is_length_wrong(self, segment: Segment, data: bytes, offset: int) -> bool:
        """Whether a frame that is not whole in the chunk is not whole in the file either."""
        left = segment.size - self._offset - offset
        if left and len(data) - offset < FRAME_HEADER_BYTES:
            return left < FRAME_HEADER_BYTES
        wanted = frame_bytes_wanted(data, offset, len(data))
        return left > 0 and (wanted is None or wanted > left)

    def _left_out(self, segment: Segment, number: int, why: str) -> None:
        """A record with a right checksum that cannot be read: those behind it can."""
        if number > self._unreadable_to:
            self._unreadable_to = number
            self._spool.recovery.unreadable += 1
            self._on_damage(f"the record {number} in {segment.path} cannot be read and is left out: {why}")

    def _damaged(self, segment: Segment, offset: int, found: list[SpooledRecord], why: str) -> list[SpooledRecord]:
        """Leave the rest of the file out."""
        place = self._offset + offset
        self._on_damage(self._spool.abandon(segment.first, f"{why} at byte {place}"))
        self._offset = segment.size
        return found
