"""Following partitions from a proxy: what is produced anywhere is read here from memory, and nothing comes unasked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.aio.backoff import Backoff
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import decode_records
from bmq.protocol.codec import decode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_tail import encode_tail_response
from bmq.protocol.internal_messages import TailFetchRequest, TailPart
from bmq.protocol.record_batch import batches
from bmq.routing.remote_log import RemoteLog
from bmq.routing.settings import RouterSettings
from bmq.routing.tail_stream import TailStream
from tests.unit.routing.owner_nodes import TOPIC_ID, Cluster, append, key, records_of, until

pytestmark = pytest.mark.unit


async def log_of(cluster: Cluster, partition: int = 0) -> RemoteLog:
    log = await cluster.router.leader_of(key(partition))
    assert isinstance(log, RemoteLog)
    return log


async def moved(log: RemoteLog) -> None:
    """Until the log's next move."""
    woken = asyncio.get_running_loop().create_future()
    log.on_advance(lambda: woken.set_result(None))
    async with asyncio.timeout(30):
        await woken


def values_in(log: RemoteLog, offset: int = 0) -> list[bytes] | None:
    """From memory."""
    views = log.tail_read(offset, 10**6, log.high_watermark)
    if views is None:
        return None
    data = b"".join(views)
    return [record.value or b"" for position, _ in batches(data) for record in decode_records(data, position)]


def test_who_waits_at_the_end_is_woken_and_reads_from_memory() -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await log_of(cluster)
        owned = await cluster.nodes[2].log()
        waiting = asyncio.ensure_future(moved(log))
        await asyncio.sleep(0.1)
        begun_s = cluster.loop.time()
        await append(owned, b"a", b"b")
        await waiting
        assert cluster.loop.time() - begun_s < 0.01
        assert log.high_watermark == 2 and values_in(log) == [b"a", b"b"]
        for number in range(20):
            await append(owned, b"%d" % number)
        await until(lambda: log.high_watermark == 22)
        assert values_in(log, 2) == [b"%d" % number for number in range(20)]
        assert cluster.nodes[2].requests(ApiKey.LOCATE_OFFSET) == 0

    cluster.run(main)


def test_a_proxy_that_only_forwards_gets_nothing_back() -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await log_of(cluster)
        for _ in range(10):
            await append(log, b"a")
            assert (log.high_watermark, log.log_start_offset, log.last_stable_offset) == (0, 0, 0)
        await asyncio.sleep(10)
        assert cluster.nodes[2].requests(ApiKey.TAIL_FETCH) == 0
        assert log.tail_read(0, 1000, 10) is None  # far behind the end: that is read from the store
        assert cluster.router.tails.followed_count == 0

    cluster.run(main)


@pytest.mark.parametrize("interest", [lambda log: log.log_end_offset, lambda log: log.on_advance(lambda: None)])
def test_who_reads_at_the_end_has_it_followed(interest: Any) -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await log_of(cluster)
        await append(log, b"a")
        interest(log)
        await until(lambda: log.high_watermark == 1)
        assert values_in(log) == [b"a"] and log.is_followed

    cluster.run(main)


def test_what_nobody_reads_any_more_is_followed_no_longer() -> None:
    cluster = Cluster(partition_count=2, config=RouterSettings(tail_idle_ms=60_000))

    async def main() -> None:
        read, idle = await log_of(cluster, 0), await log_of(cluster, 1)
        owned = [await cluster.nodes[2].log(number) for number in range(2)]
        idle.on_advance(lambda: None)
        for _ in range(100):
            assert read.log_end_offset >= 0
            await asyncio.sleep(1)
        assert read.is_followed and not idle.is_followed
        assert cluster.router.tails.followed_count == 1
        await append(owned[0], b"a")
        await append(owned[1], b"a")
        await asyncio.sleep(1)
        assert (read.high_watermark, idle.high_watermark) == (1, 0)
        await asyncio.sleep(200)
        polls = cluster.nodes[2].requests(ApiKey.TAIL_FETCH)
        assert not read.is_followed
        await asyncio.sleep(100)
        assert cluster.nodes[2].requests(ApiKey.TAIL_FETCH) <= polls + 1
        idle.on_advance(lambda: None)
        await until(lambda: idle.high_watermark == 1)
        assert values_in(idle) == [b"a"]

    cluster.run(main)


