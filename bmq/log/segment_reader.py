"""Reads whole record batches of one segment file from a batch boundary on, in chunks, with bounded memory.

It skips padding between batches. Replay, time look-ups and recovery use it; the proxy's catch-up path has its own reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.dataclass import dataclass
from bmq.log.padding import is_blank, is_padding, padding_end
from bmq.log.partition_log import Location
from bmq.log.store import Buffer, SegmentStore
from bmq.protocol.record_batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    CorruptRecords,
    InvalidRecords,
    verify_crc,
)

CHUNK_BYTES: Final = 1024 * 1024
_CHUNK_BYTES_MIN: Final = 64 * 1024
BATCH_BYTES_MAX: Final = 256 * 1024 * 1024  # no request can carry a longer batch, so a larger length field is damaged


class BadBatch(CorruptRecords):
    """There is no whole, valid batch at `position` of the file, where one should begin."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at {position}: {reason}")
        self.position = position


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Whole batches, perhaps with padding between them.

    `batches`: (position in `data`, header) of each. `position`: that of `data` in the file.
    """

    position: int
    data: memoryview
    batches: list[tuple[int, BatchHeader]]


class SegmentReader:
    """A cursor over one file's batches. It reads up to the position `valid_bytes`."""

    def __init__(
        self,
        store: SegmentStore,
        path: str,
        *,
        file_id: int,
        position: int,
        valid_bytes: int,
        chunk_bytes: int = CHUNK_BYTES,
        is_verifying: bool = True,
    ) -> None:
        self._store = store
        self._path = path
        self._file_id = file_id
        self._valid_bytes = valid_bytes
        self._chunk_bytes = max(chunk_bytes, HEADER_BYTES)
        self._is_verifying = is_verifying
        self._rest = b""  # bytes at `position` that were read, but are not a whole batch yet
        self._bad: BadBatch | None = None
        self.position = position
        self.read_bytes = 0

    @classmethod
    def at(cls, store: SegmentStore, location: Location, *, chunk_bytes: int = CHUNK_BYTES) -> SegmentReader:
        """A reader that begins at a location."""
        return cls(
            store,
            location.path,
            file_id=location.file_id,
            position=location.position,
            valid_bytes=location.valid_bytes,
            chunk_bytes=chunk_bytes,
        )

    async def next_run(self) -> BatchRun | None:
        """The next batches, at least one and about a chunk; None at the end of the valid bytes.

        Raises BadBatch (after all good batches were returned), FileMissing, CorruptFile, StorageUnavailable.
        """
        if self._bad is not None:
            raise self._bad
        want_bytes = self._chunk_bytes
        while self.position < self._valid_bytes:
            data = await self._fill(want_bytes)
            run, missing_bytes = self._take(data)
            if run is not None:
                return run
            if self._bad is not None:
                raise self._bad
            want_bytes = missing_bytes
        return None

    async def _fill(self, want_bytes: int) -> Buffer:
        """Read `want_bytes` from the position on, or fewer at the end of the valid bytes."""
        start = self.position + len(self._rest)
        length = min(self.position + want_bytes, self._valid_bytes) - start
        if length <= 0:
            return self._rest
        fresh = await self._store.read(self._path, file_id=self._file_id, position=start, length_bytes=length)
        self.read_bytes += length
        return b"".join((self._rest, fresh)) if self._rest else fresh

    def _take(self, data: Buffer) -> tuple[BatchRun | None, int]:
        """(the whole batches at the front of `data`, the least number of bytes that the next batch needs)."""
        view = memoryview(data)
        valid_left = self._valid_bytes - self.position
        found: list[tuple[int, BatchHeader]] = []
        start = place = 0
        needed_bytes = 0
        while place < len(view):
            if len(view) - place < HEADER_BYTES and len(view) < valid_left:
                needed_bytes = HEADER_BYTES
                break
            if is_padding(view, place):
                end = min(padding_end(self.position + place) - self.position, valid_left)
                if end > len(view):
                    needed_bytes = end - place
                    break
                if not is_blank(view[place:end]):
                    self._bad = BadBatch(self._path, self.position + place, "neither a record batch nor padding")
                    break
                place = end
                if not found:
                    start = end
                continue
            try:
                header = BatchHeader.parse(view, place)
                end = place + header.length + LENGTH_OVERHEAD_BYTES
                if end > len(view):
                    if end > valid_left or header.length > BATCH_BYTES_MAX:
                        raise CorruptRecords(f"a batch of {header.size_bytes} bytes runs past the valid bytes")
                    needed_bytes = end - place
                    break
                if self._is_verifying:
                    verify_crc(view, place, header)
            except (CorruptRecords, InvalidRecords) as error:
                self._bad = BadBatch(self._path, self.position + place, str(error))
                break
            found.append((place, header))
            place = end
        self._rest = bytes(view[place:])
        run = BatchRun(self.position + start, view[start:place], [(at - start, header) for at, header in found])
        self.position += place
        return (run, 0) if found else (None, needed_bytes or HEADER_BYTES)


async def read_whole_batches(
    store: SegmentStore, location: Location, offset: int, length_bytes_max: int, bound_offset: int
) -> tuple[int, memoryview] | None:
    """(base offset, batches back to back), from the batch that has `offset` on; none ends past `bound_offset`.

    At least one batch if there is one, even if it is longer than `length_bytes_max`; None if the extent has none. Raises
    BadBatch, FileMissing, CorruptFile, StorageUnavailable.
    """
    chunk_bytes = min(CHUNK_BYTES, max(_CHUNK_BYTES_MIN, length_bytes_max))
    reader = SegmentReader.at(store, location, chunk_bytes=chunk_bytes)
    while (run := await reader.next_run()) is not None:
        taken: list[tuple[int, BatchHeader]] = []
        size = 0
        for place, header in run.batches:
            if header.end_offset <= offset:
                continue
            size += header.size_bytes
            if header.end_offset > bound_offset or (taken and size > length_bytes_max):
                break
            taken.append((place, header))
        if taken:
            return taken[0][1].base_offset, _together(run.data, taken)
        if run.batches[-1][1].end_offset > offset:
            return None
    return None


def _together(data: memoryview, taken: Sequence[tuple[int, BatchHeader]]) -> memoryview:
    """The batches back to back: a view of `data`, or a copy if there is padding between them."""
    start, (last_place, last) = taken[0][0], taken[-1]
    end = last_place + last.size_bytes
    if sum(header.size_bytes for _, header in taken) == end - start:
        return data[start:end]
    return memoryview(b"".join(data[place : place + header.size_bytes] for place, header in taken))
