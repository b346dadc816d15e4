"""Delayed records at a partition's owner: held, delivered once and in order, over takeovers and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from bmq.broker.log_reads import LogReads
from bmq.broker.partition_events import WriterBroken
from bmq.broker.partition_states import Writing
from bmq.broker.runtime import PartitionRuntime
from bmq.broker.timers.deliveries import OVERDUE_MS
from bmq.broker.timers.partition_timers import CLOCK_READ_S_MAX
from bmq.broker.timers.run_file_writer import RunFileWriter
from bmq.log.partition_log import TopicPartition, WholeBatches
from bmq.log.store import StorageUnavailable
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader, batches, verify_crc
from tests.support.flagged_batch import flagged_batch
from tests.support.gate_share import few_in_gate
from tests.unit.broker.world import CONFIG, KEY, Owner, World, append, produce, virtual

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

DELAY = replace(CONFIG, is_delay_enabled=True)


def delayed(world: World, *values_after_ms: tuple[bytes, int], **options: Any) -> bytearray:
    """A batch of (value, delay in ms); 0: without a header."""
    return flagged_batch(
        [
            Record(
                b"k",
                value,
                (("bmq-deliver-at", b"%d" % (world.clock.now_ms() + after_ms)),) if after_ms else (),
                timestamp_ms=world.clock.now_ms(),
            )
            for value, after_ms in values_after_ms
        ],
        **options,
    )


async def hold(log: PartitionRuntime, world: World, *values_after_ms: tuple[bytes, int], **options: Any) -> int:
    result = await append(log, delayed(world, *values_after_ms, **options))
    assert result.error_code is ErrorCode.NONE, result
    return result.base_offset


async def visible(log: PartitionRuntime) -> list[Record]:
    """What a consumer gets: the records that are in no control batch."""
    found: list[Record] = []
    offset = log.log_start_offset
    while (chunk := await log.read(offset, 2000)) is not None:
        for position, header in batches(chunk.data):
            verify_crc(chunk.data, position, header)
            assert header.base_offset == offset or offset == log.log_start_offset
            if not header.is_control:
                found.extend(decode_records(chunk.data, position))
            offset = header.end_offset
    return found


async def values(log: PartitionRuntime) -> list[bytes | None]:
    return [record.value for record in await visible(log)]


async def pass_time(world: World, by_ms: int) -> None:
    """The clock goes on, the owner looks at it, and what is due is appended."""
    world.clock.advance(by_ms)
    await asyncio.sleep(CLOCK_READ_S_MAX + 0.5)


def test_a_record_is_delivered_when_it_is_due_and_not_before() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(DELAY).log()
        name = await hold(log, world, (b"late", 5000))
        assert name == 1, "behind the announcement"
        assert await produce(log, b"plain") == 2
        await pass_time(world, 4999)
        assert await values(log) == [b"plain"]
        await pass_time(world, 1)
        plain, late = await visible(log)
        assert (plain.value, late.value, late.key) == (b"plain", b"late", b"k")
        assert late.timestamp_ms == world.clock.now_ms()
        due_ms = world.clock.now_ms()
        assert late.headers == (
            ("bmq-deliver-at", b"%d" % due_ms),
            ("bmq-timer-offset", b"1"),
            ("bmq-timer-due", b"%d" % due_ms),
            ("bmq-timer-created", b"%d" % (due_ms - 5000)),
        )
        await pass_time(world, 100_000)
        assert await values(log) == [b"plain", b"late"], "once"

    virtual(main)


def test_deliveries_of_a_backlog_are_paced_and_others_are_not() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(DELAY)
        log = await owner.log()
        paced: list[bool] = []

        @asynccontextmanager
        async def turn(*, is_overdue: bool) -> AsyncIterator[None]:
            paced.append(is_overdue)
            yield

        owner.manager.context.overdue_pace.turn = turn  # type: ignore[method-assign]
        await hold(log, world, (b"one", 1000))
        await pass_time(world, 1000)
        assert paced == [False, False], "one delivery, and nothing is left"
        await hold(log, world, *((b"many", 1000) for _ in range(1_200)))
        await pass_time(world, 1000 + OVERDUE_MS)
        assert paced[2:] == [False, True, True, False], "of 500, 500 and 200 records"
        assert len(await values(log)) == 1_201

    virtual(main)


@pytest.mark.parametrize("codec", list(Compression))
def test_order_is_that_of_due_times_and_then_of_names(codec: Compression) -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(DELAY).log()
        await hold(log, world, (b"c", 3000), (b"now", 0), (b"a", 1000), compression=codec)
        await hold(log, world, (b"b", 2000), (b"d", 3000), compression=codec)
        assert await values(log) == [b"now"]
        await pass_time(world, 10_000)
        assert await values(log) == [b"now", b"a", b"b", b"c", b"d"]

    virtual(main)


def test_what_is_overdue_is_looked_at_more_than_once_in_a_turn() -> None:
    """On uvloop: what it calls at once has no time, as a timer has."""

    async def main() -> None:
        world = World()
        log = await world.owner(DELAY).log()
        await hold(log, world, (b"a", 1000))
        world.clock.advance(2000)
        for _ in range(3):
            log.timers.schedule_wake_up()
        order = log.timers.order
        async with asyncio.timeout(10):
            while order is not None and not order.delivered_count:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert await values(log) == [b"a"]

    uvloop.run(main())


def test_partitions_deliver_in_turn_and_so_many_records_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are due at once: between two deliveries the event loop comes to everybody else."""
    monkeypatch.setattr("bmq.broker.timers.deliveries.RECORDS_MAX", 20)
    taken: list[tuple[int, int]] = []
    take, turn = DueOrder.take, 0

    def noted(self: DueOrder, now_ms: int, count_max: int) -> list[Pending]:
        found = take(self, now_ms, count_max)
        if found:
            taken.append((turn, len(found)))
        return found

    async def main() -> None:
        nonlocal turn
        world = World()
        owner = world.owner(DELAY)
        logs = [await owner.log()]
        for number in (1, 2):
            key = TopicPartition(KEY.topic_id, number)
            owner.manager.assign(key, 1, "topic", DELAY, 0)
            logs.append(await owner.manager.leader_of(key))
        for log in logs:
            for _ in range(3):
                await hold(log, world, *((b"v", 1000 + number % 7) for number in range(100)))
        monkeypatch.setattr(DueOrder, "take", noted)
        world.clock.advance(2000)
        for log in logs:
            log.timers.schedule_wake_up()
        orders = [log.timers.order for log in logs]
        async with asyncio.timeout(30):
            while sum(order.delivered_count for order in orders if order is not None) < 900:
                turn += 1
                await asyncio.sleep(0)

    uvloop.run(main())
    assert sum(count for _, count in taken) == 900 and max(count for _, count in taken) == 20
    assert len({turn for turn, _ in taken}) == len(taken), "two deliveries are made in one turn"


