"""Segments, records and whole topics go while readers are in the middle of them: they get what was written, or an error.

Method: one idempotent producer writes values that name their topic's life and their offset, through a proxy that owns
nothing. Readers at that proxy, by topic id, by name and in fetch sessions, compare every record with its place. Meanwhile
retention and DeleteRecords raise the log's start, files go at once, the partition moves, and the topic is deleted and made
again under its name. When it is calm again, a reader gets everything from the log's start to its end.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

from bmq.broker.runtime import PartitionRuntime
from bmq.log.config import LogConfig
from bmq.log.names import topic_directory
from bmq.log.partition_log import AppendResult, TopicPartition
from bmq.metadata.image import PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import decode_records
from bmq.protocol.codec import decode_response, encode_request, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import batches, verify_crc
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import HOT_HANDLERS
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetcher import Fetcher
from tests.support.gate_share import few_in_gate
from tests.support.produced_batch import produced_batch
from tests.unit.proxy_fetch.cluster import want
from tests.unit.routing.owner_nodes import TOPIC_ID, Cluster, batch_of
from tests.unit.routing.test_remote_fetch import Consumers

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

CONFIG: Final = LogConfig(segment_bytes=700, retention_bytes=2_500, file_delete_delay_ms=0)
BY_NAME, BY_ID = 12, 18
CHAOS_S = 4.0
_PASSING: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Lives:
    """One topic name and the topics that have it one after the other; their only partition is led by `leader`."""

    def __init__(self, cluster: Cluster, consumers: Consumers, dice: Random) -> None:
        self.cluster, self.consumers, self.dice = cluster, consumers, dice
        self.life = 0
        self.leader, self.epoch = 2, 1
        self.next_offset = 0
        self.records_read = 0
        self.seen: dict[str, int] = {}

    @property
    def topic_id(self) -> UUID:
        return UUID(int=TOPIC_ID.int + self.life)

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic_id, 0)

    async def owned(self) -> PartitionRuntime:
        return await self.cluster.nodes[self.leader].manager.leader_of(self.key)

    def show(self) -> None:
        partition = PartitionImage(0, self.leader, self.epoch, (2, 3), (2, 3))
        topic = TopicImage("t", self.topic_id, (partition,), {}, CONFIG)
        self.cluster.publish(replace(self.cluster.image, topics={"t": topic}, topics_by_id={self.topic_id: topic}))

    def assign(self) -> None:
        node = self.cluster.nodes[self.leader]
        node.process.context().run(node.manager.assign, self.key, self.epoch, "t", CONFIG)

    # --- what happens to it

    async def move(self) -> None:
        """In order, or without asking the owner."""
        node, self.leader, self.epoch = self.cluster.nodes[self.leader], 5 - self.leader, self.epoch + 1
        self.show()
        if self.dice.random() < 0.5:
            await node.process.spawn(node.manager.unassign(self.key))
        self.assign()

    async def make_again(self) -> None:
        node, before = self.cluster.nodes[self.leader], self.key
        self.cluster.publish(replace(self.cluster.image, topics={}, topics_by_id={}))
        node.process.context().run(node.manager.drop, before)
        if self.dice.random() < 0.5:
            await asyncio.sleep(self.dice.uniform(0, 0.2))
        self.life += 1
        self.leader, self.epoch, self.next_offset = self.dice.choice((2, 3)), 0, 0
        self.show()
        self.assign()
        await self.cluster.store.client("controller").delete(topic_directory(before.topic_id), recursive=True)

    async def delete_something(self) -> None:
        owned = await self.owned()
        if self.dice.random() < 0.5:
            await owned.retention.apply(self.cluster.clock.now_ms())
        else:
            await owned.delete_records(self.dice.randint(0, owned.high_watermark))

    async def chaos(self) -> None:
        while True:
            await asyncio.sleep(self.dice.uniform(0.0, 0.25))
            try:
                match self.dice.choices(("delete", "move", "again"), (6, 2, 1))[0]:
                    case "delete":
                        await self.delete_something()
                    case "move":
                        await self.move()
                    case _:
                        await self.make_again()
            except BmqError as error:
                assert error.code in _PASSING, error

    # --- who uses it

    async def produce(self) -> None:
        """One record at a time, each until it is acknowledged or its topic is gone."""
        while True:
            life, offset = self.life, self.next_offset
            batch = batch_of(value_at(life, offset), producer_id=life + 1, producer_epoch=0, base_sequence=offset)
            answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
            until_s = asyncio.get_running_loop().time() + 5
            self.consumers.services.appender.append(
                produced_batch(self.key, batch, answer.set_result, send_until_s=until_s)
            )
            result = await answer
            if result.error_code is ErrorCode.NONE and life == self.life:
                assert result.base_offset == offset
                self.next_offset = offset + 1
            elif result.error_code is not ErrorCode.NONE:
                assert result.error_code in _PASSING | {ErrorCode.REQUEST_TIMED_OUT}, result
            await asyncio.sleep(self.dice.uniform(0.0, 0.01))

    async def read(self, reader: Reader) -> None:
        while True:
            await reader.step()


def value_at(life: int, offset: int) -> bytes:
    return b"%d:%d:" % (life, offset) + bytes(self_size(offset))


def self_size(offset: int) -> int:
    return 20 + offset * 37 % 150


class Reader:
    """Fetches at `offset` in one way; a session's fetches name only what changes."""

    def __init__(self, lives: Lives, fetcher: Fetcher, version: int, *, has_session: bool) -> None:
        self.lives, self.fetcher, self.version, self.has_session = lives, fetcher, version, has_session
        self.services = replace(lives.consumers.services, fetcher=fetcher)
        self.life, self.offset = 0, 0
        self.session = (0, 0) if has_session else (0, -1)
        self.told_offset = -1

    async def step(self) -> None:
        lives, dice = self.lives, self.lives.dice
        if self.life != lives.life and (self.version == BY_NAME or dice.random() < 0.3):
            self.life, self.offset, self.told_offset = lives.life, 0, -1
        lives_possible = {lives.life}
        result = await self.fetch(dice.choice((1, 300, 2_000)), dice.choice((0, 100)))
        lives_possible = {*lives_possible, *range(min(lives_possible), lives.life + 1)}
        if result is None:
            await asyncio.sleep(dice.uniform(0, 0.02))
            return
        code = ErrorCode(result.error_code)
        lives.seen[code.name] = lives.seen.get(code.name, 0) + 1
        if code is not ErrorCode.NONE:
            assert code in _PASSING, code
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                self.offset = dice.randint(0, lives.next_offset)
            await asyncio.sleep(dice.uniform(0, 0.02))
            return
        allowed = lives_possible if self.version == BY_NAME else {self.life}
        self.take(result.records or b"", allowed)
        if dice.random() < 0.05:
            self.offset = dice.randint(0, lives.next_offset)  # a seek
        await asyncio.sleep(dice.uniform(0, 0.01 if result.records else 0.02))

    def take(self, records: bytes, allowed_lives: set[int]) -> list[int]:
        """The offsets of these records, which follow each other and are what was written there."""
        offsets = []
        for position, header in batches(records):
            verify_crc(memoryview(records), position, header)
            for record in decode_records(records, position):
                if record.offset < self.offset:
                    continue
                assert record.offset == self.offset, "a gap"
                assert record.value in {value_at(life, record.offset) for life in allowed_lives}, "garbage"
                offsets.append(record.offset)
                self.offset = record.offset + 1
        self.lives.records_read += len(offsets)
        return offsets

    async def fetch(self, length_bytes_max: int, max_wait_ms: int) -> Any:
        """The partition's result; None: nothing new, or the session is to be made anew."""
        is_full = self.session[1] <= 0
        offsets = {0: self.offset} if is_full or self.offset != self.told_offset else {}
        topic_id = UUID(int=TOPIC_ID.int + self.life)
        request = want(
            offsets,
            max_wait_ms=max_wait_ms,
            partition_max_bytes=length_bytes_max,
            session=self.session,
            topic_id=topic_id,
        )
        self.told_offset = self.offset
        frame = bytearray(encode_request(ApiKey.FETCH, self.version, 7, "test", request))
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def reply(buffers: Any) -> None:
            answer.set_result(decode_response(ApiKey.FETCH, self.version, b"".join(buffers))[1])

        context = RequestContext(self.version, "test", "127.0.0.1")
        HOT_HANDLERS[ApiKey.FETCH](frame, parse_request_header(frame), context, self.services, reply)  # type: ignore[arg-type]
        response = await answer
        if self.has_session:
            if response.error_code:
                self.session, self.told_offset = (0, 0), -1
                return None
            self.session = response.session_id, self.session[1] + 1
        found = [one for topic in response.responses if self.is_asked(topic, topic_id) for one in topic.partitions]
        return found[0] if found else None

    def is_asked(self, topic: Any, topic_id: UUID) -> bool:
        """A session may still have an earlier life's topic."""
        return self.version == BY_NAME or topic.topic_id == topic_id


