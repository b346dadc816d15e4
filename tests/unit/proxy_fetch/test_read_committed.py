"""Fetch at isolation level 1: what it may see, what it is told of aborted transactions, and when it wakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import patch

import pytest

from bmq.log.partition_log import AbortedTransaction, Location
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.fetch_job import FetchJob
from tests.fakes.clock import FakeClock
from tests.unit.proxy_fetch.cluster import FetchCluster, offsets_in, results, want

pytestmark = pytest.mark.unit


@pytest.fixture
async def cluster() -> AsyncIterator[FetchCluster]:
    made = FetchCluster()
    yield made
    await made.fetcher.close()


def aborted_in(result: object) -> list[tuple[int, int]] | None:
    told = result.aborted_transactions  # type: ignore[attr-defined]
    return None if told is None else [(one.producer_id, one.first_offset) for one in told]


@pytest.mark.parametrize("version", [4, 11, 12, 18])
@pytest.mark.parametrize("tail_start_offset", [0, 100])
async def test_aborted_transactions_come_by_first_offset(
    cluster: FetchCluster, version: int, tail_start_offset: int
) -> None:
    for _ in range(8):
        cluster.produce()
    log = cluster.log()
    log.tail_start_offset = tail_start_offset
    # In the order of their markers; the last one begins behind what the second fetch is given.
    log.aborted = [(AbortedTransaction(9, 3), 4), (AbortedTransaction(8, 1), 5), (AbortedTransaction(7, 6), 7)]
    whole = results(await cluster.fetch(want({0: 0}, isolation_level=1), version))[0]
    assert offsets_in(whole.records) == list(range(8)) and aborted_in(whole) == [(8, 1), (9, 3), (7, 6)]
    part = results(await cluster.fetch(want({0: 5}, isolation_level=1, partition_max_bytes=80), version))[0]
    assert offsets_in(part.records) == [5] and aborted_in(part) == [(8, 1)]
    none = results(await cluster.fetch(want({1: 0}, isolation_level=1), version))[1]
    assert aborted_in(none) == []
    every = results(await cluster.fetch(want({0: 0}), version))[0]
    assert offsets_in(every.records) == list(range(8)) and aborted_in(every) is None


@pytest.mark.parametrize("tail_start_offset", [0, 100])
async def test_what_is_not_known_here_is_asked_of_the_owner(cluster: FetchCluster, tail_start_offset: int) -> None:
    for _ in range(6):
        cluster.produce()
    log = cluster.log()
    log.tail_start_offset = tail_start_offset
    log.aborted = [(AbortedTransaction(9, 1), 3)]
    log.aborted_from_offset = 4
    request = want({0: 2}, isolation_level=1, partition_max_bytes=160)
    for _ in range(2):  # the second time from the read cache
        told = results(await cluster.fetch(request))[0]
        assert offsets_in(told.records) == [2, 3] and aborted_in(told) == [(9, 1)]
    assert log.asked_aborted == [(2, 4)] * 2
    late = results(await cluster.fetch(want({0: 4}, isolation_level=1)))[0]
    assert offsets_in(late.records) == [4, 5] and aborted_in(late) == []
    assert len(log.asked_aborted) == 2


async def test_without_the_owners_word_there_are_no_records(cluster: FetchCluster) -> None:
    cluster.produce()
    log = cluster.log()
    log.aborted_from_offset = 4

    async def lost(from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with patch.object(log, "find_aborted_transactions", lost):
        told = results(await cluster.fetch(want({0: 0}, isolation_level=1)))[0]
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and not told.records


@pytest.mark.parametrize("aborted_from_offset", [0, 100])
async def test_records_that_are_deleted_while_they_are_read_are_not_given(
    cluster: FetchCluster, aborted_from_offset: int
) -> None:
    """With them the log forgets which of their transactions were aborted, and the reader would take them for committed."""
    for _ in range(6):
        cluster.produce()
    log = cluster.log()
    log.tail_start_offset = 100
    log.aborted = [(AbortedTransaction(9, 1), 3)]
    log.aborted_from_offset = aborted_from_offset
    locate = log.locate

    async def locate_and_delete(offset: int) -> Location:
        found = await locate(offset)
        await log.delete_records(5)
        log.aborted.clear()
        return found

    with patch.object(log, "locate", locate_and_delete):
        told = results(await cluster.fetch(want({0: 2}, isolation_level=1)))[0]
    assert told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and not told.records


async def test_a_read_that_took_too_long_is_done_again(cluster: FetchCluster) -> None:
    """Or the machine slept: compaction may have replaced the file, and the log have forgotten which of its transactions were aborted."""
    for _ in range(4):
        cluster.produce()
    log, clock = cluster.log(), FakeClock()
    log.tail_start_offset = 100
    locate = log.locate
    located: list[int] = []

    async def locate_late(offset: int) -> Location:
        found = await locate(offset)
        if not located:
            clock.sleep(16)
        located.append(offset)
        return found

    with (
        patch.object(cluster.fetcher.shared.stored_reads, "elapsed_s", clock.elapsed_s),
        patch.object(log, "locate", locate_late),
    ):
        told = results(await cluster.fetch(want({0: 2}, isolation_level=1)))[0]
        assert offsets_in(told.records) == [2, 3] and located == [2, 2]
        every = results(await cluster.fetch(want({0: 0})))[0]
    assert offsets_in(every.records) == [0, 1, 2, 3]


async def test_a_reader_wakes_when_the_last_stable_offset_moves_and_not_before(cluster: FetchCluster) -> None:
    log = cluster.log()
    cluster.produce()
    log.last_stable_offset_bound = 1
    rounds = 0
    read_partitions = FetchJob._read_partitions

    def counted(job: FetchJob) -> None:
        nonlocal rounds
        rounds += 1
        read_partitions(job)

    with patch.object(FetchJob, "_read_partitions", counted):
        committed = asyncio.ensure_future(cluster.fetch(want({0: 1}, isolation_level=1, max_wait_ms=60_000)))
        every = asyncio.ensure_future(cluster.fetch(want({0: 2}, max_wait_ms=60_000)))
        await asyncio.sleep(0)
        assert rounds == 2
        cluster.produce()
        await asyncio.sleep(0.01)
        assert rounds == 3 and not every.done()
        for _ in range(5):
            cluster.produce()
            await asyncio.sleep(0)
        assert offsets_in(results(await every)[0].records) == [2]
        for _ in range(5):
            cluster.produce()
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        before = rounds
        assert not committed.done() and before <= 5
        log.last_stable_offset_bound = None
        cluster.produce()
        told = results(await committed)[0]
        assert offsets_in(told.records) == list(range(1, 13)) and rounds == before + 1


async def test_a_change_of_state_wakes_readers_of_committed_records_too(cluster: FetchCluster) -> None:
    log = cluster.log()
    cluster.produce()
    log.last_stable_offset_bound = 0
    waiting = asyncio.ensure_future(cluster.fetch(want({0: 0}, isolation_level=1, max_wait_ms=60_000)))
    await asyncio.sleep(0)
    cluster.partitions.errors[log.topic_partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.produce()  # the high watermark moves at the same time
    log.wake()
    assert results(await waiting)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_session_hears_when_the_last_stable_offset_alone_has_moved(cluster: FetchCluster) -> None:
    cluster.produce()
    cluster.log().last_stable_offset_bound = 0
    opened = await cluster.fetch(want({0: 0}, isolation_level=1, session=(0, 0)))
    assert results(opened)[0].last_stable_offset == 0
    again = await cluster.fetch(want({}, isolation_level=1, session=(opened.session_id, 1)))
    assert results(again) == {}
    cluster.log().last_stable_offset_bound = None
    cluster.log().tail_start_offset = 0
    moved = await cluster.fetch(want({}, isolation_level=1, session=(opened.session_id, 2)))
    assert results(moved)[0].last_stable_offset == 1
