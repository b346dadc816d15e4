"""What a compaction meets: a map that takes few keys, a disk that is full, a topic that is deleted, and made again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from bmq.broker.context import CompactionPace
from bmq.log.names import parse_cleaned
from bmq.log.partition_log import TopicPartition
from bmq.log.store import Durability, SegmentWriter, StorageFull
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from tests.fakes.clock import FakeClock
from tests.unit.broker.compaction.test_compaction import (
    COMPACT,
    Interrupted,
    cleaning_of,
    compact,
    filled,
    newest,
    put,
    read,
    settled,
)
from tests.unit.broker.world import KEY, Owner, World, append, virtual

pytestmark = pytest.mark.unit

MADE_AGAIN = TopicPartition(UUID(int=8), 0)
"""Another topic of the same name."""


# --- a map that is too small


@pytest.mark.parametrize("map_bytes", [1, 100])
def test_a_map_smaller_than_a_segments_keys_cleans_what_fits(map_bytes: int) -> None:
    """As Kafka's cleaner, which maps a segment in part and goes on there the next time."""

    async def main() -> None:
        owner = World(compaction_check_interval_ms=1_000).owner(replace(COMPACT, segment_bytes=10**6))
        log = await owner.log()
        now_ms = FakeClock().now_ms()
        for number in range(3):  # each batch alone has more keys than the map has room for
            records = [Record(b"%d" % key, b"%d" % number, timestamp_ms=now_ms) for key in range(12)]
            assert not (await append(log, encode_batch(records))).error_code
        before = await read(log)
        owner.manager.context.compaction = CompactionPace(1_000, map_bytes, 10**9)
        log.update_config(replace(COMPACT, segment_bytes=10**6, segment_ms=1))
        files = log.inspect().files
        assert files is not None
        owner.manager.context.clock.advance(10_000)  # type: ignore[attr-defined]
        await rolled(owner)
        reached = files.first_dirty_offset
        for _ in range(60):
            found = log.compaction.cleanable(owner.manager.context.clock.now_ms())
            if found is None or not found.dirty_bytes:
                break
            await compact(owner, log)
            assert files.first_dirty_offset > reached, "each compaction comes further"
            reached = files.first_dirty_offset
        assert reached >= 36
        after = [entry for entry in await read(log) if entry[0] < 36]
        assert after == [entry for entry in before if entry[2] == b"2"]
        await owner.manager.close()

    virtual(main)


async def rolled(owner: Owner) -> None:
    log = await owner.log()
    files = log.inspect().files
    assert files is not None
    for _ in range(100):
        if files.extents:
            return
        await asyncio.sleep(1)
    raise AssertionError("the segment is not closed")


# --- a disk that is full


class FullDisk:
    """The store of an owner that has no room at one step of a compaction, as long as `is_full`."""

    def __init__(self, owner: Owner, step: str) -> None:
        self.is_full = True
        self.refused = 0
        self._step = step
        self._client = owner.client
        self._create_segment, self._write_file = owner.client.create_segment, owner.client.write_file
        owner.client.create_segment = self.create_segment  # type: ignore[method-assign,assignment]
        owner.client.write_file = self.write_file  # type: ignore[method-assign,assignment]

    def meets(self, step: str) -> None:
        if self.is_full and step == self._step:
            self.refused += 1
            raise StorageFull("no space left")

    async def create_segment(self, path: str, **more: Any) -> SegmentWriter:
        is_cleaned = parse_cleaned(path.rpartition("/")[2]) is not None
        if is_cleaned:
            self.meets("create")
        writer = await self._create_segment(path, **more)
        return _FullWriter(self, writer) if is_cleaned else writer  # type: ignore[return-value]

    async def write_file(self, path: str, data: bytes, **more: Any) -> Any:
        name = path.rpartition("/")[2]
        if name.startswith("manifest"):
            self.meets("manifest")
        if parse_cleaned(name.rpartition(".")[0]) is not None:  # a draft of an index
            self.meets("index")
        return await self._write_file(path, data, **more)


class _FullWriter:
    def __init__(self, disk: FullDisk, writer: SegmentWriter) -> None:
        self._disk, self._writer = disk, writer
        self.path, self.file_id, self.replicas = writer.path, writer.file_id, writer.replicas

    async def append(self, buffers: Sequence[Any]) -> Any:
        self._disk.meets("append")
        return await self._writer.append(buffers)

    async def close(self) -> int:
        self._disk.meets("close")
        return await self._writer.close()

    def abandon(self) -> None:
        self._writer.abandon()