@few_in_gate("seed", range(4), every=4, others=in_campaign)
def test_readers_get_what_was_written_or_an_error(seed: int) -> None:
    cluster = Cluster(seed=seed)

    async def main() -> None:
        consumers = Consumers(cluster)
        lives = Lives(cluster, consumers, Random(seed))
        for node in cluster.nodes.values():
            node.process.context().run(node.manager.drop, lives.key)
        lives.show()
        lives.assign()
        settings = FetchSettings(read_chunk_bytes=512, read_cache_bytes_max=4_096, fetch_max_bytes=10_000)
        store = cluster.store.client("proxy")
        fetchers = [Fetcher(store, settings, random=Random(seed)) for _ in range(2)]
        readers = [
            Reader(lives, fetchers[number % 2], version, has_session=has_session)
            for number, (version, has_session) in enumerate(
                ((BY_ID, False), (BY_ID, True), (BY_NAME, False), (BY_NAME, True))
            )
        ]
        using = [asyncio.ensure_future(lives.produce()), *(asyncio.ensure_future(lives.read(one)) for one in readers)]
        troubling = asyncio.ensure_future(lives.chaos())
        await asyncio.wait({*using, troubling}, timeout=CHAOS_S, return_when=asyncio.FIRST_COMPLETED)
        for task in (troubling, *using):
            task.cancel()
        ended = await asyncio.gather(troubling, *using, return_exceptions=True)
        failed = [one for one in ended if not isinstance(one, asyncio.CancelledError)]
        assert not failed, failed
        lives.epoch += 1  # whatever was under way: somebody owns it now
        lives.show()
        lives.assign()
        await read_all(lives, readers)
        for fetcher in (*fetchers, consumers.fetcher):
            await fetcher.close()
        assert lives.records_read > 100
        assert lives.seen.get("OFFSET_OUT_OF_RANGE", 0) > 0

    cluster.run(main)


async def read_all(lives: Lives, readers: list[Reader]) -> None:
    """Each reader, whatever state it is in, gets all that there is."""
    owned = await lives.owned()
    await asyncio.sleep(1)
    for reader in readers:
        reader.life, reader.offset = lives.life, owned.log_start_offset
        tries = 0
        while reader.offset < owned.high_watermark:
            tries += 1
            assert tries < 500, (reader.version, reader.has_session, reader.offset, owned.high_watermark)
            result = await reader.fetch(2_000, 100)
            if result is None:
                continue
            assert result.error_code == ErrorCode.NONE, ErrorCode(result.error_code)
            reader.take(result.records or b"", {lives.life})
