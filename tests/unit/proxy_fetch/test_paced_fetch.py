"""Fetches of a proxy whose catch-up reads are limited: who is far behind waits for a turn, who is near the end does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from unittest.mock import patch

import pytest

from bmq.log.latency import LatencyHistogram
from bmq.proxy.catch_up_throttle import ADJUST_INTERVAL_S, BOUNDS_S, CatchUpThrottle
from bmq.proxy.fetch_settings import FetchSettings
from tests.unit.proxy_fetch.cluster import FetchCluster, offsets_in, results, want

pytestmark = pytest.mark.unit

BATCH_BYTES = 1000
SLICE_BYTES = 4 * 1100
BYTES_PER_S = 20_000  # the least; the limit is twice as much
NEVER_MS = 60_000


@pytest.fixture
async def cluster() -> AsyncIterator[FetchCluster]:
    """Somebody produces; partition 0 is in the store alone, 1 in memory, each with 30 batches, 2 is empty."""
    config = FetchSettings(
        catch_up_bytes_per_s_min=BYTES_PER_S, catch_up_slice_bytes=SLICE_BYTES, catch_up_behind_bytes=10 * BATCH_BYTES
    )
    one = FetchCluster(config=config)
    for partition in (0, 1):
        for _ in range(30):
            one.produce(partition, value_bytes=BATCH_BYTES)
    one.log(0).tail_start_offset = 10**6
    times = LatencyHistogram(BOUNDS_S)
    for _ in range(100):
        times.observe(0.001)
    throttle = one.fetcher.shared.throttle
    for _ in range(10):
        throttle.adjust(times.counts, ADJUST_INTERVAL_S)
    for _ in range(100):
        times.observe(1.0)
    throttle.settle(0.0, int(4 * BYTES_PER_S * ADJUST_INTERVAL_S))
    throttle.adjust(times.counts, ADJUST_INTERVAL_S)
    assert throttle.limit_bytes_per_s == 2 * BYTES_PER_S
    yield one
    await one.fetcher.close()


@pytest.mark.parametrize("partition", [0, 1])
async def test_who_is_far_behind_gets_a_slice_in_turn(cluster: FetchCluster, partition: int) -> None:
    begun_s = cluster.fetcher.shared.loop.time()
    for number in range(5):
        response = await cluster.fetch(want({partition: 4 * number}, max_wait_ms=NEVER_MS))
        assert offsets_in(results(response)[partition].records) == [4 * number + n for n in range(4)]
    # The first came at once; before the fifth four slices were paid for.
    assert cluster.fetcher.shared.loop.time() - begun_s >= 0.9 * 4 * 4 * BATCH_BYTES / (2 * BYTES_PER_S)
    assert len(cluster.fetcher.shared.deadlines) == 0


async def test_who_is_near_the_end_does_not_wait(cluster: FetchCluster) -> None:
    for _ in range(100):
        cluster.fetcher.shared.throttle.turn(cluster.fetcher.shared.loop.time())
    answer = cluster.send(want({1: 25}, max_wait_ms=NEVER_MS), 18)
    assert answer.done() and offsets_in(results(answer.result())[1].records) == [25, 26, 27, 28, 29]


async def test_new_records_are_not_held_back_by_old_ones(cluster: FetchCluster) -> None:
    for _ in range(100):
        cluster.fetcher.shared.throttle.turn(cluster.fetcher.shared.loop.time())
    answer = cluster.send(want({1: 0, 2: 0}, max_wait_ms=NEVER_MS), 18)
    assert not answer.done()
    cluster.produce(2)
    found = results(await answer)
    assert offsets_in(found[2].records) == [0]
    assert offsets_in(found[1].records) == [0, 1, 2, 3], "nor do new ones keep the old ones from coming"


async def test_readers_that_wait_for_a_short_time_only_keep_to_the_limit_and_none_comes_away_empty(
    cluster: FetchCluster,
) -> None:
    begun_s = cluster.fetcher.shared.loop.time()
    answers = [cluster.send(want({0: 0}, max_wait_ms=50), 18) for _ in range(10)]
    for answer in answers:
        assert offsets_in(results(await answer)[0].records) == [0, 1, 2, 3]
    assert cluster.fetcher.shared.loop.time() - begun_s >= 0.9 * 9 * 4 * BATCH_BYTES / (2 * BYTES_PER_S)


async def test_records_at_the_end_wait_no_longer_than_asked(cluster: FetchCluster) -> None:
    """It is answered after 50 ms, and not when its turn comes, in an hour."""
    cluster.produce(2)
    with patch.object(CatchUpThrottle, "turn", lambda self, now_s: now_s + 3_600):
        answer = cluster.send(want({1: 0, 2: 0}, max_wait_ms=50, min_bytes=1_000_000), 18)
        assert not answer.done()
        assert offsets_in(results(await answer)[2].records) == [0]


async def test_a_batch_longer_than_a_slice_is_given_whole(cluster: FetchCluster) -> None:
    cluster.produce(2, value_bytes=3 * SLICE_BYTES)
    for _ in range(20):
        cluster.produce(2, value_bytes=BATCH_BYTES)
    response = await cluster.fetch(want({2: 0}, max_wait_ms=NEVER_MS))
    assert offsets_in(results(response)[2].records) == [0]


async def test_a_stopping_server_answers_who_waits_for_a_turn(cluster: FetchCluster) -> None:
    for _ in range(100):
        cluster.fetcher.shared.throttle.turn(cluster.fetcher.shared.loop.time())
    answer = cluster.send(want({1: 0}, max_wait_ms=NEVER_MS), 18)
    assert not answer.done()
    cluster.fetcher.stop_waiting()
    assert answer.done() and results(answer.result())[1].records
