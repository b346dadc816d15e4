"""A proxy whose event loop stood still drops what clients had sent meanwhile, wherever it waited (rule 22)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.describe_cluster_request import DescribeClusterRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy.appender import Appender
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.services import Services
from bmq.proxy.stall_watch import StallWatch
from tests.fakes.partition_log import FakePartitions
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.process import Process
from tests.unit.proxy.harness import Client, Proxy, batch, produce_request, start_proxy, until

pytestmark = pytest.mark.unit

BOUND_MS = 5_000


class Elapsed:
    """A clock that goes on when a test says so: as if the process, or the machine, had been stopped for so long.

    The event loop's own clock hardly moves, so no timer fires: what notices the stop is the path of the bytes.
    """

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s

    def stop(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
async def elapsed() -> Elapsed:
    return Elapsed()


@pytest.fixture
async def stalls(elapsed: Elapsed) -> AsyncIterator[StallWatch]:
    watch = StallWatch(BOUND_MS, elapsed)
    watch.start()
    yield watch
    watch.close()


@pytest.fixture
async def proxy(stalls: StallWatch) -> AsyncIterator[Proxy]:
    made = await start_proxy(ProxyLimits(in_flight_requests_max=1), stalls=stalls)
    yield made
    await made.server.stop(0)
    await asyncio.sleep(0)


def frame(request: Any) -> bytes:
    data = encode_request(ApiKey.PRODUCE, 9, 1, "test", request)
    return len(data).to_bytes(4, "big") + data


async def ended(client: Client) -> None:
    """Until the server has closed the connection; answers that still came are passed over."""
    with contextlib.suppress(ConnectionResetError):
        await client.reader.read()
    await client.close()


async def test_what_lay_in_the_socket_is_not_parsed(proxy: Proxy, stalls: StallWatch, elapsed: Elapsed) -> None:
    client = await proxy.connect()
    assert await client.ask(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    client.send(ApiKey.PRODUCE, 9, produce_request({0: batch(b"late")}))
    elapsed.stop(5.1)
    await ended(client)
    assert proxy.log(0).log_end_offset == 1 and stalls.stall_count == 1
    await until(lambda: not stalls.is_settling, 10_000_000)
    again = await proxy.connect()
    assert await again.ask(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    await again.close()


async def test_a_shorter_stop_changes_nothing(proxy: Proxy, stalls: StallWatch, elapsed: Elapsed) -> None:
    client = await proxy.connect()
    client.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    elapsed.stop(4.9)
    answered, _ = await client.answer(ApiKey.PRODUCE, 9)
    assert (answered, proxy.log(0).log_end_offset, stalls.stall_count) == (1, 1, 0)
    await client.close()


async def test_a_request_is_as_old_as_the_machine_slept(proxy: Proxy, elapsed: Elapsed) -> None:
    """By the clock that notices stalls: what a shorter sleep leaves alone is refused for its age where that counts."""
    seen: list[tuple[float | None, float]] = []

    async def note(request: Any, context: RequestContext, services: Services) -> Any:
        assert context.peer is not None
        seen.append((context.received_s, context.peer.age_s))
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    client = await proxy.connect()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(HANDLERS, ApiKey.DESCRIBE_CLUSTER, note)
        for _ in range(2):
            client.send(ApiKey.DESCRIBE_CLUSTER, 0, DescribeClusterRequest())
            await client.answer(ApiKey.DESCRIBE_CLUSTER, 0)
            elapsed.stop(4.0)
    assert seen == [(1_000.0, 0.0), (1_004.0, 4.0)]
    await client.close()


async def test_what_waited_behind_a_limit_is_not_begun(proxy: Proxy, elapsed: Elapsed) -> None:
    client = await proxy.connect()
    log = proxy.log(0)
    log.is_acknowledging = False
    client.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    client.send(ApiKey.PRODUCE, 9, produce_request({1: batch()}))
    await until(lambda: log.pending_count == 1)
    elapsed.stop(60)
    log.acknowledge()
    await ended(client)
    assert proxy.log(1).log_end_offset == 0


async def test_a_request_that_was_begun_does_not_go_on(
    proxy: Proxy, elapsed: Elapsed, stalls: StallWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, carried_out = asyncio.Event(), []
    go_on: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def slow(request: Any, context: RequestContext, services: Services) -> Any:
        begun.set()
        await go_on
        carried_out.append(request)

    monkeypatch.setitem(HANDLERS, ApiKey.DESCRIBE_CLUSTER, slow)
    client = await proxy.connect()
    client.send(ApiKey.DESCRIBE_CLUSTER, 0, DescribeClusterRequest())
    await begun.wait()
    elapsed.stop(60)
    go_on.set_result(None)  # its turn would come before the transport says that it is closed
    assert stalls.is_stalled()
    await ended(client)
    assert not carried_out


async def test_a_connection_made_during_the_stop_is_dropped(proxy: Proxy, elapsed: Elapsed) -> None:
    with socket.create_connection((proxy.host, proxy.port)) as made:
        made.sendall(frame(produce_request({0: batch()})))
        made.setblocking(False)
        elapsed.stop(60)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionResetError):
            assert await loop.sock_recv(made, 1) == b""
    assert proxy.log(0).log_end_offset == 0 and proxy.stats.connections == 0


async def test_a_connection_accepted_after_the_beat_noticed_the_stop_is_dropped(
    proxy: Proxy, stalls: StallWatch, elapsed: Elapsed
) -> None:
    with socket.create_connection((proxy.host, proxy.port)) as made:
        made.sendall(frame(produce_request({0: batch()})))
        made.setblocking(False)
        elapsed.stop(60)
        assert stalls.is_stalled()  # as its timer does when it comes first
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionResetError):
            assert await loop.sock_recv(made, 1) == b""
    assert proxy.log(0).log_end_offset == 0


@pytest.mark.parametrize(("paused_s", "expected"), [(0.7, 0), (1.01, 1), (30.0, 1)])
def test_the_beat_notices_a_stop_by_itself(paused_s: float, expected: int) -> None:
    loop = VirtualTimeLoop()
    process = Process(loop, "node-1")
    lengths: list[float] = []

    async def main() -> StallWatch:
        watch = StallWatch(1_000)
        watch.on_stall(lengths.append)
        watch.start()
        return watch

    async def story() -> None:
        watch = await process.spawn(main())
        await asyncio.sleep(10)
        assert watch.stall_count == 0
        process.pause()
        await asyncio.sleep(paused_s)
        process.resume()
        await asyncio.sleep(10)
        assert watch.stall_count == len(lengths) == expected
        assert all(paused_s - 0.25 <= length <= paused_s + 0.25 for length in lengths)
        watch.close()

    loop.run_until_complete(story())
    loop.discard()


async def test_what_a_client_sent_that_has_left_is_not_brought_to_the_next_owner() -> None:
    """It sends it again by another way; only what nobody would send again (acks=0) still goes."""
    proxy = await start_proxy()
    owner = asyncio.Event()

    class Ownerless(FakePartitions):
        """Partitions that wait for an owner."""

        def ready(self, topic_partition: TopicPartition) -> Any:
            return super().ready(topic_partition) if owner.is_set() else None

        async def leader_of(self, topic_partition: TopicPartition) -> Any:
            await owner.wait()
            return await super().leader_of(topic_partition)

    partitions = Ownerless()
    partitions.logs = proxy.partitions.logs
    appender = proxy.services.appender = Appender(partitions)
    client, other = await proxy.connect(), await proxy.connect()
    client.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    other.send(ApiKey.PRODUCE, 9, produce_request({1: batch()}, acks=0))
    await until(lambda: len(appender._queues) == 2)
    await client.close()
    await other.close()
    await until(lambda: proxy.stats.connections == 0)
    owner.set()
    await until(lambda: not appender._queues)
    assert (proxy.log(0).log_end_offset, proxy.log(1).log_end_offset) == (0, 1)
    appender.stop()
    await proxy.server.stop(0)
    await asyncio.sleep(0)


async def test_in_a_crowd_of_starts_acks_0_waits_and_acks_1_is_refused() -> None:
    proxy = await start_proxy()
    owner = asyncio.Event()

    class Starting(FakePartitions):
        """Partitions that start until the test says so."""

        def ready(self, topic_partition: TopicPartition) -> Any:
            return super().ready(topic_partition) if owner.is_set() else None

        async def leader_of(self, topic_partition: TopicPartition) -> Any:
            await owner.wait()
            return await super().leader_of(topic_partition)

    partitions = Starting()
    partitions.logs = proxy.partitions.logs
    appender = proxy.services.appender = Appender(partitions, partitions_held_max=1)
    client, silent = await proxy.connect(), await proxy.connect()
    silent.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}, acks=0))
    await until(lambda: len(appender._queues) == 1)
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_request({1: batch()}))
    assert [one.error_code for one in answer.responses[0].partition_responses] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    owner.set()
    await until(lambda: not appender._queues)
    assert (proxy.log(0).log_end_offset, proxy.log(1).log_end_offset) == (1, 0)
    appender.stop()
    await client.close()
    await silent.close()
    await proxy.server.stop(0)
    await asyncio.sleep(0)