def test_many_partitions_share_one_stream() -> None:
    cluster = Cluster(partition_count=50)

    async def main() -> None:
        logs = [await log_of(cluster, number) for number in range(50)]
        for log in logs:
            log.on_advance(lambda: None)
        await asyncio.sleep(0.1)
        assert cluster.router.tails.followed_count == 50
        assert cluster.nodes[2].requests(ApiKey.TAIL_FETCH) <= 3
        for number in range(50):
            await append(await cluster.nodes[2].log(number), b"%d" % number)
        await until(lambda: all(log.high_watermark == 1 for log in logs))
        assert [values_in(log) for log in logs] == [[b"%d" % number] for number in range(50)]
        assert len(cluster.nodes[2].services.tails) == 1

    cluster.run(main)


def test_a_new_interest_does_not_wait_for_the_end_of_a_poll() -> None:
    cluster = Cluster(partition_count=2, config=RouterSettings(tail_wait_ms=10_000))

    async def main() -> None:
        first, second = await log_of(cluster, 0), await log_of(cluster, 1)
        first.on_advance(lambda: None)
        await append(second, b"a")
        await asyncio.sleep(1)
        begun_s = cluster.loop.time()
        second.on_advance(lambda: None)
        await until(lambda: second.high_watermark == 1)
        assert cluster.loop.time() - begun_s < 0.02

    cluster.run(main)


def test_a_lost_stream_is_opened_again_and_goes_on_where_it_was() -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await log_of(cluster)
        owned = await cluster.nodes[2].log()
        log.on_advance(lambda: None)
        await append(owned, b"a")
        await until(lambda: log.high_watermark == 1)
        link = cluster.links.ready(2, "tail")
        assert link is not None
        link.close()
        assert values_in(log) == [b"a"] and log.link is not None  # what is known stays true, and appends have their own
        await append(owned, b"b")
        await until(lambda: log.high_watermark == 2)
        assert values_in(log) == [b"a", b"b"]
        assert len(cluster.nodes[2].services.tails) == 1

    cluster.run(main)


def test_an_owner_that_hangs_is_noticed_and_the_stream_opened_again() -> None:
    cluster = Cluster(config=RouterSettings(tail_wait_ms=1_000, tail_grace_ms=2_000))

    async def main() -> None:
        log = await log_of(cluster)
        owned = await cluster.nodes[2].log()
        log.on_advance(lambda: None)
        await asyncio.sleep(0.1)
        link = cluster.links.ready(2, "tail")
        cluster.network.cut("node-1", "node-2")
        await until(lambda: link is not None and not link.is_open)
        assert 2 < cluster.loop.time() < 6
        cluster.network.heal()
        await append(owned, b"a")
        await until(lambda: log.high_watermark == 1)

    cluster.run(main)


def test_an_owner_that_died_is_not_called_for_ever() -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await log_of(cluster)
        log.on_advance(lambda: None)
        await asyncio.sleep(0.1)
        cluster.nodes[2].kill()
        await asyncio.sleep(5)
        attempts = cluster.network.connection_count
        cluster.take_over(0, 3)
        assert cluster.router.tails.followed_count == 0 and log.is_closed
        await asyncio.sleep(5)
        assert cluster.network.connection_count == attempts

    cluster.run(main)


def test_an_owner_that_lets_go_of_the_partition_wakes_who_waits() -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await log_of(cluster)
        waiting = asyncio.ensure_future(moved(log))
        await asyncio.sleep(0.1)
        await cluster.nodes[2].process.spawn(cluster.nodes[2].manager.unassign(key()))
        await waiting
        assert log.link is None and not log.is_followed and cluster.router.ready(key()) is None

    cluster.run(main)


