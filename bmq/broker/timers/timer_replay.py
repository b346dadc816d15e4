"""Finds a partition's pending records for its new owner, by reading the log from the offset that the manifest names."""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.log.manifest import TimersReference
from bmq.log.partition_files import PartitionFiles
from bmq.log.segment_reader import read_whole_batches
from bmq.log.store import CorruptFile
from bmq.log.timers.announcements import Position
from bmq.log.timers.replay import HeldRecordReplay, Replay
from bmq.protocol.record_batch import BatchHeader, batches

READ_BYTES: Final = 128 * 1024
"""Bytes parsed in one turn of the event loop: some 15 ms if they are all small holds."""
LIST_MIN: Final = 1_000
"""Delivered records are dropped from the list when it has twice this many, and then each time it has doubled."""


async def replay_timers(files: PartitionFiles, timers: TimersReference, half_messages: HeldRecordReplay) -> Replay:
    """Replay the log from `timers.needed_from` to its end, while nothing is appended. Raises CorruptRecords, StoreError."""
    replay = Replay(Position(timers.due_ms, timers.offset), half_messages, timers.replay_from)
    offset, end_offset = timers.needed_from, files.end_offset
    kept_count = LIST_MIN
    while offset < end_offset:
        location = await files.locate(offset)
        found = await read_whole_batches(files.store, location, offset, READ_BYTES, end_offset)
        if found is None:
            raise CorruptFile(f"{location.path} should hold offset {offset} and does not")
        last: BatchHeader | None = None
        for position, header in batches(found[1]):
            replay.add_batch(found[1], position, header)
            last = header
        assert last is not None
        offset = last.end_offset
        if len(replay.pending) + len(replay.kept) >= 2 * kept_count:
            replay.drop_delivered()
            kept_count = max(len(replay.pending) + len(replay.kept), LIST_MIN)
        await asyncio.sleep(0)
    return replay
