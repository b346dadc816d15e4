"""Opens record batches: verifies their checksums and decompresses their records into one piece of memory. Pure."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import Final

from crc32c import crc32c

from bmq.dataclass import dataclass
from bmq.log.origin import DamagedBatch, Origin
from bmq.protocol.compression import BadCompressedData, Buffer, Compression, decompress_into
from bmq.protocol.record_batch import COMPRESSION_MASK, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, LOG_APPEND_TIME
from bmq.records import batch_layout as layout
from bmq.records.batch_layout import Bodies
from bmq.records.fresh_memory import fresh_memory

_CRC_BEGINS: Final = 21
_LENGTH_WITHOUT_RECORDS: Final = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
_OPENING: Final = Struct("=qi8xIii32xi4xq")
"""Fields of batch_layout.BATCH that opening needs: base offset, length, checksum, attributes, offset delta, count, place."""
assert _OPENING.size == layout.BATCH.size


class Scratch:
    """Memory for decompressed batches, reused for the next ones: fresh memory costs about as much as LZ4.

    For one thread at a time. It stays as large as the largest table was; pages that are never touched use no memory.
    """

    __slots__ = ("_memory", "_size_bytes")

    def __init__(self) -> None:
        self._memory: memoryview = memoryview(b"")
        self._size_bytes = 0

    def of(self, size_bytes: int) -> memoryview:
        """Memory of at least `size_bytes` to write into; it may be the memory that the last call returned."""
        if self._size_bytes < size_bytes:
            # Views of the old memory may still be in use: it is freed with the last view.
            self._memory, self._size_bytes = memoryview(fresh_memory(size_bytes)), size_bytes
        return self._memory


@dataclass(frozen=True, slots=True)
class OpenedBatches:
    """The first batches of a scan with their records decompressed.

    `bodies`: in the kernel's form; their data is the buffer itself if no batch was compressed, else part of a Scratch.
    `is_opened`: a byte per batch, 0 if it did not have to be opened and has no body.
    """

    bodies: Bodies
    is_opened: bytearray


def open_bodies(
    data: Buffer,
    origin: Origin,
    batches: Buffer,
    wanted: int,
    *,
    bytes_max: int,
    batch_bytes_max: int,
    is_verified: bool,
    scratch: Scratch,
) -> OpenedBatches:
    """Verify checksums and decompress, up to the batch with which the bodies reach `bytes_max`; at least one batch.

    `batches`: batch_layout.BATCH structures. A batch is not opened if its header has all that is `wanted`
    (batch_layout.WANTS_…): a record for each of its offsets, and their time if that is the log's.
    Raises DamagedBatch for a wrong checksum, a body that does not decompress or is longer than `batch_bytes_max`, and more
    records than fit into the body.
    """
    view = memoryview(data)
    is_opened = _is_opened(batches, wanted)
    batch_count = len(is_opened)
    starts, ends = array("q", bytes(8 * batch_count)), array("q", bytes(8 * batch_count))
    is_compressed = 1 in is_opened and any(
        opens and attributes & COMPRESSION_MASK
        for opens, (_, _, _, attributes, _, _, _) in zip(is_opened, _OPENING.iter_unpack(batches), strict=True)
    )
    # Leave room for the last batch, however long it turns out to be.
    target = scratch.of(bytes_max + batch_bytes_max) if is_compressed else memoryview(b"")
    used_bytes = 0
    fields = zip(is_opened, _OPENING.iter_unpack(batches), strict=True)
    for number, (opens, (base_offset, length, crc, attributes, _, count, place)) in enumerate(fields):
        end = place + length + LENGTH_OVERHEAD_BYTES
        try:
            if not is_verified and (found := crc32c(view[place + _CRC_BEGINS : end])) != crc:
                raise BadCompressedData(f"record batch checksum {crc:#010x} does not match its bytes ({found:#010x})")
            body_bytes = length - _LENGTH_WITHOUT_RECORDS
            if not opens:
                if attributes & COMPRESSION_MASK:
                    # A body may be compressed to almost nothing, but has no more records than the longest allowed body.
                    body_bytes = batch_bytes_max
            elif is_compressed:
                room = target[used_bytes : used_bytes + batch_bytes_max]
                codec = Compression(attributes & COMPRESSION_MASK)
                body_bytes = decompress_into(codec, view[place + HEADER_BYTES : end], room)
                starts[number], ends[number] = used_bytes, used_bytes + body_bytes
            else:
                starts[number], ends[number] = place + HEADER_BYTES, end
            if count * layout.RECORD_BYTES_MIN > body_bytes:
                raise BadCompressedData(f"{count} records cannot be in {body_bytes} bytes")
        except BadCompressedData as error:
            raise DamagedBatch(origin, place, base_offset, str(error)) from error
        if opens:
            used_bytes += body_bytes
            if used_bytes >= bytes_max:
                batch_count = number + 1
                break
    for each in (starts, ends, is_opened):
        del each[batch_count:]
    opened = target[:used_bytes].toreadonly() if is_compressed else data
    return OpenedBatches(Bodies(opened, batches, starts, ends, batch_count), is_opened)


def _is_opened(batches: Buffer, wanted: int) -> bytearray:
    """A byte per batch: 0 if its header has all that is `wanted`, so that it need not be opened."""
    if wanted > layout.WANTS_TIMESTAMP:
        return bytearray(b"\1" * (memoryview(batches).nbytes // layout.BATCH.size))
    # The header gives all offsets if there is a record for each, and the records' time if it is that of the append.
    fields = _OPENING.iter_unpack(batches)
    if wanted & layout.WANTS_TIMESTAMP:
        return bytearray(
            count != delta + 1 or not attributes & LOG_APPEND_TIME for _, _, _, attributes, delta, count, _ in fields
        )
    return bytearray(count != delta + 1 for _, _, _, _, delta, count, _ in fields)
