"""Checks a run of delayed records that a manifest names: length, checksums, order, and the manifest's values."""

from __future__ import annotations

from bmq.log.names import renamed_path
from bmq.log.store import CorruptFile, FileMissing, SegmentStore
from bmq.log.timers.announcements import START
from bmq.log.timers.run_file import BLOCK_BYTES
from bmq.log.timers.run_reader import RunReader
from bmq.log.timers.run_reference import RunReference
from bmq.spark.jobs.segment_check import Kind, SegmentCheck


async def check_run(store: SegmentStore, path: str, run: RunReference, check: SegmentCheck) -> None:
    """Check the run, also if its directory was sealed since `path` was found. Raises FileMissing, StorageUnavailable."""
    try:
        await _check(store, path, run, check)
    except FileMissing:
        await _check(store, renamed_path(path), run, check)


async def _check(store: SegmentStore, path: str, run: RunReference, check: SegmentCheck) -> None:
    status = await store.status(path)
    if status is None:
        raise FileMissing(path)
    if status.is_open or status.length_bytes != run.length:
        state = "is open" if status.is_open else f"has {status.length_bytes} bytes"
        check.found(Kind.RUN, f"the manifest says that this run is closed with {run.length} bytes, and it {state}")
        return
    reader, position = RunReader(store, path, run), 0
    try:
        index = await reader.index()
        for block in range(len(index)):
            position = index.positions[block]
            await reader.read(block, START, until_ms=-1, bytes_max=BLOCK_BYTES)
    except CorruptFile as error:
        check.found(Kind.RUN, str(error), position_bytes=position)
