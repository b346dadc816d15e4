"""Consumers and their questions at a proxy that owns nothing: as if the partitions were there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.metadata.image import Node
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import decode_records
from bmq.protocol.codec import decode_request, decode_response, encode_request, encode_response, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from bmq.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from bmq.protocol.record_batch import batches
from bmq.protocol.request_context import RequestContext
from bmq.proxy.appender import Appender
from bmq.proxy.dispatch import HANDLERS, HOT_HANDLERS
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.handlers import delete_records, fetch, list_offsets, offset_for_leader_epoch  # noqa: F401  (register)
from bmq.proxy.services import Services
from bmq.proxy.stats import ProxyStats
from bmq.routing.remote_log import RemoteLog
from bmq.routing.settings import RouterSettings
from tests.support.produced_batch import produced_batch
from tests.unit.proxy_fetch.cluster import want
from tests.unit.routing.owner_nodes import TOPIC_ID, Cluster, SharedController, append, batch_of, key, until

pytestmark = pytest.mark.unit

LATEST, EARLIEST, GREATEST = -1, -2, -3


class Consumers:
    """What a client can ask of the proxy."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        store = cluster.store.client("proxy")
        self.fetcher = Fetcher(store, FetchSettings(), random=Random(3))
        self.services = Services(
            node=Node(1, "node-1", 9092),
            store=store,
            partitions=cluster.router,
            controller=SharedController(cluster),  # type: ignore[arg-type]
            groups=None,  # type: ignore[arg-type]
            transactions=None,  # type: ignore[arg-type]
            markers=None,  # type: ignore[arg-type]
            clock=cluster.clock,
            appender=Appender(cluster.router),
            fetcher=self.fetcher,
            producer_ids=None,  # type: ignore[arg-type]
            stats=ProxyStats(),
            loop=asyncio.get_running_loop(),
        )

    async def fetch(self, offset: int, *, partition: int = 0, max_wait_ms: int = 500, **options: Any) -> Any:
        """The partition's result."""
        request = want({partition: offset}, max_wait_ms=max_wait_ms, topic_id=TOPIC_ID, **options)
        frame = bytearray(encode_request(ApiKey.FETCH, 18, 7, "test", request))
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def reply(buffers: Any) -> None:
            answer.set_result(decode_response(ApiKey.FETCH, 18, b"".join(buffers))[1])

        context = RequestContext(18, "test", "127.0.0.1")
        HOT_HANDLERS[ApiKey.FETCH](frame, parse_request_header(frame), context, self.services, reply)  # type: ignore[arg-type]
        (topic,) = (await answer).responses
        return topic.partitions[0]

    async def consume(self, offset: int, *, partition: int = 0, **options: Any) -> tuple[list[bytes], int]:
        """(values, next offset) of one fetch, which must not fail."""
        result = await self.fetch(offset, partition=partition, **options)
        assert result.error_code == ErrorCode.NONE, ErrorCode(result.error_code)
        records = result.records or b""
        found = [one for position, _ in batches(records) for one in decode_records(records, position)]
        values = [one.value or b"" for one in found if one.offset >= offset]
        return values, found[-1].offset + 1 if found else offset

    async def consume_all(self, *, partition: int = 0, end_offset: int, **options: Any) -> list[bytes]:
        values: list[bytes] = []
        offset = 0
        while offset < end_offset:
            more, offset = await self.consume(offset, partition=partition, **options)
            values += more
        return values

    async def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        frame = encode_request(api_key, version, 7, "test", request)
        message = decode_request(parse_request_header(frame), frame)
        response = await HANDLERS[api_key](message, RequestContext(version, "test", "127.0.0.1"), self.services)
        return decode_response(api_key, version, encode_response(api_key, version, 7, response))[1]

    async def offset_at(self, timestamp: int) -> int:
        request = ListOffsetsRequest(
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=timestamp)])]
        )
        (result,) = (await self.ask(ApiKey.LIST_OFFSETS, 11, request)).topics[0].partitions
        assert result.error_code == ErrorCode.NONE
        offset: int = result.offset
        return offset

    async def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        wanted = OffsetForLeaderPartition(partition=0, leader_epoch=leader_epoch, current_leader_epoch=-1)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])
        (result,) = (await self.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)).topics[0].partitions
        assert result.error_code == ErrorCode.NONE
        return result.leader_epoch, result.end_offset

    async def delete_before(self, offset: int) -> int:
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=1)
        (result,) = (await self.ask(ApiKey.DELETE_RECORDS, 2, request)).topics[0].partitions
        assert result.error_code == ErrorCode.NONE
        low_watermark: int = result.low_watermark
        return low_watermark


