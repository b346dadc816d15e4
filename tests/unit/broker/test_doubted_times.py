"""Retention by time where old segments have headers that lie: nothing fresh goes, and what is old does."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from bmq.broker import partition_retention
from bmq.broker.runtime import PartitionRuntime
from bmq.log.config import LogConfig
from bmq.log.manifest import Extent
from bmq.log.partition_files import PartitionFiles
from bmq.log.timestamp_lookup import newest_time_of
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from tests.fakes.namespace import files_below
from tests.unit.broker.world import World, append, read_all, virtual

pytestmark = pytest.mark.unit

DAY_MS = 86_400_000
CONFIG = LogConfig(segment_bytes=2000, retention_ms=DAY_MS)


def lying(first_ms: int, says_ms: int) -> bytearray:
    """A batch as an earlier revision stored it: the header's greatest time is not that of the record."""
    data = encode_batch([Record(b"k", bytes(1500), timestamp_ms=first_ms)])
    struct.pack_into(">q", data, 35, says_ms)
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4)
    return data


async def stored(log: PartitionRuntime, *batches: bytearray) -> None:
    for data in batches:
        assert (await append(log, data, is_internal=True)).error_code is ErrorCode.NONE


@pytest.mark.parametrize("says_ms", [-1, 0, 5])
def test_fresh_records_stay_whatever_their_header_says(says_ms: int) -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(CONFIG).log()
        now_ms = world.clock.now_ms()
        await stored(log, *(lying(now_ms, says_ms) for _ in range(3)))
        assert log.retention.is_due(now_ms)
        await log.retention.apply(now_ms)
        assert log.log_start_offset == 0 and len(await read_all(log)) == 3
        assert not log.retention.is_due(now_ms)
        later_ms = now_ms + DAY_MS + 1
        assert log.retention.is_due(later_ms)
        await log.retention.apply(later_ms)
        assert log.log_start_offset == 2  # all but the open segment

    virtual(main)


@pytest.mark.parametrize("says_ms", [-1, 0])
def test_old_records_go_though_their_header_has_no_time(says_ms: int) -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(CONFIG).log()
        now_ms = world.clock.now_ms()
        old_ms = now_ms - 5 * DAY_MS
        await stored(log, lying(old_ms, says_ms), lying(old_ms, says_ms), lying(now_ms, now_ms), lying(now_ms, now_ms))
        await log.retention.apply(now_ms)
        assert log.log_start_offset == 2

    virtual(main)


def test_records_of_1970_go_as_they_do_in_kafka() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(CONFIG).log()
        now_ms = world.clock.now_ms()
        await stored(log, lying(1000, 1000), lying(1000, 1000), lying(now_ms, now_ms))
        await log.retention.apply(now_ms)
        assert log.log_start_offset == 2

    virtual(main)


def test_records_without_any_time_go_by_the_time_of_their_file() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(CONFIG).log()
        now_ms = world.clock.now_ms()
        await stored(log, *(lying(-1, -1) for _ in range(4)))
        every = files_below(world.store.namespace.root, "")
        files = [file for _, file in every if not file.is_open and len(file.data) > 1500]
        for number, file in enumerate(files):
            file.modified_ms = now_ms + number
        assert len(files) == 3
        await log.retention.apply(now_ms)
        assert log.log_start_offset == 0
        await log.retention.apply(now_ms + DAY_MS + 2)
        assert log.log_start_offset == 2  # the third file is a millisecond too young, the fourth is open

    virtual(main)


def test_records_without_any_time_stay_where_the_store_has_none_of_their_file() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(CONFIG).log()
        now_ms = world.clock.now_ms()
        await stored(log, *(lying(-1, -1) for _ in range(3)))
        await log.retention.apply(now_ms)
        assert log.log_start_offset == 0
        assert not log.retention.is_due(now_ms)

    virtual(main)


def test_what_a_segment_holds_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    async def counted(files: PartitionFiles, extent: Extent) -> int:
        looks.append(extent.roll)
        return await newest_time_of(files, extent)

    monkeypatch.setattr(partition_retention, "newest_time_of", counted)

    async def main() -> None:
        world = World()
        log = await world.owner(CONFIG).log()
        now_ms = world.clock.now_ms()
        await stored(log, *(lying(now_ms, 0) for _ in range(4)))
        for _ in range(3):
            await log.retention.apply(now_ms)

    virtual(main)
    assert len(looks) == 1