def test_what_could_not_be_read_is_pending_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read, failures = LogReads.read, 3

    async def failing(self: LogReads, offset: int, length_bytes_max: int) -> WholeBatches | None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise StorageUnavailable("away")
        return await read(self, offset, length_bytes_max)

    async def main() -> None:
        world = World()
        log = await world.owner(DELAY).log()
        await hold(log, world, (b"a", 1000), (b"b", 1000))
        monkeypatch.setattr(LogReads, "read", failing)
        await pass_time(world, 1000)
        await asyncio.sleep(10)
        assert failures < 0 and await values(log) == [b"a", b"b"]

    virtual(main)


def test_a_due_time_in_the_past_is_now() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(DELAY).log()
        assert await hold(log, world, (b"past", -5)) == 0
        assert await values(log) == [b"past"]

    virtual(main)


def test_a_topic_without_delay_takes_no_notice_of_the_headers() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(CONFIG).log()
        assert await hold(log, world, (b"a", 5000)) == 0
        assert await values(log) == [b"a"]

    virtual(main)


def test_the_next_owner_delivers_what_is_pending_and_nothing_again() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(DELAY)
        log = await first.log()
        await hold(log, world, (b"a", 1000), (b"b", 60_000))
        await pass_time(world, 1000)
        assert await values(log) == [b"a"]
        await hold(log, world, (b"c", 2000))
        first.kill()

        second = world.owner(DELAY)
        log = await second.log()
        assert await values(log) == [b"a"]
        await pass_time(world, 2000)
        assert await values(log) == [b"a", b"c"]
        await second.manager.close()

        log = await world.owner(DELAY).log()
        await pass_time(world, 60_000)
        assert await values(log) == [b"a", b"c", b"b"]

    virtual(main)