def consuming(main: Callable[[Cluster, Consumers], Coroutine[Any, Any, None]], **options: Any) -> None:
    cluster = Cluster(**options)

    async def run() -> None:
        consumers = Consumers(cluster)
        try:
            await main(cluster, consumers)
        finally:
            await consumers.fetcher.close()

    cluster.run(run)


def test_what_was_there_before_comes_from_the_store_and_what_follows_from_memory() -> None:
    async def main(cluster: Cluster, consumers: Consumers) -> None:
        owned = await cluster.nodes[2].log()
        values = [b"%d" % number for number in range(50)]
        for value in values:
            await append(owned, value)
        assert await consumers.consume_all(end_offset=50, partition_max_bytes=500) == values
        assert cluster.nodes[2].requests(ApiKey.TAIL_FETCH) == 0
        waiting = asyncio.ensure_future(consumers.consume(50, max_wait_ms=5_000))
        await asyncio.sleep(0.1)
        begun_s = cluster.loop.time()
        await append(owned, b"new")
        assert await waiting == ([b"new"], 51)
        assert cluster.loop.time() - begun_s < 0.02
        located = cluster.nodes[2].requests(ApiKey.LOCATE_OFFSET)
        for number in range(20):
            await append(owned, b"%d" % number)
            assert await consumers.consume(51 + number) == ([b"%d" % number], 52 + number)
        assert cluster.nodes[2].requests(ApiKey.LOCATE_OFFSET) == located

    consuming(main)


def test_a_consumer_that_never_waits_moves_on_too() -> None:
    async def main(cluster: Cluster, consumers: Consumers) -> None:
        owned = await cluster.nodes[2].log()
        await consumers.consume(0, max_wait_ms=0)
        offset = 0
        for number in range(10):
            await append(owned, b"%d" % number)
            await asyncio.sleep(0.05)
            values, offset = await consumers.consume(offset, max_wait_ms=0)
            assert values == [b"%d" % number]

    consuming(main)


def test_an_offset_past_what_is_known_here_is_asked_of_the_owner() -> None:
    """Written through another proxy a moment ago, say."""

    async def main(cluster: Cluster, consumers: Consumers) -> None:
        owned = await cluster.nodes[2].log()
        await cluster.router.leader_of(key())
        await append(owned, b"a", b"b", b"c")
        assert await consumers.consume(2, max_wait_ms=0) == ([b"c"], 3)
        result = await consumers.fetch(99)
        assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    consuming(main)


def test_what_was_deleted_elsewhere_is_out_of_range() -> None:
    async def main(cluster: Cluster, consumers: Consumers) -> None:
        owned = await cluster.nodes[2].log()
        for number in range(5):
            await append(owned, b"%d" % number)
        assert await consumers.consume(0, partition_max_bytes=1) == ([b"0"], 1)
        await owned.delete_records(3)
        assert await consumers.offset_at(EARLIEST) == 3
        result = await consumers.fetch(1)
        assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await consumers.consume(3, partition_max_bytes=1) == ([b"3"], 4)

    consuming(main)


def test_questions_about_offsets_are_answered_from_the_owners_present() -> None:
    async def main(cluster: Cluster, consumers: Consumers) -> None:
        owned = await cluster.nodes[2].log()
        log = await cluster.router.leader_of(key())
        now_ms = cluster.clock.now_ms()
        for number in range(5):
            await append(owned, b"%d" % number)
            # None of these is made true by the copy, which nobody follows.
            assert log.high_watermark <= number
            assert await consumers.offset_at(LATEST) == number + 1
        for number in range(5, 8):
            await append(owned, b"%d" % number)
            assert await consumers.epoch_end(1) == (1, number + 1)
        await append(owned, b"8")
        assert await consumers.offset_at(now_ms) == 0
        assert await consumers.offset_at(GREATEST) >= 0
        assert await consumers.delete_before(-1) == 9
        assert await consumers.offset_at(EARLIEST) == 9
        assert not isinstance(log, RemoteLog) or not log.is_followed

    consuming(main)


