"""Half messages over owners that are killed, replaced and stopped, on a store with faults, by clocks that differ."""

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
from tests.support.flagged_batch import flagged_batch
from tests.support.gate_share import few_in_gate
from tests.unit.broker.half.fake_checker import FakeChecker
from tests.unit.broker.timers.test_timer_histories import ANSWER_WAIT_S, TICK_S, faults
from tests.unit.broker.timers.test_timers import visible
from tests.unit.broker.world import CONFIG, Owner, World, append, virtual

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

TAKEOVERS_MAX = 25
CONFIG_HERE = replace(
    CONFIG,
    is_half_enabled=True,
    is_delay_enabled=True,
    segment_bytes=3000,
    half_check_url="http://orders/check",
    half_check_first_ms=500,
    half_check_interval_ms=1_000,
    half_checks_max=60,
    half_given_up_topic="lost",
)


@dataclass
class History:
    """Two producers send half messages, most of which they decide, and delayed records. The checker knows about some others."""

    seed: int
    batches: int = 20
    plain: set[bytes] = field(default_factory=set)
    fates: dict[bytes, str] = field(default_factory=dict)
    """Value of an acknowledged half message -> commit or rollback as its producer was told, check or forgotten."""
    takeovers: int = 0
    runs_seen: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.world = World(self.seed, faults())
        self.checker = FakeChecker()
        self.owner: Owner | None = None

    def _new_owner(self) -> None:
        self.owner = self.world.owner(CONFIG_HERE)
        self.owner.manager.use_half_checker(self.checker)

    async def run(self) -> list[Record]:
        self._new_owner()
        clock = asyncio.create_task(self._clock())
        changes = asyncio.create_task(self._take_over())
        await asyncio.gather(*(self._produce(producer_id) for producer_id in (9, 10)))
        changes.cancel()
        await asyncio.wait({changes})
        self.world.calm()
        assert self.owner is not None
        self.owner.kill()
        self._new_owner()
        log = await self._log()
        for _ in range(300):
            await asyncio.sleep(1)
            view = log.timers.view
            if view is not None and not len(log.half.order) and not view.count:
                break
        clock.cancel()
        await asyncio.sleep(1)
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
        """So often at most: each owner looks at what its predecessors left, and would be replaced before it begins in the end."""
        for _ in range(TAKEOVERS_MAX):
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
            self._new_owner()

    async def _produce(self, producer_id: int) -> None:
        """Idempotent: each batch is sent again, as it is, until it is acknowledged."""
        sequence = 0
        to_decide: list[tuple[int, bytes]] = []
        for number in range(self.batches):
            records = []
            halves: dict[int, bytes] = {}
            decided: list[tuple[bytes, str]] = []
            for place in range(self.random.randint(1, 3)):
                value = b"%d-%d-%d" % (producer_id, number, place)
                kind = self.random.choice(["plain", "half", "half", "decide", "decide", "delayed", "delayed"])
                if kind == "decide" and to_decide:
                    offset, name = to_decide.pop(self.random.randrange(len(to_decide)))
                    outcome = self.random.choice(["commit", "rollback"])
                    decided.append((name, outcome))
                    records.append(Record(None, value, ((f"bmq-half-{outcome}", b"%d" % offset),)))
                elif kind == "delayed":
                    self.plain.add(value)
                    wait_ms = self.random.randint(100, 20_000)
                    records.append(Record(None, value, (("bmq-deliver-after", b"%d" % wait_ms),)))
                elif kind == "half":
                    halves[place] = value
                    records.append(Record(None, value, (("bmq-half", value),)))
                else:
                    self.plain.add(value)
                    records.append(Record(None, value))
            batch = flagged_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            result = await self._until_taken(batch)
            sequence += len(records)
            lifecycle = (await self._log()).timers.lifecycle
            self.runs_seen += 0 if lifecycle is None else len(lifecycle.runs.references)
            for name, outcome in decided:
                self.fates[name] = outcome
            for place, value in halves.items():
                fate = self.random.choice(["decide", "decide", "check", "forgotten"])
                if fate == "decide":
                    self.fates[value] = "unknown"
                    to_decide.append((result.base_offset + place, value))
                else:
                    self.fates[value] = fate
                    if fate == "check":
                        self.checker.answers[value.decode()] = self.random.random() < 0.5
            await asyncio.sleep(self.random.uniform(0, 0.5))

    async def _until_taken(self, batch: bytearray) -> AppendResult:
        while True:
            result = await self._send(batch)
            if result.error_code is ErrorCode.NONE:
                return result
            if result.error_code is ErrorCode.INVALID_RECORD:
                raise AssertionError(result)
            await asyncio.sleep(self.random.uniform(0.01, 0.3))

    async def _send(self, batch: bytearray) -> AppendResult:
        log = await self._log()
        answer = append(log, batch)
        done, _ = await asyncio.wait({answer}, timeout=ANSWER_WAIT_S)
        return answer.result() if done else AppendResult(ErrorCode.REQUEST_TIMED_OUT)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of three delayed records, made early."""
    monkeypatch.setattr("bmq.broker.timers.run_lifecycle.WINDOW_PRESSED", 4)
    monkeypatch.setattr("bmq.broker.timers.run_builder.SORTED_COUNT_MAX", 3)


@few_in_gate("seed", range(12), every=6, others=in_campaign)
def test_each_half_message_has_one_fate(seed: int) -> None:
    async def main() -> None:
        history = History(seed)
        records = await history.run()
        assert history.takeovers >= 3
        assert history.runs_seen
        counts = Counter(record.value for record in records)
        assert max(counts.values()) == 1, "nothing is doubled"
        assert history.plain <= counts.keys()
        copied = {record.value for _, _, record in history.checker.copies}
        answers = history.checker.answers
        for value, fate in history.fates.items():
            is_delivered = value in counts
            if fate == "commit" or (fate == "check" and answers[value.decode()]):
                assert is_delivered and value not in copied, (value, fate)
            elif fate == "rollback" or fate == "check":
                assert not is_delivered and value not in copied, (value, fate)
            else:
                assert not is_delivered and value in copied, (value, fate)
        assert counts.keys() <= history.plain | history.fates.keys()
        assert len(copied) > 3

    virtual(main, time_limit_s=100_000)
