"""What waits in a topic's partitions, and cancelling one record, asked of owners over real links, listeners and brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from bmq.admin.delayed_records import DelayedRecords
from bmq.admin.orders import OrderRefused
from bmq.log.partition_log import AppendResult
from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import PAGE_MAX
from bmq.metadata.image import TopicImage
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.appender import Appender
from tests.support.flagged_batch import flagged_batch
from tests.support.produced_batch import produced_batch
from tests.unit.routing.owner_nodes import LOG_CONFIG, Cluster, key, records_of, until

pytestmark = pytest.mark.unit

DELAY = replace(LOG_CONFIG, is_delay_enabled=True)
START = Position(-1, -1)


def on_cluster(test: Callable[[Cluster, DelayedRecords, TopicImage], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test runs at a proxy that owns nothing; topic `t` has two partitions with delay at node 2."""

    def run() -> None:
        cluster = Cluster(partition_count=2)

        async def main() -> None:
            for number in range(2):
                cluster.nodes[2].manager.update_config(key(number), DELAY)
            delayed = DelayedRecords(cluster.router, Appender(cluster.router, retries=True), cluster.clock)
            await test(cluster, delayed, replace(cluster.image.topics["t"], log_config=DELAY))

        cluster.run(main)

    run.__name__ = test.__name__
    return run


async def hold(cluster: Cluster, *after_ms: int) -> int:
    """The first one's offset."""
    log = await cluster.nodes[2].log()
    await until(lambda: log.timers.order is not None)
    now_ms = cluster.clock.now_ms()
    records = [Record(b"k", b"%d" % ms, (("bmq-deliver-at", b"%d" % (now_ms + ms)),)) for ms in after_ms]
    answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
    log.append(produced_batch(key(), memoryview(flagged_batch(records)), answer.set_result))
    result = await answer
    assert result.error_code is ErrorCode.NONE, result
    return result.base_offset


@on_cluster
async def test_what_waits_is_listed_in_order(cluster: Cluster, delayed: DelayedRecords, topic: TopicImage) -> None:
    first = await hold(cluster, 5000, 1000, 3000)
    now_ms = cluster.clock.now_ms()
    places = [Position(now_ms + 1000, first + 1), Position(now_ms + 3000, first + 2), Position(now_ms + 5000, first)]
    assert await delayed.page(topic, 0, START, 2) == (3, now_ms + 1000, tuple(places[:2]))
    assert await delayed.page(topic, 0, places[1], 2) == (3, now_ms + 1000, (places[2],))
    assert (await delayed.page(topic, 0, Position(now_ms + 3000, -1), PAGE_MAX)).records == tuple(places[1:])
    assert (await delayed.page(topic, 0, places[2], PAGE_MAX)).records == ()
    summaries = await delayed.summaries(topic, topic.partitions)
    assert [(one.partition, one.problem, one.page) for one in summaries] == [
        (0, None, (3, now_ms + 1000, ())),
        (1, None, (0, None, ())),
    ]


@on_cluster
async def test_a_page_has_so_many_records_at_most(cluster: Cluster, delayed: DelayedRecords, topic: TopicImage) -> None:
    for _ in range(2):
        await hold(cluster, *range(1000, 1000 + PAGE_MAX))
    page = await delayed.page(topic, 0, START, 2**31 - 1)
    assert (page.pending, len(page.records)) == (2 * PAGE_MAX, PAGE_MAX)
    assert list(page.records) == sorted(page.records)
    last = await delayed.page(topic, 0, page.records[-1], 2**31 - 1)
    assert len(last.records) == PAGE_MAX and last.records[0] > page.records[-1]


@on_cluster
async def test_a_cancelled_record_is_not_delivered(
    cluster: Cluster, delayed: DelayedRecords, topic: TopicImage
) -> None:
    name, now_ms = await hold(cluster, 1000, 2000), cluster.clock.now_ms()
    for _ in range(2):
        await delayed.cancel(topic, 0, Position(now_ms + 1000, name))
    assert (await delayed.page(topic, 0, START, 9)).records == (Position(now_ms + 2000, name + 1),)
    cluster.clock.advance(2000)
    log = await cluster.nodes[2].log()
    await until(lambda: log.timers.order is not None and not len(log.timers.order))
    await asyncio.sleep(1)
    assert b"2000" in (found := await records_of(log)) and b"1000" not in found

    with pytest.raises(OrderRefused, match=f"too late: what was due at {now_ms + 2000} has been delivered"):
        await delayed.cancel(topic, 0, Position(now_ms + 2000, name + 1))
    end_offset = log.log_end_offset
    for partition, target in ((0, Position(now_ms + 9000, name)), (1, Position(now_ms + 1000, name))):
        with pytest.raises(OrderRefused, match=f"no delayed record of this partition has offset {target.offset} and "):
            await delayed.cancel(topic, partition, target)
    assert log.log_end_offset == end_offset, "nothing was written"


@on_cluster
async def test_a_topic_without_delay_has_nothing_to_cancel(
    cluster: Cluster, delayed: DelayedRecords, topic: TopicImage
) -> None:
    plain = replace(topic, log_config=LOG_CONFIG)
    with pytest.raises(OrderRefused, match=r"topic t has no bmq\.delay\.enable"):
        await delayed.cancel(plain, 0, Position(5, 5))


@on_cluster
async def test_an_owner_that_is_away_is_named(cluster: Cluster, delayed: DelayedRecords, topic: TopicImage) -> None:
    cluster.nodes[2].kill()
    summaries = await delayed.summaries(topic, topic.partitions)
    assert all((one.problem or "").startswith("its owner, node 2, did") for one in summaries), summaries
    with pytest.raises((KafkaError, TimeoutError)):
        await delayed.page(topic, 0, START, 1)
    with pytest.raises((KafkaError, TimeoutError)):
        await delayed.cancel(topic, 0, Position(5, 5))