def test_an_owner_whose_clock_is_behind_keeps_the_order() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(DELAY)
        log = await first.log()
        await hold(log, world, (b"a", 1000), (b"later", 4_000_000))
        await pass_time(world, 3_600_000)
        assert await values(log) == [b"a"]
        await hold(log, world, (b"b", 500))
        await pass_time(world, 500)
        first.kill()

        world.clock.advance(-3_600_000)
        log = await world.owner(DELAY).log()
        await hold(log, world, (b"c", 10))
        await pass_time(world, 10)
        assert await values(log) == [b"a", b"b", b"c"], "its due time has been reached once, on another clock"
        await pass_time(world, 4_000_000)
        assert await values(log) == [b"a", b"b", b"c", b"later"]

    virtual(main)


def test_a_batch_sent_again_is_held_once() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(DELAY).log()
        batch = delayed(world, (b"a", 1000), producer_id=9, producer_epoch=0, base_sequence=0)
        results = [await append(log, batch), await append(log, batch)]
        assert [(one.error_code, one.base_offset) for one in results] == [(ErrorCode.NONE, 1)] * 2
        following = delayed(world, (b"b", 1000), producer_id=9, producer_epoch=0, base_sequence=1)
        assert (await append(log, following)).error_code is ErrorCode.NONE
        await pass_time(world, 1000)
        assert await values(log) == [b"a", b"b"]

    virtual(main)


def test_an_announcement_whose_batch_was_cut_is_void() -> None:
    """The owner ends between the two: the next one's log has the announcement alone, and the producer sends again."""

    async def main() -> None:
        world = World()
        first = world.owner(DELAY)
        log = await first.log()
        await produce(log, b"before")
        batch = delayed(world, (b"a", 1000), producer_id=9, producer_epoch=0, base_sequence=0)
        unanswered = append(log, batch)
        state = log.state
        assert isinstance(state, Writing)
        assert len(state.log.waiting) == 2
        state.log.waiting.pop()  # only the announcement reaches the file
        await asyncio.sleep(1)
        assert log.high_watermark == 2 and not unanswered.done()
        first.kill()

        log = await world.owner(DELAY).log()
        assert log.high_watermark == 2
        result = await append(log, batch)
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 3)
        await pass_time(world, 1000)
        assert await values(log) == [b"before", b"a"], "once"

    virtual(main)


def test_a_refused_hold_leaves_nothing_behind() -> None:
    """Its offsets go to other batches: these must not be taken for the records that it held."""

    async def main() -> None:
        world = World()
        log = await world.owner(DELAY).log()
        await produce(log, b"before")
        refused = append(log, delayed(world, (b"a", 1000), (b"b", 1500)))
        state = log.state
        assert isinstance(state, Writing)
        log.feed(WriterBroken(state.segment.roll, is_full=True))
        assert (await refused).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(30)
        for value in (b"c", b"d", b"e"):
            await produce(log, value)
        await hold(log, world, (b"f", 1000))
        assert log.timers.order is not None and len(log.timers.order) == 1
        await pass_time(world, 2000)
        assert await values(log) == [b"before", b"c", b"d", b"e", b"f"]

    virtual(main)


def test_records_with_impossible_headers_are_named_and_nothing_is_applied() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(replace(DELAY, delay_max_ms=1000)).log()
        batch = flagged_batch(
            [
                Record(None, b"good", (("bmq-deliver-after", b"500"),)),
                Record(None, b"text", (("bmq-deliver-after", b"soon"),)),
                Record(None, b"twice", (("bmq-deliver-at", b"1"), ("bmq-deliver-at", b"1"))),
                Record(None, b"far", (("bmq-deliver-after", b"1001"),)),
                Record(None, b"negative", (("bmq-deliver-at", b"-1"),)),
                Record(None, b"huge", (("bmq-deliver-at", b"%d" % (2**63 - 1)),)),
            ]
        )
        result = await append(log, batch)
        assert result.error_code is ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in result.record_errors] == [1, 2, 3, 4, 5]
        assert all(one.message for one in result.record_errors)
        assert log.log_end_offset == 0
        await pass_time(world, 1000)
        assert await values(log) == []

    virtual(main)


