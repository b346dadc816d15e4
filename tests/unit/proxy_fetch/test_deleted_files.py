"""Answers that the kernel is to send from files, and that nobody has sent yet when their files are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.local_store import file_part
from bmq.local_store.store import LocalStore
from bmq.log.config import LogConfig
from bmq.log.names import topic_directory
from bmq.log.partition_log import AppendResult, TopicPartition
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.codec import decode_response, encode_request, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.parts import MEMORY, Part
from bmq.protocol.record_batch import batches, verify_crc
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import HOT_HANDLERS
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetcher import Fetcher
from tests.fakes.clock import FakeClock
from tests.support.produced_batch import produced_batch
from tests.unit.proxy_fetch.cluster import LEADER_EPOCH, TOPIC_ID, FetchCluster, want
from tests.unit.routing.owner_nodes import until

pytestmark = pytest.mark.unit

CONFIG = LogConfig(segment_bytes=8_000, segment_index_interval_bytes=100, retention_bytes=0, file_delete_delay_ms=0)
KEY = TopicPartition(TOPIC_ID, 0)
VERSION = 18


class Owner:
    """The only node: its log, and answers as they are before they are sent."""

    def __init__(self, root: Path) -> None:
        self.store = LocalStore(root)
        # Nothing stays in memory but the newest batch.
        settings = BrokerSettings(tail_cache_bytes_max=1, deletions_per_s=10_000)
        self.manager = PartitionManager(self.store, "me", FakeClock(), Random(1), settings)
        self.manager.assign(KEY, LEADER_EPOCH, "t", CONFIG)
        self.fetcher = Fetcher(self.store, FetchSettings(read_chunk_bytes=1_000), random=Random(2))
        cluster = FetchCluster()
        self.services = replace(cluster.services, store=self.store, partitions=self.manager, fetcher=self.fetcher)

    async def log(self) -> PartitionRuntime:
        return await self.manager.leader_of(KEY)

    async def fill(self, first: int, count: int) -> None:
        log = await self.log()
        for number in range(first, first + count):
            answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
            record = Record(None, value_at(number), timestamp_ms=FakeClock().now_ms())
            log.append(produced_batch(log.topic_partition, memoryview(encode_batch([record])), answer.set_result))
            result = await answer
            assert (result.error_code, result.base_offset) == (ErrorCode.NONE, number)

    async def fetch(self, offset: int) -> Sequence[Part]:
        request = want({0: offset}, partition_max_bytes=3_000)
        frame = bytearray(encode_request(ApiKey.FETCH, VERSION, 7, "test", request))
        answer: asyncio.Future[Sequence[Part]] = asyncio.get_running_loop().create_future()
        context = RequestContext(VERSION, "test", "127.0.0.1")
        HOT_HANDLERS[ApiKey.FETCH](frame, parse_request_header(frame), context, self.services, answer.set_result)  # type: ignore[arg-type]
        return await answer

    async def until_deleted(self) -> None:
        trash = self.manager.context.deferred_deletes
        await until(lambda: not (trash._due or trash._workers or trash._timers))

    async def close(self) -> None:
        await self.fetcher.close()
        await self.manager.close()
        await self.store.close()


def value_at(offset: int) -> bytes:
    return b"%d:" % offset + bytes(offset % 7 * 100)


def sent(parts: Sequence[Part], offset: int) -> list[int]:
    """What a client gets: the offsets from `offset` on, each with the value that was written there."""
    frame = b"".join(bytes(part) if isinstance(part, MEMORY) else part.peek(0, len(part)) for part in parts)
    (result,) = decode_response(ApiKey.FETCH, VERSION, frame)[1].responses[0].partitions
    assert result.error_code == ErrorCode.NONE
    data = bytes(result.records)
    offsets = []
    for position, header in batches(data):
        verify_crc(memoryview(data), position, header)
        for record in decode_records(data, position):
            assert record.value == value_at(record.offset)
            offsets.append(record.offset)
    assert offsets and offsets == list(range(offset, offset + len(offsets)))
    return offsets


@pytest.mark.parametrize("way", ["retention", "delete records", "topic"])
async def test_unsent_answers_keep_what_they_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(file_part, "is_cached", lambda *_: True)  # older kernels do not tell
    owner = Owner(tmp_path)
    await owner.fill(0, 200)
    log = await owner.log()
    starts = range(0, 150, 7)
    unsent = {offset: await owner.fetch(offset) for offset in starts}
    assert any(not isinstance(part, MEMORY) for parts in unsent.values() for part in parts)
    match way:
        case "retention":
            await log.retention.apply(FakeClock().now_ms())
        case "delete records":
            assert await log.delete_records(-1) == 200
        case _:
            owner.manager.drop(KEY)
            await owner.store.delete(topic_directory(TOPIC_ID), recursive=True)
    await owner.until_deleted()
    if way != "topic":
        assert log.log_start_offset > 150
        await owner.fill(200, 200)  # new files, perhaps where the old ones were
        again = await owner.fetch(3)
        (result,) = decode_response(ApiKey.FETCH, VERSION, b"".join(again))[1].responses[0].partitions  # type: ignore[arg-type]
        assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert sent(await owner.fetch(log.log_start_offset), log.log_start_offset)
    for offset, parts in unsent.items():
        sent(parts, offset)
    assert len(owner.store._open_files) <= 20
    await owner.close()
