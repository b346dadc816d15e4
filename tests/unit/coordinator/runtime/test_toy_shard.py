"""A state machine of another kind plugs into a shard: a register whose values run out, and callers who wait for them to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import structlog

from bmq.coordinator.metrics import GroupMetrics
from bmq.coordinator.runtime.directory import ShardDirectory, shard_of
from bmq.coordinator.runtime.moment import NEVER_MS, Moment
from bmq.coordinator.runtime.shard import Shard
from bmq.log.partition_log import ReplayableLog
from bmq.log.state_log import SnapshotPolicy
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.clock import FakeClock
from tests.unit.broker.world import virtual
from tests.unit.coordinator.cluster import FAST, FakeShards, FakeTopics

pytestmark = pytest.mark.unit


class Register(Shard):
    """Names with the wall time (ms) until which they are taken. Who asks for a free one waits until it is."""

    kind: ClassVar = "register"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.taken: dict[str, int] = {}
        self.is_live = False
        self.stalls = 0
        self._callers: dict[str, list[asyncio.Future[None]]] = {}

    # Deciding.

    async def take(self, name: str, until_ms: int) -> None:
        if name in self.taken:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, name)
        await self.append([(name.encode(), b"%d" % until_ms)])

    async def until_free(self, name: str) -> None:
        if name in self.taken:
            caller = self._loop.create_future()
            self._callers.setdefault(name, []).append(caller)
            await self.answer_of(caller)

    # The state machine.

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        name = (key or b"").decode()
        if value is None:
            self.taken.pop(name, None)
            for caller in self._callers.pop(name, ()):
                if not caller.done():
                    caller.set_result(None)
        elif value == b"unreadable":
            raise ValueError("a record that cannot be applied")
        else:
            self.taken[name] = int(value)
        if self.is_live:
            self.arm()

    async def restore(self, data: bytes) -> None:
        self.taken = json.loads(data)

    async def snapshot(self) -> bytes:
        return json.dumps(self.taken).encode()

    def begin(self) -> None:
        self.is_live = True
        self.arm()

    def unload(self, error: ErrorCode) -> None:
        self.taken = {}

    @property
    def size(self) -> int:
        return len(self.taken)

    @property
    def wake_ms(self) -> float:
        return min(self.taken.values(), default=NEVER_MS)

    def tick(self, now: Moment) -> None:
        over = [name for name, until_ms in self.taken.items() if until_ms <= now.loop_ms]
        self.taken.update(dict.fromkeys(over, NEVER_MS))  # type: ignore[arg-type]  # asked for once
        if over:
            self.append([(name.encode(), None) for name in over])

    def after_stall(self) -> None:
        self.stalls += 1


class Registers:
    """A directory of them over logs in memory; `restart` makes another over the same logs."""

    def __init__(self, records_max: int = 1_000) -> None:
        self.shards = FakeShards(FakeTopics(), 3)
        self.metrics = GroupMetrics(dict, int)
        self._policy = SnapshotPolicy(records_max)
        self.directory = self.restart()

    def restart(self) -> ShardDirectory[Register]:
        def make(number: int, log: ReplayableLog, on_lost: Callable[[Register], None]) -> Register:
            return Register(number, log, FakeClock(), self._policy, self.metrics, on_lost)

        self.directory = ShardDirectory(Register.kind, self.shards, make, FAST)
        return self.directory


def test_what_is_durable_is_there_after_a_restart() -> None:
    async def main() -> None:
        world = Registers()
        shard = await world.directory.get("a")
        assert shard.number == shard_of("a", 3) and shard.is_live
        await shard.take("a", 9_000_000)
        with pytest.raises(KafkaError):
            await shard.take("a", 1)
        again = await world.restart().get("a")
        assert again is not shard and again.taken == {"a": 9_000_000}
        assert (world.metrics.loaded_shards, world.metrics.lost_shards) == (2, 0)

    virtual(main)


def test_a_deadline_comes_true_in_the_log_and_answers_who_waits() -> None:
    async def main() -> None:
        world = Registers()
        shard = await world.directory.get("a")
        await shard.take("a", 5_000)
        await shard.take("b", 7_000)
        waiting = asyncio.create_task(shard.until_free("a"))
        await asyncio.sleep(4.9)
        assert not waiting.done()
        await waiting
        assert asyncio.get_running_loop().time() == pytest.approx(5.0, abs=0.01)
        assert set(shard.taken) == {"b"} and shard.stalls == 0
        assert set((await world.restart().get("a")).taken) == {"b"}

    virtual(main)


def test_who_waits_at_a_shard_that_is_given_up_is_sent_away() -> None:
    async def main() -> None:
        world = Registers()
        shard = await world.directory.get("a")
        await shard.take("a", 5_000)
        waiting = asyncio.create_task(shard.until_free("a"))
        await asyncio.sleep(0)
        world.directory.resign(shard.number)
        with pytest.raises(KafkaError) as sent_away:
            await waiting
        assert sent_away.value.code is ErrorCode.NOT_COORDINATOR
        assert shard.is_lost and not shard.taken and world.directory.find("a") is None
        await asyncio.sleep(10)  # no deadline of it comes any more
        again = await world.directory.get("a")
        assert set(again.taken) == {"a"}  # still in the log
        await asyncio.sleep(0.1)
        assert not again.taken  # and over there at once

    virtual(main)


def test_nobody_gets_past_those_who_waited_for_a_shard() -> None:
    """In whichever turn of the event loop a request comes, before, while or after the shard is loaded."""

    async def main() -> None:
        world = Registers()
        came: list[int] = []
        served: list[int] = []

        async def ask(number: int) -> None:
            came.append(number)
            shard = world.directory.find("a") or await world.directory.get("a")
            assert shard.is_live
            served.append(number)

        tasks = []
        for number in range(200):
            tasks.append(asyncio.create_task(ask(number)))
            for _ in range(number % 3):
                await asyncio.sleep(0)
        assert world.directory.find("a") is not None, "nobody waits for long"
        await asyncio.gather(*tasks)
        assert served == came == list(range(200))

    virtual(main)


def test_who_waits_behind_others_is_sent_away_with_them_when_the_shard_is_lost() -> None:
    async def main() -> None:
        world = Registers()
        asking = [asyncio.create_task(world.directory.get("a")) for _ in range(3)]
        number = shard_of("a", 3)
        while number not in world.directory.ready:  # noqa: ASYNC110 -- this very turn is wanted
            await asyncio.sleep(0)
        late = asyncio.create_task(world.directory.get("a"))
        await asyncio.sleep(0)
        world.directory.resign(number)
        answers = await asyncio.gather(*asking, late, return_exceptions=True)
        assert all(isinstance(answer, KafkaError) and answer.code is ErrorCode.NOT_COORDINATOR for answer in answers)
        assert (await world.directory.get("a")).is_live

    virtual(main)


def test_a_state_machine_that_raised_is_loaded_again() -> None:
    async def main() -> None:
        world = Registers()
        shard = await world.directory.get("a")
        await shard.take("a", 9_000_000)
        with structlog.testing.capture_logs() as lines, pytest.raises(KafkaError) as refused:
            await shard.append([(b"x", b"unreadable")])
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and shard.is_lost
        assert "register_shard_lost" in [line["event"] for line in lines]
        with pytest.raises(KafkaError) as unloaded:  # its log holds what cannot be applied: nobody is answered from it
            await world.directory.get("a")
        assert unloaded.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    virtual(main)


def test_a_tick_that_raises_costs_the_shard_and_not_the_process() -> None:
    async def main() -> None:
        world = Registers()
        shard = await world.directory.get("a")

        def broken(now: Moment) -> None:
            raise MemoryError

        shard.tick = broken  # type: ignore[method-assign]
        await shard.take("a", 5_000)
        await asyncio.sleep(6)
        assert shard.is_lost and world.directory.find("a") is None
        await asyncio.sleep(0.1)
        assert set((await world.directory.get("a")).taken) <= {"a"}

    virtual(main)


def test_a_long_log_is_replaced_by_a_snapshot() -> None:
    async def main() -> None:
        world = Registers(records_max=10)
        shard = await world.directory.get("a")
        for number in range(25):
            await shard.take(f"name-{number}", 9_000_000)
        await asyncio.sleep(1)
        log = world.shards.logs[shard.number]
        assert log.snapshots and log.snapshots[-1].next_offset >= 10
        again = await world.restart().get("a")
        assert again.taken == {f"name-{number}": 9_000_000 for number in range(25)}

    virtual(main)


def test_an_owner_that_was_fenced_proves_nothing() -> None:
    async def main() -> None:
        world = Registers()
        shard = await world.directory.get("a")
        await shard.prove()
        world.shards.leader_epoch += 1
        await world.restart().get("a")
        with pytest.raises(KafkaError) as refused:
            await shard.prove()
        assert refused.value.code is ErrorCode.NOT_COORDINATOR and shard.is_lost

    virtual(main)


def test_only_an_unexpected_end_of_a_shard_is_a_warning() -> None:
    async def main() -> None:
        world = Registers()
        lost, moved = await world.directory.load(0), await world.directory.load(1)
        await world.directory.load(2)
        with structlog.testing.capture_logs() as lines:
            world.directory.resign(moved.number)
            await world.directory.close(snapshot_records_min=1)
        assert lost.is_lost and moved.is_lost
        assert [line for line in lines if line["log_level"] not in ("debug", "info")] == []
        shard = await world.restart().load(0)
        with structlog.testing.capture_logs() as lines:
            shard.lose()
        assert [(line["log_level"], line["event"]) for line in lines] == [("warning", "register_shard_lost")]
        assert world.metrics.lost_shards == 4

    virtual(main)


@pytest.mark.parametrize(
    ("code", "levels"),
    [(ErrorCode.NOT_LEADER_OR_FOLLOWER, ["info", "debug"]), (ErrorCode.KAFKA_STORAGE_ERROR, ["warning", "debug"])],
)
def test_a_shard_that_another_node_has_is_no_warning(code: ErrorCode, levels: list[str]) -> None:
    """While partitions move, clients ask a node that does not have the shard yet, or has it no more."""

    async def main() -> None:
        world = Registers()
        world.shards.error = KafkaError(code, "not here")
        with structlog.testing.capture_logs() as lines:
            for _ in levels:
                with pytest.raises(KafkaError):
                    await world.directory.load(0)
        told = [line["log_level"] for line in lines if line["event"] == "register_shard_not_loaded"]
        assert told == levels
        assert world.directory.reason_of(0) == "not here"

    virtual(main)


def test_a_shard_that_nobody_asked_for_is_waited_for_from_the_first_request_on() -> None:
    async def main() -> None:
        world = Registers()
        world.shards.gate = asyncio.Event()
        early = asyncio.create_task(world.directory.load(1, is_awaited=False))
        asked = asyncio.create_task(world.directory.load(2))
        await asyncio.sleep(0.01)
        assert world.shards.awaited == [2]
        requests = [asyncio.create_task(world.directory.load(1)) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert world.shards.awaited == [2, 1], "said once"
        world.shards.gate.set()
        assert len({await early, *[await one for one in requests]}) == 1
        assert (await asked).number == 2 and sorted(world.shards.opened) == [1, 2]
        world.directory.ready[1].release()
        again = await world.directory.load(1, is_awaited=False)
        assert again.number == 1 and world.shards.awaited == [2, 1], "a lost shard is waited for no more"

    virtual(main)