@pytest.mark.parametrize("step", ["create", "append", "close", "index", "manifest"])
def test_a_disk_that_fills_while_cleaning_leaves_the_log_as_it_was(step: str) -> None:
    async def main() -> None:
        owner = World(compaction_check_interval_ms=1_000).owner(COMPACT)
        log = await filled(owner)
        before = await read(log)
        disk = FullDisk(owner, step)
        owner.manager.use_cleaning(cleaning_of(owner))
        await asyncio.sleep(3)
        assert disk.refused > 1, "it is tried again"
        assert (owner.manager.counts.compactions, owner.manager.counts.uncleanable) == (0, 0)
        assert log.is_owning and await read(log) == before
        # A manifest that seemed to fail may name the file; then it is one, however often it was tried.
        assert len(await cleaned(owner, "log")) == (step == "manifest"), "what was written of the new file is removed"
        await put(log, b"1", b"meanwhile")
        disk.is_full = False
        await asyncio.sleep(10)
        assert owner.manager.counts.compactions
        assert newest(await read(log)) == newest(before) | {b"1": (200, b"meanwhile")}
        await asyncio.sleep(5)
        files = log.inspect().files
        assert files is not None
        assert await cleaned(owner, "log") == {extent.roll for extent in files.extents}
        assert await cleaned(owner, "index") == {extent.roll for extent in files.extents}
        await owner.manager.close()

    virtual(main)


async def cleaned(owner: Owner, suffix: str) -> set[int]:
    """Rolls of the compacted files in the owner's directory."""
    log = await owner.log()
    entries = await owner.client.list_directory(log.inspect().paths.own)
    return {
        roll for entry in entries if entry.name.endswith(suffix) and (roll := parse_cleaned(entry.name)) is not None
    }


# --- a topic that is deleted


@pytest.mark.parametrize("count", range(5))
@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_topic_deleted_while_it_is_compacted_stays_deleted(count: int, is_made_again: bool) -> None:
    """Whatever the compaction was about to do; a topic of the same name has a directory of its own."""

    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await filled(owner)
        directory = log.inspect().paths.partition

        async def delete() -> None:
            owner.manager.drop(KEY)
            await owner.client.delete(directory, recursive=True)
            if is_made_again:
                owner.manager.assign(MADE_AGAIN, 1, "topic", COMPACT, 0)
                await put(await owner.manager.leader_of(MADE_AGAIN), b"1", b"of the new one")

        with pytest.raises(BmqError):
            await compact(owner, log, Interrupted(cleaning_of(owner), count, None, delete))  # type: ignore[arg-type]
        await asyncio.sleep(5)
        assert await owner.client.status(directory) is None, "nothing brings the directory back"
        late = await append(log, encode_batch([Record(b"1", b"late")]))
        assert late.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(KafkaError) as refused:
            await log.locate(0)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if is_made_again:
            again = await owner.manager.leader_of(MADE_AGAIN)
            assert await read(again) == [(0, b"1", b"of the new one")]
            for number in range(40):
                await put(again, b"%d" % (number % 3), b"x" * 90)
            await settled(again)
            before = newest(await read(again))
            await compact(owner, again)
            assert newest(await read(again)) == before
            assert await owner.client.status(directory) is None
        await owner.manager.close()

    virtual(main)


def test_the_scheduler_goes_on_when_a_topic_was_deleted_under_it() -> None:
    async def main() -> None:
        owner = World(compaction_check_interval_ms=1_000).owner(replace(COMPACT, durability=Durability.HSYNC))
        log = await filled(owner)
        directory = log.inspect().paths.partition

        async def delete() -> None:
            if (await owner.client.status(directory)) is not None:
                owner.manager.drop(KEY)
                await owner.client.delete(directory, recursive=True)
                owner.manager.assign(MADE_AGAIN, 1, "topic", COMPACT, 0)

        owner.manager.use_cleaning(Interrupted(cleaning_of(owner), 1, None, delete))  # type: ignore[arg-type]
        await asyncio.sleep(5)
        assert (owner.manager.counts.compactions, owner.manager.counts.uncleanable) == (0, 0)
        again = await owner.manager.leader_of(MADE_AGAIN)
        for number in range(40):
            await put(again, b"%d" % (number % 3), b"x" * 90)
        await settled(again)
        before = newest(await read(again))
        await asyncio.sleep(5)
        assert owner.manager.counts.compactions
        assert newest(await read(again)) == before
        await owner.manager.close()

    virtual(main)
