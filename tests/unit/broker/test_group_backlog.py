"""Retention held back by groups, and backlog quotas, at a partition's owner on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from bmq.broker.runtime import PartitionRuntime
from bmq.log.config import BacklogPolicy, LogConfig
from bmq.log.partition_log import AppendResult, TopicPartition
from bmq.log.transactions import TransactionClaim, TransactionMarker
from bmq.protocol.error_codes import ErrorCode
from tests.fakes.committed_offsets import FakeCommittedOffsets
from tests.fakes.transaction_verifier import FakeVerifier
from tests.unit.broker.world import CONFIG, KEY, Owner, World, append, batch_of, produce, read_all, sequenced, virtual

pytestmark = pytest.mark.unit

CHECK_MS = 10_000
RETAINED = replace(
    CONFIG,
    segment_bytes=200,
    retention_ms=30_000,
    file_delete_delay_ms=1_000,
    retention_groups=("slow", "fast"),
    retention_groups_max_ms=100_000,
)
QUOTA = replace(CONFIG, segment_index_interval_bytes=1, retention_groups=("slow", "fast"), backlog_quota_bytes=1_000)
VALUE = b"v" * 500
RECORD_BYTES = len(batch_of(VALUE))
NONE, HELD = ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS

Test = Callable[[World, Owner, PartitionRuntime, FakeCommittedOffsets], Coroutine[Any, Any, None]]


def on_owner(config: LogConfig) -> Callable[[Test], Callable[[], None]]:
    """The test runs on an owner whose groups have committed what it chooses."""

    def decorate(test: Test) -> Callable[[], None]:
        def run() -> None:
            async def main() -> None:
                world = World(retention_check_interval_ms=CHECK_MS)
                owner = world.owner(config)
                offsets = FakeCommittedOffsets()
                owner.manager.use_committed_offsets(offsets)
                await test(world, owner, await owner.log(), offsets)
                await owner.manager.close()

            virtual(main)

        run.__name__ = test.__name__
        run.__doc__ = test.__doc__
        return run

    return decorate


async def fill(log: PartitionRuntime, count: int = 6) -> None:
    """A segment for each record."""
    for number in range(count):
        await produce(log, b"%d" % number * 100)


async def next_round() -> None:
    await asyncio.sleep(1.5 * CHECK_MS / 1000)


async def next_look() -> None:
    """Quotas take effect within a second; the answer takes no time here."""
    await asyncio.sleep(1.01)


# --- retention


@on_owner(RETAINED)
async def test_retention_waits_for_the_slowest_group(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    await fill(log)
    await next_round()
    assert not offsets.asked, "nothing to drop, nothing to ask"
    offsets.offsets = {"slow": 2, "fast": 6}
    world.clock.advance(31_000)
    await next_round()
    assert log.log_start_offset == 2
    assert [offset for offset, _ in await read_all(log)] == [2, 3, 4, 5]
    offsets.offsets["slow"] = 5
    await next_round()
    assert log.log_start_offset == 5
    offsets.offsets["slow"] = 6
    await next_round()
    assert log.log_start_offset == 6


@on_owner(RETAINED)
async def test_a_group_that_never_commits_holds_until_the_limit(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    await fill(log)
    offsets.offsets = {"fast": 6}
    world.clock.advance(100_000)
    await next_round()
    assert log.log_start_offset == 0
    world.clock.advance(1)
    await next_round()
    assert log.log_start_offset == 6


@pytest.mark.parametrize("trouble", ["silent", "error", "nobody to ask"])
def test_without_an_answer_everything_stays_until_the_limit(trouble: str) -> None:
    async def run(world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets) -> None:
        await fill(log)
        offsets.offsets = {"slow": 6, "fast": 6}
        match trouble:
            case "silent":
                offsets.silent.add("slow")
            case "error":
                offsets.fails_with = RuntimeError("a bug")
            case _:
                owner.manager._backlogs.offsets = None
        world.clock.advance(50_000)
        await next_round()
        assert log.log_start_offset == 0
        world.clock.advance(51_000)
        await next_round()
        assert log.log_start_offset == 6

    on_owner(RETAINED)(run)()


@on_owner(RETAINED)
async def test_deletion_goes_by_an_answer_of_its_own_round(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    """A group that was set back is asked again: what it had consumed is wanted once more."""
    await fill(log, 3)
    offsets.offsets = {"slow": 1, "fast": 3}
    world.clock.advance(31_000)
    await next_round()
    assert log.log_start_offset == 1
    offsets.offsets["fast"] = 1
    offsets.offsets["slow"] = 3
    await next_round()
    assert log.log_start_offset == 1


@on_owner(replace(RETAINED, retention_groups=()))
async def test_a_topic_without_groups_asks_nobody(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    await fill(log)
    world.clock.advance(31_000)
    await next_round()
    assert log.log_start_offset == 6 and not offsets.asked
    owner.manager.update_config(KEY, RETAINED)
    await fill(log)
    world.clock.advance(31_000)
    await next_round()
    assert log.log_start_offset == 6, "the groups named meanwhile hold it back"


def test_partitions_of_a_topic_are_asked_about_together() -> None:
    async def main() -> None:
        world = World(retention_check_interval_ms=CHECK_MS)
        owner = world.owner(RETAINED)
        offsets = FakeCommittedOffsets(slow=1, fast=1)
        owner.manager.use_committed_offsets(offsets)
        logs = [await owner.log()]
        for number in (1, 2):
            key = TopicPartition(KEY.topic_id, number)
            owner.manager.assign(key, 1, "topic", RETAINED)
            logs.append(await owner.manager.leader_of(key))
        for log in logs:
            await fill(log, 2)
        world.clock.advance(31_000)
        await next_round()
        assert [sorted(partitions) for _, partitions in offsets.asked] == [[0, 1, 2]]
        assert [log.log_start_offset for log in logs] == [1, 1, 1]
        await owner.manager.close()

    virtual(main)


# --- quotas


async def codes(log: PartitionRuntime, count: int = 1) -> list[ErrorCode]:
    return [(await append(log, batch_of(VALUE))).error_code for _ in range(count)]


@on_owner(QUOTA)
async def test_producers_wait_while_the_slowest_group_is_too_far_behind(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    offsets.offsets = {"slow": 0, "fast": 1}
    assert await codes(log) == [NONE]
    await next_look()
    assert await codes(log) == [NONE], "within the quota"
    await next_look()
    refused = await append(log, batch_of(VALUE))
    assert refused == AppendResult(
        HELD,
        message=f"group slow has {2 * RECORD_BYTES} bytes left to consume, bmq.backlog.quota.bytes allows 1000",
    )
    assert owner.manager.counts.backlog_refused_batches == 1
    assert await codes(log, 2) == [HELD, HELD]
    offsets.offsets["slow"] = 1
    await next_look()
    assert await codes(log) == [NONE]
    assert log.high_watermark == 3


@on_owner(replace(QUOTA, backlog_quota_policy=BacklogPolicy.PRODUCER_EXCEPTION))
async def test_producers_fail_at_once_where_the_topic_says_so(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    await codes(log, 2)
    await next_look()
    assert await codes(log) == [ErrorCode.POLICY_VIOLATION]


@on_owner(replace(QUOTA, backlog_quota_policy=BacklogPolicy.CONSUMER_BACKLOG_EVICTION, segment_bytes=2 * RECORD_BYTES))
async def test_the_oldest_segments_go_where_the_topic_says_so(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    assert await codes(log, 7) == [NONE] * 7
    await next_look()
    assert log.log_start_offset == 6, "six in closed segments, and the open one is within the quota"
    assert owner.manager.counts.backlog_evicted_bytes == 6 * RECORD_BYTES
    assert [offset for offset, _ in await read_all(log)] == [6]
    offsets.offsets = {"slow": 9, "fast": 8}
    assert await codes(log, 3) == [NONE] * 3
    await next_look()
    assert log.log_start_offset == 6, "consumed: only two are left"


@on_owner(replace(QUOTA, backlog_quota_bytes=-1, backlog_quota_ms=60_000))
async def test_the_oldest_record_that_is_left_may_be_so_old(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    await produce_now(world, log)
    world.clock.advance(40_000)
    await produce_now(world, log)
    world.clock.advance(20_000)
    await next_look()
    assert await codes(log) == [NONE]
    world.clock.advance(1)
    await next_look()
    refused = await append(log, batch_of(VALUE))
    assert refused == AppendResult(
        HELD, message="group slow has records of 60001 ms ago left to consume, bmq.backlog.quota.ms allows 60000"
    )
    offsets.offsets = {"slow": 1, "fast": 1}
    await next_look()
    assert await codes(log) == [NONE]
    world.clock.advance(50_000)
    offsets.offsets = {"slow": 2, "fast": 4}
    await next_look()
    assert await codes(log) == [HELD]
    offsets.offsets = {"slow": 4, "fast": 4}
    await next_look()
    assert await codes(log) == [NONE], "nothing is left"


async def produce_now(world: World, log: PartitionRuntime) -> None:
    assert (await append(log, batch_of(VALUE, clock=world.clock))).error_code is NONE


@on_owner(QUOTA)
async def test_a_quota_changes_within_a_second(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    await codes(log, 2)
    await next_look()
    assert await codes(log) == [HELD]
    owner.manager.update_config(KEY, replace(QUOTA, backlog_quota_bytes=-1))
    assert await codes(log) == [NONE], "at once when it is taken away"
    owner.manager.update_config(KEY, QUOTA)
    await next_look()
    assert await codes(log) == [HELD]
    owner.manager.update_config(KEY, replace(QUOTA, backlog_quota_bytes=10_000))
    await next_look()
    assert await codes(log) == [NONE]
    owner.manager.update_config(KEY, replace(QUOTA, retention_groups=("fast",)))
    offsets.offsets = {"fast": 4}
    await next_look()
    assert await codes(log) == [NONE]
    offsets.offsets = {"fast": 0}  # set back, which is noticed when the coordinator is asked
    await next_look()
    assert await codes(log) == [NONE]
    owner.manager.update_config(KEY, replace(QUOTA, retention_groups=("fast",), segment_ms=10**9))
    await next_look()
    assert await codes(log) == [HELD]


@on_owner(QUOTA)
async def test_a_group_that_was_set_back_is_noticed_without_a_record(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    offsets.offsets = {"slow": 3, "fast": 3}
    await codes(log, 3)
    await next_look()
    offsets.offsets["slow"] = 0
    await asyncio.sleep(31)
    assert await codes(log) == [HELD]


@on_owner(QUOTA)
async def test_a_coordinator_is_asked_when_the_quota_seems_exceeded_or_now_and_then(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    offsets.offsets = {"slow": 0, "fast": 0}
    await codes(log)
    await asyncio.sleep(29)
    assert len(offsets.asked) == 1, "the first look"
    await codes(log)
    offsets.offsets = {"slow": 2, "fast": 2}
    await next_look()
    assert len(offsets.asked) == 2
    await asyncio.sleep(28)
    assert len(offsets.asked) == 2
    await asyncio.sleep(4)
    assert len(offsets.asked) == 3


@on_owner(QUOTA)
async def test_nobody_is_refused_on_a_guess(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    offsets.silent.add("slow")
    await codes(log, 3)
    await next_look()
    assert await codes(log) == [NONE]
    offsets.silent.clear()
    await next_look()
    assert await codes(log) == [HELD]
    offsets.fails_with = RuntimeError("a bug")
    await next_look()
    assert await codes(log) == [NONE], "what was true a second ago is not known any more"


@on_owner(QUOTA)
async def test_a_refused_producer_keeps_its_order(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    """A repeated batch is acknowledged; a first batch that was refused is not overtaken by the one behind it."""
    assert (await append(log, sequenced(0, VALUE, VALUE, VALUE))).error_code is NONE
    await next_look()
    assert (await append(log, sequenced(3, b"a"))).error_code is HELD
    again = await append(log, sequenced(0, VALUE, VALUE, VALUE))
    assert (again.error_code, again.base_offset) == (NONE, 0)
    first, second = (
        batch_of(b"%d" % sequence, producer_id=10, producer_epoch=0, base_sequence=sequence) for sequence in (0, 1)
    )
    assert (await append(log, first)).error_code is HELD
    offsets.offsets = {"slow": 3, "fast": 3}
    await next_look()
    assert (await append(log, second)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await append(log, first)).error_code is NONE
    assert (await append(log, second)).error_code is NONE
    assert (await append(log, sequenced(3, b"a"))).error_code is NONE


@on_owner(QUOTA)
async def test_transactions_obey_and_can_be_ended(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    owner.manager.use_transactions(FakeVerifier())
    claim = TransactionClaim("tx", may_add=True, is_abortable_told=True)

    def in_transaction(sequence: int, producer_id: int = 9) -> bytearray:
        return batch_of(VALUE, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)

    assert (await append(log, in_transaction(0), claim=claim)).error_code is NONE
    assert await codes(log) == [NONE]
    await next_look()
    assert (await append(log, in_transaction(1), claim=claim)).error_code is HELD
    assert (await append(log, in_transaction(0, producer_id=10), claim=claim)).error_code is HELD
    await log.write_marker(TransactionMarker(9, 0, 0, True))
    internal = await append(log, batch_of(b"state"), is_internal=True)
    assert internal.error_code is NONE


@on_owner(QUOTA)
async def test_a_quota_survives_its_partitions_end(
    world: World, owner: Owner, log: PartitionRuntime, offsets: FakeCommittedOffsets
) -> None:
    await codes(log, 2)
    await next_look()
    await owner.manager.close()
    assert await codes(log) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    after = world.owner(QUOTA)
    after.manager.use_committed_offsets(offsets)
    successor = await after.log()
    await next_look()
    assert await codes(successor) == [HELD]
    await after.manager.close()
