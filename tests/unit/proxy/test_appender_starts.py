"""Batches that wait for their partition's start: bounded, answered in time, and handed over in order and in short turns."""

from __future__ import annotations

import asyncio
import tracemalloc
from functools import partial
from uuid import UUID

import pytest

from bmq.log.partition_log import AppendResult, PartitionLog, TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.proxy.appender import APPENDS_PER_TURN_MAX, QUEUED_OVERHEAD_BYTES, Appender
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.support.produced_batch import produced_batch
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit

KEY = TopicPartition(UUID(int=1), 0)


class SlowPartitions(FakePartitions):
    """Its partition is started when `started` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.log = self.add(KEY.topic_id)
        self.idle.add(KEY)
        self.started = asyncio.Event()

    async def leader_of(self, topic_partition: TopicPartition) -> FakePartitionLog:
        await self.started.wait()
        return await super().leader_of(topic_partition)


def batch(value: bytes = b"v", sequence: int = -1) -> memoryview:
    producer_id, epoch = (7, 0) if sequence >= 0 else (-1, -1)
    data = encode_batch([Record(None, value)], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return memoryview(bytearray(data))


async def test_what_waits_longer_than_its_request_is_answered_and_the_rest_keeps_its_order() -> None:
    partitions = SlowPartitions()
    appender = Appender(partitions, retries=False)
    now_s = asyncio.get_running_loop().time()
    told: list[tuple[str, AppendResult]] = []
    wanted = {"left": True}

    def append(name: str, deadline_s: float, sequence: int = -1) -> None:
        appender.append(
            produced_batch(
                KEY,
                batch(name.encode(), sequence),
                lambda result: told.append((name, result)),
                send_until_s=deadline_s,
                arrived_s=now_s,
                is_wanted=lambda: wanted.get(name, True),
            )
        )

    append("late", now_s + 10, 0)
    append("left", now_s + 1_000)
    append("behind the late one", now_s + 1_000, 1)
    append("in time", now_s + 1_000)
    wanted["left"] = False
    appender.expire(now_s + 9)
    assert [(name, result.error_code) for name, result in told] == [("left", ErrorCode.REQUEST_TIMED_OUT)]
    appender.expire(now_s + 10)
    assert [(name, result.error_code) for name, result in told[1:]] == [("late", ErrorCode.REQUEST_TIMED_OUT)]
    partitions.started.set()
    await until(lambda: len(told) == 4)
    assert [(name, result.error_code) for name, result in told[2:]] == [
        ("behind the late one", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("in time", ErrorCode.NONE),
    ]
    assert appender.queued_bytes == 0 and not appender._queues


@pytest.mark.parametrize("retries", [False, True])
async def test_small_batches_count_with_what_they_take_beside_their_bytes(retries: bool) -> None:
    partitions = SlowPartitions()
    appender = Appender(partitions, 10 * (len(batch()) + QUEUED_OVERHEAD_BYTES), retries=retries)
    told: list[AppendResult] = []
    for _ in range(12):
        appender.append(produced_batch(KEY, batch(), told.append))
    assert [result.error_code for result in told] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    partitions.started.set()
    await until(lambda: len(told) == 12)
    assert {result.error_code for result in told[2:]} == {ErrorCode.NONE}
    assert appender.queued_bytes == 0


async def test_a_batch_that_waits_takes_no_more_memory_than_it_counts_with() -> None:
    partitions = SlowPartitions()
    appender = Appender(partitions)
    count = 2_000
    records = [batch(b"v", number) for number in range(count)]
    tracemalloc.start()
    try:
        for data in records:
            appender.append(produced_batch(KEY, data, lambda result: None))
        taken_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken_bytes < count * QUEUED_OVERHEAD_BYTES <= appender.queued_bytes
    appender.stop()


@pytest.mark.parametrize("retries", [False, True])
async def test_many_batches_are_handed_over_in_short_turns_and_a_new_one_behind_them(retries: bool) -> None:
    partitions = SlowPartitions()
    appender = Appender(partitions, retries=retries)
    told: list[int] = []

    def note(number: int, result: AppendResult) -> None:
        told.append(number)

    for number in range(3 * APPENDS_PER_TURN_MAX + 1):
        appender.append(produced_batch(KEY, batch(), partial(note, number)))
    partitions.started.set()
    steps = []
    while len(told) < 3 * APPENDS_PER_TURN_MAX + 2:
        before = len(told)
        await asyncio.sleep(0)
        steps.append(len(told) - before)
        if before == 0 and told:
            appender.append(produced_batch(KEY, batch(), lambda result: told.append(-1)))
    assert told == [*range(3 * APPENDS_PER_TURN_MAX + 1), -1]
    assert max(steps) == APPENDS_PER_TURN_MAX


async def test_a_start_that_fails_refuses_what_waits() -> None:
    class Failing(SlowPartitions):
        async def leader_of(self, topic_partition: TopicPartition) -> FakePartitionLog:
            await self.started.wait()
            raise RuntimeError("broken")

        def ready(self, topic_partition: TopicPartition) -> PartitionLog | None:  # type: ignore[override]
            return None

    partitions = Failing()
    appender = Appender(partitions, retries=False)
    told: list[AppendResult] = []
    appender.append(produced_batch(KEY, batch(), told.append))
    partitions.started.set()
    await until(lambda: bool(told))
    assert told[0].error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert appender.queued_bytes == 0 and not appender._queues


async def test_what_waits_is_answered_when_the_server_stops() -> None:
    partitions = SlowPartitions()
    appender = Appender(partitions, retries=False)
    told: list[AppendResult] = []
    appender.append(produced_batch(KEY, batch(), told.append))
    await asyncio.sleep(0)
    appender.stop()
    assert [result.error_code for result in told] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await until(lambda: not appender._queues)
    assert appender.queued_bytes == 0


async def test_an_owner_that_is_fenced_between_two_turns_gets_no_more_of_what_waits() -> None:
    """With retries the rest goes to the next owner, behind what was refused."""
    partitions = SlowPartitions()
    appender = Appender(partitions)
    told: list[int] = []
    for number in range(2 * APPENDS_PER_TURN_MAX):
        done = partial(
            lambda number, result: told.append(number if result.error_code is ErrorCode.NONE else -1), number
        )
        appender.append(produced_batch(KEY, batch(b"%d" % number, number), done))
    partitions.started.set()
    await until(lambda: bool(told))
    assert len(told) == APPENDS_PER_TURN_MAX
    partitions.log.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    await until(lambda: len(partitions.log.claims) > APPENDS_PER_TURN_MAX)
    assert len(told) == APPENDS_PER_TURN_MAX
    partitions.log.refuse_with = None
    await until(lambda: len(told) == 2 * APPENDS_PER_TURN_MAX)
    assert told == [*range(2 * APPENDS_PER_TURN_MAX)]
