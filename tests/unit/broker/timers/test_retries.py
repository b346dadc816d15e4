"""Retry topics at a partition's owner: attempts, dead letters before the position passes them, failures and takeovers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bmq.broker.partition_events import WriterBroken
from bmq.broker.partition_states import Writing
from bmq.broker.runtime import PartitionRuntime
from bmq.log.timers.retry_letters import DeadRetry
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader
from tests.support.flagged_batch import flagged_batch
from tests.unit.broker.timers.test_timers import pass_time, values, visible
from tests.unit.broker.world import CONFIG, KEY, Owner, World, append, virtual

pytestmark = pytest.mark.unit

LEVELS_MS = (1_000, 10_000)
RETRY = replace(CONFIG, is_delay_enabled=True, retry_levels_ms=LEVELS_MS)
NAME = "orders.retry.app"


class FakeLetters:
    """`written`: (partition, record), as a topic has them. `why`: it cannot be written. `count_max`: of one write."""

    def __init__(self) -> None:
        self.written: list[tuple[int, DeadRetry]] = []
        self.why: str | None = None
        self.code = ErrorCode.NONE
        self.tries = 0
        self.count_max = 100
        self.asked: list[tuple[str, int]] = []
        self.three_written = asyncio.Event()

    def refusal(self, topic_name: str, size_bytes: int) -> str | None:
        self.asked.append((topic_name, size_bytes))
        return self.why

    async def write(self, topic_name: str, partition: int, dead: Sequence[DeadRetry]) -> int:
        assert topic_name == NAME
        self.tries += 1
        await asyncio.sleep(0.01)
        if self.code is not ErrorCode.NONE:
            raise KafkaError(self.code, "not now")
        first = dead[: self.count_max]
        self.written += [(partition, one) for one in first]
        if len(self.written) == 3:
            self.three_written.set()
        return len(first)

    @property
    def values(self) -> list[bytes | None]:
        return [one.record.value for _, one in self.written]


class RetryWorld(World):
    def __init__(self) -> None:
        super().__init__()
        self.letters = FakeLetters()

    def retry_owner(self, config: object = RETRY) -> Owner:
        """As `owner`, of a partition of the retry topic."""
        made = self.owner(config)  # type: ignore[arg-type]
        made.manager.drop(KEY)
        made.manager.use_retry_letters(self.letters)
        made.manager.assign(KEY, self.leader_epoch, NAME, config, 0)  # type: ignore[arg-type]
        return made


async def fail(log: PartitionRuntime, *records: Record) -> ErrorCode:
    """A consumer gives up on these for now, and produces them with the headers that they had."""
    return (await append(log, flagged_batch([one._replace(offset=0) for one in records]))).error_code


def record(value: bytes, attempts: int = 0) -> Record:
    return Record(b"k", value, (("bmq-attempt", b"%d" % attempts),) if attempts else ())


def test_a_record_is_tried_at_each_level_and_is_a_dead_letter_then() -> None:
    async def main() -> None:
        world = RetryWorld()
        log = await world.retry_owner().log()
        assert await fail(log, record(b"bad")) is ErrorCode.NONE
        for number, wait_ms in enumerate(LEVELS_MS, 1):
            await pass_time(world, wait_ms - 1)
            assert len(await visible(log)) == number - 1
            await pass_time(world, 1)
            came = (await visible(log))[-1]
            assert dict(came.headers)["bmq-attempt"] == b"%d" % number
            assert await fail(log, came) is ErrorCode.NONE
        await pass_time(world, 0)
        assert len(await visible(log)) == len(LEVELS_MS), "the last attempt is none for consumers"
        ((partition, dead),) = world.letters.written
        assert (partition, dead.attempts, dead.record.key, dead.record.value) == (0, 3, b"k", b"bad")
        assert dict(dead.record.headers) == {"bmq-original-topic": b"orders"}
        assert dead.record.timestamp_ms == world.clock.now_ms()
        assert world.letters.asked[0][0] == NAME
        await pass_time(world, 1_000_000)
        assert len(world.letters.written) == 1

    virtual(main)


def test_the_position_waits_for_the_dead_letter_and_the_order_stays() -> None:
    async def main() -> None:
        world = RetryWorld()
        log = await world.retry_owner().log()
        world.letters.code = ErrorCode.NOT_ENOUGH_REPLICAS
        await fail(log, record(b"dead", 2), record(b"living"))
        await pass_time(world, 1_000)
        await asyncio.sleep(60)
        assert world.letters.tries > 3 and await values(log) == []
        assert log.timers.order is not None and len(log.timers.order) == 2
        world.letters.code = ErrorCode.NONE
        await asyncio.sleep(10)
        assert (world.letters.values, await values(log)) == ([b"dead"], [b"living"])

    virtual(main)


def test_the_next_owner_writes_the_dead_letter_that_is_not_there() -> None:
    async def main() -> None:
        world = RetryWorld()
        first = world.retry_owner()
        log = await first.log()
        world.letters.code = ErrorCode.NOT_ENOUGH_REPLICAS
        await fail(log, record(b"dead", 2))
        await pass_time(world, 0)
        assert world.letters.tries
        first.kill()
        world.letters.code = ErrorCode.NONE
        log = await world.retry_owner().log()
        await pass_time(world, 0)
        assert (world.letters.values, await values(log)) == ([b"dead"], [])
        await world.owners[-1].manager.close()
        log = await world.retry_owner().log()
        await pass_time(world, 0)
        assert world.letters.values == [b"dead"], "the log tells that it was written"

    virtual(main)


def test_a_delivery_that_fails_does_not_write_its_dead_letters_again() -> None:
    async def main() -> None:
        world = RetryWorld()
        log = await world.retry_owner().log()
        world.letters.count_max = 1
        await fail(log, record(b"a", 2), record(b"b", 2), record(b"c", 2))
        await world.letters.three_written.wait()
        state = log.state
        assert isinstance(state, Writing)
        log.feed(WriterBroken(state.segment.roll, is_full=True))
        await asyncio.sleep(60)
        assert log.timers.order is not None and len(log.timers.order) == 0
        assert world.letters.values == [b"a", b"b", b"c"]

    virtual(main)


def test_a_replaced_owner_writes_no_dead_letter() -> None:
    async def main() -> None:
        world = RetryWorld()
        first = world.retry_owner()
        log = await first.log()
        world.letters.code = ErrorCode.NOT_ENOUGH_REPLICAS
        await fail(log, record(b"dead", 2))
        await pass_time(world, 0)
        second = world.retry_owner()
        await second.log()
        tries = world.letters.tries
        world.letters.code = ErrorCode.NONE
        await asyncio.sleep(30)
        assert world.letters.values == [b"dead"]
        assert world.letters.tries == tries + 1, "the next owner's"

    virtual(main)


def test_without_a_topic_for_dead_letters_the_last_attempts_are_refused_and_nothing_is_held() -> None:
    async def main() -> None:
        world = RetryWorld()
        log = await world.retry_owner().log()
        world.letters.why = "topic dlq.app does not exist"
        result = await append(log, flagged_batch([record(b"new"), record(b"dead", 2)]))
        assert result.error_code is ErrorCode.INVALID_RECORD
        assert [(one.batch_index, one.message) for one in result.record_errors] == [(1, "topic dlq.app does not exist")]
        assert log.log_end_offset == 0
        assert await fail(log, record(b"new")) is ErrorCode.NONE, "an attempt that is left needs no such topic"

    virtual(main)


def test_a_batch_sent_again_counts_once() -> None:
    async def main() -> None:
        world = RetryWorld()
        log = await world.retry_owner().log()
        batch = flagged_batch([record(b"a"), record(b"b", 2)], producer_id=9, producer_epoch=0, base_sequence=0)
        results = [await append(log, batch) for _ in range(3)]
        assert {one.error_code for one in results} == {ErrorCode.NONE} and len(
            {one.base_offset for one in results}
        ) == 1
        await pass_time(world, 1_000)
        assert (await values(log), world.letters.values) == ([b"a"], [b"b"])

    virtual(main)


def test_transactions_are_refused_by_the_name_of_the_config() -> None:
    async def main() -> None:
        world = RetryWorld()
        log = await world.retry_owner().log()
        batch = flagged_batch([record(b"a")], is_transactional=True, producer_id=9, producer_epoch=0, base_sequence=0)
        assert BatchHeader.parse(batch).attributes & TRANSACTIONAL
        result = await append(log, batch)
        assert result.error_code is ErrorCode.POLICY_VIOLATION and "bmq.retry.levels" in (result.message or "")

    virtual(main)


def test_levels_that_are_taken_away_leave_what_is_pending_to_consumers() -> None:
    async def main() -> None:
        world = RetryWorld()
        owner = world.retry_owner()
        log = await owner.log()
        world.letters.code = ErrorCode.NOT_ENOUGH_REPLICAS
        await fail(log, record(b"dead", 2), record(b"living"))
        await pass_time(world, 0)
        owner.manager.update_config(KEY, CONFIG)
        await pass_time(world, 1_000)
        await asyncio.sleep(10)
        assert sorted(await values(log), key=str) == [b"dead", b"living"]
        assert await fail(log, record(b"plain", 2)) is ErrorCode.NONE
        assert (await values(log))[-1] == b"plain", "at once: it is an ordinary topic"

    virtual(main)