def test_an_epoch_that_ended_is_known_after_a_move() -> None:
    async def main(cluster: Cluster, consumers: Consumers) -> None:
        await append(await cluster.nodes[2].log(), b"a", b"b")
        await cluster.hand_over(0, 3)
        await append(await cluster.nodes[3].log(), b"c")
        assert await consumers.epoch_end(1) == (1, 2)
        assert await consumers.epoch_end(2) == (2, 3)

    consuming(main)


def test_a_consumer_that_waits_goes_on_at_the_next_owner() -> None:
    async def main(cluster: Cluster, consumers: Consumers) -> None:
        owned = await cluster.nodes[2].log()
        await append(owned, b"a")
        assert await consumers.consume(0) == ([b"a"], 1)
        waiting = asyncio.ensure_future(consumers.consume(1, max_wait_ms=20_000))
        await asyncio.sleep(0.1)
        cluster.nodes[2].kill()
        cluster.lose_node(2)
        cluster.take_over(0, 3)
        await append(await cluster.nodes[3].log(), b"b")
        begun_s = cluster.loop.time()
        assert await waiting == ([b"b"], 2)
        assert cluster.loop.time() - begun_s < 0.2

    consuming(main)


def test_an_owner_that_hangs_costs_a_consumer_an_error_it_knows() -> None:
    async def main(cluster: Cluster, consumers: Consumers) -> None:
        await append(await cluster.nodes[2].log(), b"a")
        await cluster.router.leader_of(key())
        cluster.nodes[2].process.pause()
        result = await consumers.fetch(0, max_wait_ms=500)
        # Java's consumer knows what to do about this one, and takes one about networks for a bug.
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.nodes[2].process.resume()

    consuming(main, config=RouterSettings(call_timeout_ms=1_000, move_wait_ms=2_000))


@given(seed=st.integers(0, 2**32))
def test_consumers_see_every_record_once_and_in_order_whatever_happens(seed: int) -> None:
    random = Random(seed)

    async def main(cluster: Cluster, consumers: Consumers) -> None:
        written: list[bytes] = []
        is_over = False

        async def consume() -> list[bytes]:
            values: list[bytes] = []
            offset = 0
            while not is_over or len(values) < len(written):
                result = await consumers.fetch(
                    offset, max_wait_ms=random.choice((0, 100, 500)), partition_max_bytes=random.choice((100, 100_000))
                )
                if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    await asyncio.sleep(0.1)
                    continue
                assert result.error_code == ErrorCode.NONE, ErrorCode(result.error_code)
                records = result.records or b""
                for position, _ in batches(records):
                    for one in decode_records(records, position):
                        if one.offset >= offset:
                            assert one.offset == offset
                            values.append(one.value or b"")
                            offset += 1
                await asyncio.sleep(random.choice((0.001, 0.02)))
            return values

        async def produce(count: int) -> None:
            for _ in range(count):
                value = b"%d" % len(written)
                written.append(value)
                answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                consumers.services.appender.append(
                    produced_batch(key(), batch(value, len(written) - 1), answer.set_result)
                )
                assert (await answer).error_code is ErrorCode.NONE

        readers = [asyncio.ensure_future(consume()) for _ in range(2)]
        for _ in range(random.randint(3, 10)):
            await produce(random.randint(1, 6))
            step = random.random()
            leader = cluster.image.topics["t"].partitions[0].leader
            if step < 0.3:
                cluster.network.reset_some(1)
            elif step < 0.5:
                await cluster.hand_over(0, 5 - leader)
            elif step < 0.7:
                cluster.take_over(0, 5 - leader)
            elif step < 0.8:
                (await cluster.nodes[leader].log()).inspect().tail.clear()
        is_over = True
        for reader in readers:
            assert await asyncio.wait_for(reader, 120) == written

    consuming(main, seed=seed)


def batch(value: bytes, sequence: int) -> memoryview:
    return batch_of(value, producer_id=4, producer_epoch=0, base_sequence=sequence)


def test_a_partition_that_takes_long_to_start_is_waited_for() -> None:
    async def main(cluster: Cluster, consumers: Consumers) -> None:
        cluster.store.faults.request_s = (0.02, 0.02)
        assert await consumers.consume(0, max_wait_ms=2_000) == ([], 0)
        await until(lambda: cluster.router.ready(key()) is not None)

    consuming(main)