@few_in_gate("codec", [one for one in Compression if one is not Compression.NONE], every=3, others=in_campaign)
@pytest.mark.parametrize("name", ["bmq-deliver-after", "bmq-cancel"])
def test_a_compressed_batch_of_64_mib_is_refused_in_one_sentence(codec: Compression, name: str) -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(replace(DELAY, max_message_bytes=8 << 20, segment_bytes=16 << 20)).log()
        batch = flagged_batch([Record(None, bytes((64 << 20) - 100), ((name, b"500"),))], compression=codec)
        assert len(batch) < 8 << 20
        result = await append(log, batch)
        assert result.error_code is ErrorCode.MESSAGE_TOO_LARGE
        assert "may have 4194304 bytes of records" in (result.message or "")
        assert log.log_end_offset == 0
        assert log.timers.order is not None and not len(log.timers.order)

    virtual(main)


def test_transactions_are_refused() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(DELAY).log()
        batch = flagged_batch(
            [Record(None, b"a")], is_transactional=True, producer_id=9, producer_epoch=0, base_sequence=0
        )
        assert BatchHeader.parse(batch).attributes & TRANSACTIONAL
        result = await append(log, batch)
        assert result.error_code is ErrorCode.POLICY_VIOLATION
        assert "bmq.delay.enable" in (result.message or "")

    virtual(main)


@pytest.fixture
def no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """None can be written."""

    async def create(*_: Any) -> None:
        raise StorageUnavailable("no run is written")

    monkeypatch.setattr(RunFileWriter, "create", create)


@pytest.mark.usefixtures("no_runs")
def test_retention_and_delete_records_keep_what_is_pending_and_in_no_run() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(DELAY, segment_bytes=2000, retention_bytes=0))
        log = await owner.log()
        await produce(log, bytes(1000))
        await hold(log, world, (b"a", 1000))
        for _ in range(6):
            await produce(log, bytes(1500))
        await asyncio.sleep(5)
        await owner.manager.apply_retention()
        assert log.log_start_offset <= 1, "the hold is at 1"
        assert await log.delete_records(-1) == 1
        await pass_time(world, 1000)
        assert (await values(log))[-1] == b"a"
        assert await log.delete_records(-1) == log.high_watermark

    virtual(main)


def test_delay_can_be_switched_on_and_off_while_the_partition_is_owned() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(CONFIG)
        log = await owner.log()
        await produce(log, b"a")
        owner.manager.update_config(KEY, DELAY)
        result = await append(log, delayed(world, (b"b", 1000)))
        assert result.error_code is ErrorCode.NOT_ENOUGH_REPLICAS, "no manifest names it yet"
        await asyncio.sleep(1)
        await hold(log, world, (b"b", 1000))
        owner.manager.update_config(KEY, CONFIG)
        await hold(log, world, (b"c", 1000))
        assert await values(log) == [b"a", b"c"], "not held any more"
        owner.kill()

        log = await world.owner(CONFIG).log()
        await pass_time(world, 1000)
        assert await values(log) == [b"a", b"c", b"b"]

    virtual(main)


def test_a_node_starts_partitions_with_delay_unasked() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(DELAY)
        await hold(await first.log(), world, (b"a", 1000))
        first.kill()
        second = world.owner(DELAY)
        await pass_time(world, 1000)
        await asyncio.sleep(3)
        log = second.manager.ready(KEY)
        assert log is not None
        assert await values(log) == [b"a"]

    virtual(main)


def cancelling(*targets: tuple[int, int], **options: Any) -> bytearray:
    """A batch of records that cancel (offset, due time)."""
    return flagged_batch([Record(b"k", None, (("bmq-cancel", b"%d,%d" % target),)) for target in targets], **options)


