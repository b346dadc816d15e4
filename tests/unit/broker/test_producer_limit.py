"""A partition remembers so many producers: those long silent make room, and none that may still retry is forgotten."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from bmq.broker.metrics import PartitionCounts
from bmq.broker.producer_limit import REPORTS_MS_MIN
from bmq.broker.runtime import PartitionRuntime
from bmq.log.partition_log import AppendResult
from bmq.log.producer_state import IDLE_MS_MIN, PRODUCER_BYTES_MAX, PlacedBatch, ProducerEntry, ProducerStates
from bmq.protocol.error_codes import ErrorCode
from bmq.server.settings import Settings
from tests.fakes.transaction_verifier import FakeVerifier
from tests.unit.broker.test_transactions import marker, on_owner, send
from tests.unit.broker.world import Owner, World, append, batch_of

pytestmark = pytest.mark.unit

NONE, TRY_AGAIN = ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS


def write(log: PartitionRuntime, producer: int, sequence: int = 0) -> asyncio.Future[AppendResult]:
    return append(log, batch_of(b"v", producer_id=producer, producer_epoch=0, base_sequence=sequence))


async def known(log: PartitionRuntime) -> list[int]:
    return sorted(one.producer_id for one in await log.active_producers())


def counts_of(owner: Owner) -> PartitionCounts:
    return owner.manager.context.counts


@on_owner(producers_max=3)
async def test_the_longest_silent_is_forgotten_and_said(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    for producer in (1, 2, 3):
        assert (await write(log, producer)).error_code is NONE
        world.clock.advance(1_000)
    assert (await write(log, 1, 1)).error_code is NONE
    world.clock.advance(IDLE_MS_MIN - 1_000)
    with capture_logs() as lines:
        assert (await write(log, 4)).error_code is NONE
    assert await known(log) == [1, 3, 4]
    assert counts_of(owner).producers_forgotten == 1
    (line,) = (line for line in lines if line["event"] == "too_many_producers")
    assert (line["log_level"], line["forgotten"], line["producers_max"], line["topic"]) == ("warning", 1, 3, "topic")
    assert (await write(log, 1, 1)).base_offset == 3, "its retry is known"


@on_owner(producers_max=2)
async def test_while_all_wrote_a_moment_ago_new_ones_wait_in_order(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    assert {(await write(log, producer)).error_code for producer in (1, 2)} == {NONE}
    with capture_logs() as lines:
        refused = [await write(log, 3, sequence) for sequence in (0, 1, 0)]
    assert [answer.error_code for answer in refused] == [TRY_AGAIN, ErrorCode.NOT_LEADER_OR_FOLLOWER, TRY_AGAIN]
    assert "broker.producers_max" in (refused[0].message or "")
    assert len([line for line in lines if line["event"] == "too_many_producers"]) == 1
    assert counts_of(owner).producers_refused_batches == 2
    assert (await write(log, 2, 1)).error_code is NONE, "known producers go on"
    assert (await append(log, batch_of(b"plain"))).error_code is NONE
    world.clock.advance(IDLE_MS_MIN)
    assert (await write(log, 3)).error_code is NONE
    assert await known(log) == [2, 3] and log.log_end_offset == 5


@on_owner(producers_max=2)
async def test_one_with_an_open_transaction_is_never_forgotten(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    assert (await send(log)).error_code is NONE
    assert (await write(log, 2)).error_code is NONE
    world.clock.advance(10 * IDLE_MS_MIN)
    assert (await write(log, 3)).error_code is NONE
    assert await known(log) == [3, 9] and log.last_stable_offset == 0
    assert (await send(log, producer_id=10)).error_code is TRY_AGAIN, "transactions of new producers too"
    await log.write_marker(marker())
    assert log.last_stable_offset == log.high_watermark
    world.clock.advance(IDLE_MS_MIN)
    assert (await send(log, producer_id=10)).error_code is NONE


@on_owner(producers_max=1)
async def test_log_lines_come_once_a_minute(
    world: World, owner: Owner, log: PartitionRuntime, verifier: FakeVerifier
) -> None:
    assert (await write(log, 1)).error_code is NONE
    with capture_logs() as lines:
        for _ in range(5):
            assert (await write(log, 2)).error_code is TRY_AGAIN
        world.clock.advance(REPORTS_MS_MIN)
        assert (await write(log, 3)).error_code is TRY_AGAIN
    told = [line["refused_batches"] for line in lines if line["event"] == "too_many_producers"]
    assert told == [1, 5]


def test_the_most_that_may_be_set_fits_into_an_index() -> None:
    """Its part has a length of four bytes; half of that is far above a snapshot of so many."""
    field = Settings.model_fields["broker"].annotation
    assert field is not None
    most = 1_000_000
    with pytest.raises(ValueError, match="producers_max"):
        Settings(broker={"producers_max": most + 1})
    full = ProducerEntry(0, 0, 0, -1, (PlacedBatch(0, 0, 0, 0, 0),) * 5, 0)
    states = ProducerStates()
    states._entries[1] = full
    one = len(states.encode_snapshot(1)) - len(ProducerStates().encode_snapshot(0))
    assert one == PRODUCER_BYTES_MAX and most * one < 2**31