def test_what_an_earlier_poll_says_is_not_about_a_later_interest() -> None:
    """The partition begins anew at the same node: the end of the following at the old epoch must not end the new one."""
    cluster = Cluster()

    async def main() -> None:
        asked: list[tuple[TailFetchRequest, Callable[[bytearray | None], None]]] = []

        class Link:
            is_open = True

            def version(self, api_key: ApiKey) -> int:
                return 0

            def on_lost(self, lost: Callable[[], None]) -> None: ...

            def send_frame(self, api_key: ApiKey, body: Any, answered: Callable[[bytearray | None], None]) -> None:
                asked.append((decode("request", api_key, 0, b"".join(body)), answered))

        class OneLink:
            async def link(self, node_id: int, purpose: str) -> Link:
                return Link()

        def refusal() -> bytearray:
            part = TailPart(topic_id=TOPIC_ID, partition=0, error_code=ErrorCode.FENCED_LEADER_EPOCH)
            return bytearray(b"".join(encode_tail_response(1, [(part, ())])))

        backoff = Backoff(Random(1), first_s=0.001, max_s=0.001)
        stream = TailStream(2, OneLink(), RouterSettings(), backoff)  # type: ignore[arg-type]
        old = RemoteLog(key(), 2, 1, cluster.router.context)
        new = RemoteLog(key(), 2, 2, cluster.router.context)
        stream.follow(old)
        await until(lambda: len(asked) == 1)
        stream.forget(old)
        stream.follow(new)
        await until(lambda: len(asked) == 2)
        assert [one.leader_epoch for one in asked[1][0].added] == [2]
        asked[0][1](refusal())
        assert new.is_followed
        asked[1][1](refusal())
        assert not new.is_followed and len(stream) == 0
        await stream.close()

    cluster.run(main)


def test_the_memory_of_all_tails_is_bounded() -> None:
    config = RouterSettings(tail_cache_bytes_max=20_000, tail_response_bytes_max=4_000)
    cluster = Cluster(partition_count=4, config=config)

    async def main() -> None:
        logs = [await log_of(cluster, number) for number in range(4)]
        for log in logs:
            log.on_advance(lambda: None)
        for round_ in range(40):
            for number in range(4):
                await append(await cluster.nodes[2].log(number), bytes(500) + b"%d" % round_)
                assert cluster.router.context.tail_cache.bytes_used <= 20_000
        await until(lambda: all(log.high_watermark == 40 for log in logs))
        assert all(values_in(log, 0) is None for log in logs)
        newest = [values_in(log, 39) for log in logs]
        assert any(newest) and all(values in (None, [bytes(500) + b"39"]) for values in newest)
        await cluster.router.close()
        assert cluster.router.context.tail_cache.bytes_used == 0

    cluster.run(main)


@given(seed=st.integers(0, 2**32), steps=st.integers(5, 40))
def test_followed_logs_are_true_copies_whatever_the_network_does(seed: int, steps: int) -> None:
    random = Random(seed)
    cluster = Cluster(
        seed=seed, partition_count=3, config=RouterSettings(tail_idle_ms=4_000, tail_cache_bytes_max=30_000)
    )

    async def main() -> None:
        owned = [await cluster.nodes[2].log(number) for number in range(3)]
        written = 0
        for _ in range(steps):
            step, number = random.random(), random.randrange(3)
            if step < 0.5:
                for _ in range(random.randint(1, 5)):
                    written += 1
                    append(owned[number], *[b"%d" % written] * random.randint(1, 3))
            elif step < 0.7:
                (await log_of(cluster, number)).on_advance(lambda: None)
            elif step < 0.8:
                cluster.network.reset_some(1)
            elif step < 0.85:
                owned[number].inspect().tail.clear()
            else:
                await asyncio.sleep(random.choice((0.001, 0.01, 0.1, 3)))
            await check(list(range(3)))
        logs = [await log_of(cluster, number) for number in range(3)]
        for log in logs:
            log.on_advance(lambda: None)
        await until(
            lambda: all(log.high_watermark == owner.high_watermark for log, owner in zip(logs, owned, strict=True))
        )
        await check(list(range(3)))

    async def check(numbers: list[int]) -> None:
        for number in numbers:
            log = cluster.router.ready(key(number))
            if log is None:
                continue
            owner = await cluster.nodes[2].log(number)
            assert log.high_watermark <= owner.high_watermark
            values = await records_of(owner)
            for offset in range(0, log.high_watermark, 3):
                views = log.tail_read(offset, 10**6, log.high_watermark)
                if views:
                    data = b"".join(views)
                    found = [record for position, _ in batches(data) for record in decode_records(data, position)]
                    assert [record.value for record in found] == [values[record.offset] for record in found]
                    assert found[0].offset <= offset and found[-1].offset < log.high_watermark

    cluster.run(main)
