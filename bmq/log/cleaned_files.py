"""Checks a file of cleaned batches that a job wrote, batch by batch, and builds its index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from crc32c import crc32c

from bmq.log.aborted_transactions import AbortedEntry
from bmq.log.delegated_compaction import CleanedFile, DelegationRefused
from bmq.log.segment_index import IndexBuilder, SegmentIndex
from bmq.log.segment_reader import BadBatch, SegmentReader
from bmq.log.store import CorruptFile, FileMissing, SegmentStore
from bmq.protocol.record_batch import NO_TIMESTAMP_MS

CHUNK_BYTES: Final = 1024 * 1024


async def checked_index(
    store: SegmentStore,
    path: str,
    file: CleanedFile,
    *,
    leader_epoch: int,
    aborted: Sequence[AbortedEntry],
    index_interval_bytes: int,
    pace: Callable[[int], Awaitable[None]],
) -> SegmentIndex:
    """The index of the file at `path`, without the file's final place. All that `file` claims is compared with the bytes.

    `leader_epoch`: the owner's; no batch may have a higher one. `aborted`: the aborted transactions of the segments that the file
    is to replace, and perhaps others; the file must list exactly those of them whose markers it lacks. `pace` is awaited with the
    number of bytes of each read.
    Raises DelegationRefused, StorageUnavailable.
    """
    status = await store.status(path)
    if status is None or status.is_directory:
        raise DelegationRefused(f"{path} is not there")
    if status.is_open:
        raise DelegationRefused(f"{path} was never closed")
    if status.length_bytes != file.length_bytes or status.file_id != file.file_id:
        raise DelegationRefused(
            f"{path} is file {status.file_id} of {status.length_bytes} bytes, "
            f"but its description says {file.file_id} of {file.length_bytes}"
        )
    try:
        return await _index(store, path, file, leader_epoch, aborted, index_interval_bytes, pace)
    except (BadBatch, CorruptFile, FileMissing) as error:
        raise DelegationRefused(str(error)) from error


async def _index(
    store: SegmentStore,
    path: str,
    file: CleanedFile,
    leader_epoch: int,
    aborted: Sequence[AbortedEntry],
    index_interval_bytes: int,
    pace: Callable[[int], Awaitable[None]],
) -> SegmentIndex:
    markers: set[int] = set()
    reader = SegmentReader(
        store, path, file_id=file.file_id, position=0, valid_bytes=file.length_bytes, chunk_bytes=CHUNK_BYTES
    )
    builder = IndexBuilder(0, 0, 0, file.base_offset, interval_bytes=index_interval_bytes)
    crc = batch_count = record_count = 0
    while (run := await reader.next_run()) is not None:
        for place, header in run.batches:
            position = run.position + place
            if position != builder.valid_bytes:
                raise DelegationRefused(f"{path} has something else than batches at {builder.valid_bytes}")
            if header.base_offset < builder.end_offset or header.leader_epoch > leader_epoch:
                raise DelegationRefused(
                    f"{path} at {position}: offset {header.base_offset} of leader epoch {header.leader_epoch} "
                    f"follows {builder.end_offset} of {leader_epoch}"
                )
            crc = crc32c(run.data[place : place + header.size_bytes], crc)
            # A batch without records gets no timestamp, so that a search by time does not end at it.
            told = header if header.record_count else header._replace(max_timestamp_ms=NO_TIMESTAMP_MS)
            builder.add(told, header.base_offset, position)
            if header.is_control and header.record_count:
                markers.add(header.base_offset)
            batch_count += 1
            record_count += header.record_count
        await pace(len(run.data))
    found = (builder.valid_bytes, crc, builder.end_offset, batch_count, record_count, builder.max_timestamp_ms)
    said = (
        file.length_bytes,
        file.crc,
        file.end_offset,
        file.batch_count,
        file.record_count,
        file.max_timestamp_ms,
    )
    if found != said:
        names = ("length", "CRC", "end offset", "batches", "records", "greatest timestamp")
        differing = ", ".join(
            f"{name} {a} instead of {b}" for name, a, b in zip(names, found, said, strict=True) if a != b
        )
        raise DelegationRefused(f"{path} differs from its description: {differing}")
    ends = {entry.last_offset for entry in aborted if file.base_offset <= entry.last_offset < file.end_offset}
    # With too few aborted transactions readers would get aborted records; with too many they would leave out committed ones.
    if set(file.dropped_aborts) != ends - markers:
        raise DelegationRefused(
            f"{path} is said to be without {len(file.dropped_aborts)} markers of aborted transactions, "
            f"and {len(ends - markers)} of {len(ends)} are not there"
        )
    return builder.build(file.length_bytes)
