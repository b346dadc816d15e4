"""Delayed records over owners that are killed, replaced and stopped, on a store with faults, by clocks that differ."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from bmq.broker.runtime import PartitionRuntime
from bmq.log.partition_log import AppendResult
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.store import Faults
from tests.support.flagged_batch import flagged_batch
from tests.support.gate_share import few_in_gate
from tests.unit.broker.timers.test_timers import visible
from tests.unit.broker.world import CONFIG, Owner, World, append, virtual

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

CONFIG_HERE = replace(CONFIG, is_delay_enabled=True, segment_bytes=3000)
TICK_S = 0.02
ANSWER_WAIT_S = 10.0


def faults() -> Faults:
    return Faults(
        request_s=(0.0, 0.01),
        append_s=(0.0, 0.03),
        unavailable_rate=0.02,
        lost_reply_rate=0.03,
        late_reply_rate=0.02,
        half_takeover_rate=0.1,
        break_writer_rate=0.08,
        rotten_tail_rate=0.2,
    )


@dataclass
class History:
    seed: int
    batches: int = 25
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    """Value -> due time that was asked for."""
    asked: dict[bytes, int] = field(default_factory=dict)
    cancelled: set[bytes] = field(default_factory=set)
    too_late: set[bytes] = field(default_factory=set)
    takeovers: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.world = World(self.seed, faults())
        self.owner: Owner | None = None

    async def run(self) -> list[Record]:
        self.owner = self.world.owner(CONFIG_HERE)
        clock = asyncio.create_task(self._clock())
        changes = asyncio.create_task(self._take_over())
        await asyncio.gather(*(self._produce(producer_id) for producer_id in (9, 10)))
        changes.cancel()
        await asyncio.wait({changes})
        self.world.calm()
        self.owner.kill()
        self.owner = self.world.owner(CONFIG_HERE)
        log = await self._log()
        clock.cancel()
        self.world.clock.advance(20_000_000)
        for _ in range(600):
            await asyncio.sleep(1)
            order = log.timers.order
            if order is not None and order.is_settled and not len(order) and not order.unloaded:
                break
        return await visible(log)

    async def _log(self) -> PartitionRuntime:
        while True:
            assert self.owner is not None
            try:
                return await self.owner.log()
            except KafkaError:
                await asyncio.sleep(0.2)

    async def _clock(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.world.clock.advance(int(TICK_S * 1000))

    async def _take_over(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.2, 3.0))
            before = self.owner
            assert before is not None
            self.takeovers += 1
            how = self.random.choice(["kill", "zombie", "stop"])
            if how == "kill":
                before.kill()
            elif how == "stop":
                await before.manager.close()
            self.world.clock.advance(self.random.choice([0, 0, -1500, 700, -4000]))
            self.owner = self.world.owner(CONFIG_HERE)

    async def _produce(self, producer_id: int) -> None:
        """Idempotent: each batch is sent again, as it is, until it is acknowledged."""
        sequence = 0
        for number in range(self.batches):
            records = []
            for index in range(self.random.randint(1, 3)):
                value = b"%d-%d-%d" % (producer_id, number, index)
                after_ms = self.random.choice([0, 1, 50, 200, 800, 3000, 8000])
                due_ms = self.world.clock.now_ms() + after_ms
                self.asked[value] = due_ms
                headers = (("bmq-deliver-at", b"%d" % due_ms),) if after_ms else ()
                records.append(Record(None, value, headers, timestamp_ms=self.world.clock.now_ms()))
            batch = flagged_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            result = await self._sent(batch)
            for record in records:
                assert record.value is not None
                self.acknowledged[record.value] = self.asked[record.value]
            sequence += len(records)
            if records[0].headers and self.random.random() < 0.4:
                await asyncio.sleep(self.random.uniform(0, 1))
                value = records[0].value or b""
                target = b"%d,%d" % (result.base_offset, self.asked[value])
                cancel = Record(None, b"cancels", (("bmq-cancel", target),))
                batch = flagged_batch([cancel], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
                if (await self._sent(batch)).error_code is ErrorCode.NONE:
                    self.cancelled.add(value)
                    sequence += 1
                else:
                    self.too_late.add(value)
            await asyncio.sleep(self.random.uniform(0, 0.3))

    async def _sent(self, batch: bytearray) -> AppendResult:
        """Its answer that is no reason to try again: NONE, or INVALID_RECORD."""
        while True:
            result = await self._send(batch)
            if result.error_code in (ErrorCode.NONE, ErrorCode.INVALID_RECORD):
                return result
            await asyncio.sleep(self.random.uniform(0.01, 0.3))

    async def _send(self, batch: bytearray) -> AppendResult:
        log = await self._log()
        answer = append(log, batch)
        done, _ = await asyncio.wait({answer}, timeout=ANSWER_WAIT_S)
        return answer.result() if done else AppendResult(ErrorCode.REQUEST_TIMED_OUT)


@few_in_gate("seed", range(12), every=2, others=in_campaign)
def test_each_record_in_runs_is_delivered_once_in_order_and_never_early(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With runs of a few records, of which more than two at one place are merged."""
    monkeypatch.setattr("bmq.broker.timers.run_lifecycle.WINDOW_PRESSED", 4)
    monkeypatch.setattr("bmq.broker.timers.run_lifecycle.LOG_BYTES", 2000)
    monkeypatch.setattr("bmq.broker.timers.run_builder.SORTED_COUNT_MAX", 3)
    monkeypatch.setattr("bmq.log.timers.run_tiers.RUNS_OVERLAPPING_MAX", 2)
    monkeypatch.setattr("bmq.log.timers.run_tiers.FILE_BYTES", 200)
    monkeypatch.setattr("bmq.log.timers.run_file.BLOCK_BYTES", 100)
    monkeypatch.setattr("bmq.log.timers.run_draft.BLOCK_BYTES", 100)
    monkeypatch.setattr("bmq.log.timers.row_merging.BLOCK_BYTES", 100)
    monkeypatch.setattr("bmq.log.timers.run_merging.BLOCK_BYTES", 100)
    test_each_record_is_delivered_once_in_order_and_never_early(seed)


@few_in_gate("seed", range(12), every=6, others=in_campaign)
def test_each_record_is_delivered_once_in_order_and_never_early(seed: int) -> None:
    async def main() -> None:
        history = History(seed)
        records = await history.run()
        counts = Counter(record.value for record in records)
        assert counts == Counter(history.acknowledged.keys() - history.cancelled), (
            "nothing is lost, doubled or cancelled"
        )
        assert history.cancelled
        assert history.takeovers >= 3
        delivered = []
        for record in records:
            headers = dict(record.headers)
            if (due := headers.get("bmq-timer-due")) is not None:
                delivered.append((int(due), int(headers["bmq-timer-offset"] or b"")))
                assert int(due) >= history.asked[record.value or b""], "never early"
        assert delivered == sorted(delivered)
        assert len(delivered) > 10

    virtual(main, time_limit_s=100_000)