def test_a_cancelled_record_is_not_delivered_by_this_owner_and_the_next() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(DELAY)
        log = await first.log()
        due_ms = world.clock.now_ms() + 5000
        name = await hold(log, world, (b"a", 5000), (b"b", 5000), (b"c", 9000), (b"d", 9500))
        batch = cancelling((name, due_ms), (name + 2, due_ms + 4000), producer_id=9, producer_epoch=0, base_sequence=0)
        result = await append(log, batch)
        assert result.error_code is ErrorCode.NONE
        assert log.timers.order is not None and len(log.timers.order) == 2
        await pass_time(world, 5000)
        assert await values(log) == [b"b"], "neither the record nor what cancelled it is visible"
        first.kill()

        log = await world.owner(DELAY).log()
        await pass_time(world, 9000)
        assert await values(log) == [b"b", b"d"]
        again = await append(log, batch)
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, result.base_offset), "a duplicate"

    virtual(main)


def test_what_cannot_be_cancelled_is_said_and_nothing_of_the_batch_is_applied() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(DELAY).log()
        due_ms = world.clock.now_ms() + 1000
        name = await hold(log, world, (b"gone", 1000), (b"there", 2000))
        await pass_time(world, 1000)
        end_offset = log.log_end_offset
        there = (name + 1, due_ms + 1000)
        result = await append(log, cancelling((name, due_ms), there, (name, due_ms + 1000), (name + 99, due_ms + 1000)))
        assert result.error_code is ErrorCode.INVALID_RECORD
        assert [(one.batch_index, one.message) for one in result.record_errors] == [
            (0, f"too late: what was due at {due_ms} has been delivered"),
            (2, f"no delayed record of this partition has offset {name} and is due at {due_ms + 1000}"),
            (3, f"no delayed record of this partition has offset {name + 99} and is due at {due_ms + 1000}"),
        ]
        assert log.log_end_offset == end_offset
        await pass_time(world, 1000)
        assert await values(log) == [b"gone", b"there"]

    virtual(main)


@pytest.mark.usefixtures("no_runs")
def test_a_cancelled_record_pins_neither_log_nor_limit() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(DELAY)
        log = await owner.log()
        due_ms = world.clock.now_ms() + 60_000
        name = await hold(log, world, (b"a", 60_000))
        assert await log.delete_records(-1) == 0
        for _ in range(2):
            assert (await append(log, cancelling((name, due_ms)))).error_code is ErrorCode.NONE
        assert log.timers.order is not None and log.timers.order.cancelled_count == 1
        assert await log.delete_records(-1) == log.high_watermark
        owner.kill()
        log = await world.owner(DELAY).log()
        await pass_time(world, 60_000)
        assert await values(log) == []

    virtual(main)


def metrics_of(owner: Owner) -> dict[str, float]:
    """Those of delayed records, without their common beginning."""
    registry = CollectorRegistry()
    registry.register(owner.manager.collector)
    return {
        sample.name.removeprefix("bmq_delayed_"): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.startswith("bmq_delayed_")
    }


def test_metrics_tell_what_waits_and_what_became_of_it() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(DELAY)
        log = await owner.log()
        nothing = {
            "records": 0,
            "overdue_seconds": 0,
            "records_delivered_total": 0,
            "records_cancelled_total": 0,
        }
        assert metrics_of(owner) == nothing, "no time is told when nothing waits"
        now_ms = world.clock.now_ms()
        name = await hold(log, world, (b"a", 5000), (b"b", 7000), (b"c", 9000))
        await append(log, cancelling((name + 1, now_ms + 7000)))
        waiting = metrics_of(owner)
        assert waiting.pop("next_due_timestamp_seconds") == (now_ms + 5000) / 1000
        assert waiting == {**nothing, "records": 2, "records_cancelled_total": 1}
        world.clock.advance(6500)
        assert metrics_of(owner)["overdue_seconds"] == 1.5
        await pass_time(world, 0)
        found = metrics_of(owner)
        assert (found["records"], found["records_delivered_total"], found["overdue_seconds"]) == (1, 1, 0)
        await owner.manager.close()
        assert metrics_of(owner)["records"] == 0, "of partitions that are owned here"

    virtual(main)
