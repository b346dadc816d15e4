"""Rule 23: an exception while an effect is performed is that partition's end, and nobody is told of a success it lacks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from bmq.broker import partition_events as ev
from bmq.broker import runtime as runtime_module
from bmq.broker.append_batcher import AppendBatcher
from bmq.broker.in_flight_batches import InFlightBatches
from bmq.broker.log_writes import LogWrites
from bmq.broker.manager import PartitionManager
from bmq.broker.own_segment import OwnSegment
from bmq.broker.partition_machine import step
from bmq.broker.partition_reports import PartitionReports
from bmq.broker.partition_retention import PartitionRetention
from bmq.broker.partition_states import Offline, Writing
from bmq.broker.runtime import _PERFORMERS, PartitionRuntime
from bmq.broker.segment_files import SegmentLifecycle
from bmq.broker.tail_cache import PartitionTail
from bmq.log.index_cache import IndexCache
from bmq.log.latency import LatencyHistogram
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import AppendResult, TopicPartition
from bmq.log.producer_state import ProducerStates
from bmq.log.segment_index import IndexBuilder
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.store import Faults
from tests.fakes.store_writer import FakeWriter
from tests.support.gate_share import few_in_gate
from tests.support.produced_batch import produced_batch
from tests.unit.broker.world import CONFIG, KEY, Owner, World, append, batch_of, produce, read_all, virtual

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

NEIGHBOUR = TopicPartition(UUID(int=8), 0)
SMALL = replace(CONFIG, segment_bytes=1000, segment_idle_close_ms=3_000)
ANSWER_S_MAX = 120.0
SLOW = Faults(append_s=(0.001, 0.004), request_s=(0.0005, 0.002))


class Bug(Exception):
    """What a mistake in our own code raises."""


@dataclass
class Injection:
    """Raises once: at the `nth` call, before it does anything or after it has done it. `count`: calls so far."""

    is_before: bool
    nth: int
    error: BaseException
    count: int = 0
    is_over: bool = False

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.count += 1
            if self.is_over or self.count != self.nth:
                return real(*args, **options)
            if not self.is_before:
                real(*args, **options)
            for argument in args:
                if asyncio.iscoroutine(argument) and self.is_before:
                    argument.close()
            raise self.error

        return call


class Ledger:
    """What was sent to one partition by a producer with sequence numbers, and what was acknowledged at which offset."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.sent = 0
        self.answers: list[asyncio.Future[AppendResult]] = []
        self.acknowledged: dict[bytes, int] = {}

    def send(self, log: PartitionRuntime) -> asyncio.Future[AppendResult]:
        value = b"value %d of %d " % (self.sent, self.producer_id) * 5
        data = batch_of(value, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.sent)
        self.sent += 1
        answer = append(log, data)
        self.answers.append(answer)
        answer.add_done_callback(lambda done: self._note(value, done))
        return answer

    def _note(self, value: bytes, done: asyncio.Future[AppendResult]) -> None:
        if not done.cancelled() and done.result().error_code is ErrorCode.NONE:
            self.acknowledged[value] = done.result().base_offset

    async def all_answered(self) -> None:
        if self.answers:
            _, late = await asyncio.wait(self.answers, timeout=ANSWER_S_MAX)
            assert not late, f"{len(late)} produces hang"


def check_kept(ledger: Ledger, records: list[tuple[int, bytes | None]]) -> None:
    values = [value for _, value in records]
    assert len(set(values)) == len(values), "a record is there twice"
    places = {value: offset for offset, value in records}
    for value, offset in ledger.acknowledged.items():
        assert places.get(value) == offset, (value, offset, places.get(value))


async def a_life(world: World, owner: Owner, victim: Ledger, neighbour: Ledger) -> None:
    """What makes an owner perform each effect there is; both partitions are written in the same turns."""
    logs = [await started(owner, key) for key in (KEY, NEIGHBOUR)]
    pairs = [(log, ledger) for log, ledger in zip(logs, (victim, neighbour), strict=True) if log is not None]

    async def some(count: int) -> None:
        answers = [ledger.send(log) for _ in range(count) for log, ledger in pairs]
        await asyncio.wait(answers, timeout=ANSWER_S_MAX)

    for _ in range(3):
        await some(6)  # rolls
    await asyncio.sleep(6)  # idle: the segments are closed
    await some(2)
    world.store.faults.break_writer_rate = 1.0
    waiting = asyncio.ensure_future(some(2))
    await asyncio.sleep(0.01)
    world.store.faults.break_writer_rate = 0.0
    await waiting  # mended
    world.store.capacity_bytes = world.store.namespace.used_bytes  # full: refused, and tried again
    await some(2)
    await asyncio.sleep(2)
    world.store.capacity_bytes = None
    await asyncio.sleep(5)
    for ledger in (victim, neighbour):
        ledger.sent -= 2  # they were refused for good, so the same sequence numbers come again
    waiting = asyncio.ensure_future(some(3))
    await asyncio.sleep(0)
    await waiting
    for log, ledger in pairs:
        ledger.send(log)  # on their way while the owner stops
    await owner.manager.close()


async def started(owner: Owner, key: TopicPartition) -> PartitionRuntime | None:
    try:
        return await owner.manager.leader_of(key)
    except KafkaError:
        return None  # its start failed, and said so


@pytest.fixture(autouse=True)
def log_lines() -> Iterator[list[Any]]:
    """Kept, not printed: a traceback for each life would take most of the time."""
    with capture_logs() as lines:
        yield lines


async def a_failing_life(injection: Injection) -> None:
    world = World(0, SLOW)
    owner = world.owner(SMALL)
    owner.manager.assign(NEIGHBOUR, 1, "neighbour", SMALL)
    victim, neighbour = Ledger(1), Ledger(2)
    await a_life(world, owner, victim, neighbour)
    await victim.all_answered()
    await neighbour.all_answered()
    assert owner.manager.budget.bytes_used == 0
    runtimes = owner.manager.runtimes()
    assert {runtime.topic_partition for runtime in runtimes} == {KEY, NEIGHBOUR}
    assert all(runtime.started.done() and runtime.ended.done() for runtime in runtimes)
    ended_badly = [runtime for runtime in runtimes if isinstance(runtime.state, Offline)]
    assert len(ended_badly) <= 1, "one partition's failure ended another one"
    injection.is_over = True
    world.calm()
    heir = world.owner(SMALL)
    heir.manager.assign(NEIGHBOUR, 2, "neighbour", SMALL)
    for key, ledger in ((KEY, victim), (NEIGHBOUR, neighbour)):
        log = await heir.manager.leader_of(key)
        check_kept(ledger, await read_all(log))
        if not any(runtime.topic_partition == key for runtime in ended_badly):
            assert len(ledger.acknowledged) >= 20, "the neighbour was held up"
        answer = await append(log, batch_of(b"and on it goes"))
        assert answer.error_code is ErrorCode.NONE
    await heir.manager.close()


def test_the_script_performs_every_effect() -> None:
    performed: set[type[ev.Effect]] = set()
    real = PartitionRuntime._perform

    def perform(self: PartitionRuntime, effects: tuple[ev.Effect, ...]) -> None:
        performed.update(map(type, effects))
        real(self, effects)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartitionRuntime, "_perform", perform)
        virtual(lambda: a_failing_life(Injection(True, 1, Bug())))
    assert performed >= set(_PERFORMERS) - {ev.CloseFile, ev.SaveRecoveredIndexes}, set(_PERFORMERS) - performed


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@few_in_gate("effect", _PERFORMERS, ids=lambda effect: effect.__name__, every=3, others=in_campaign)
def test_any_effect_may_fail(
    effect: type[ev.Effect], is_before: bool, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    injection = Injection(is_before, nth, MemoryError("no memory for one turn"))
    monkeypatch.setitem(_PERFORMERS, effect, injection.around(_PERFORMERS[effect]))
    virtual(lambda: a_failing_life(injection))


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (FakeWriter, "abandon"),
        (PartitionTail, "clear"),
        (SegmentLifecycle, "abandon"),
        (IndexCache, "drop_partition"),
        (PartitionManager, "_changed"),
    ],
)
def test_letting_go_may_fail_as_well(owner: type, name: str, is_before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a partition that ends for a failure: whatever else fails, everybody hears of it."""
    injection = Injection(True, 4, Bug("the first"))
    monkeypatch.setitem(_PERFORMERS, ev.Acknowledge, injection.around(_PERFORMERS[ev.Acknowledge]))
    second = Injection(is_before, 3 if name == "_changed" else 1, Bug("the second"))
    monkeypatch.setattr(owner, name, second.around(getattr(owner, name)))
    virtual(lambda: a_failing_life(injection))
    assert second.count >= second.nth


def calls(*names: tuple[type, str]) -> list[Any]:
    return [pytest.param(owner, name, id=f"{owner.__name__}.{name}") for owner, name in names]


@pytest.mark.parametrize("nth", [1, 4])
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@few_in_gate(
    ("owner", "name"),
    calls(
        (OwnSegment, "place"),
        (FakeWriter, "append"),
        (IndexBuilder, "add"),
        (PartitionTail, "append"),
        (ProducerStates, "place"),
        (ProducerStates, "synced"),
        (ProducerStates, "rollback"),
        (PartitionFiles, "begin_segment"),
        (PartitionFiles, "end_segment"),
        (LatencyHistogram, "observe"),
        (SegmentLifecycle, "end"),
        (InFlightBatches, "place"),
        (InFlightBatches, "take_synced"),
        (InFlightBatches, "take_waiting"),
        (InFlightBatches, "write_again"),
        (PartitionManager, "_changed"),
        (PartitionRuntime, "spawn"),
        (PartitionRuntime, "_changed"),
        (PartitionReports, "started"),
        (LogWrites, "_report_written"),
    ),
    every=3,
    others=in_campaign,
)
def test_any_call_inside_may_fail(
    owner: type, name: str, is_before: bool, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    injection = Injection(is_before, nth, Bug("a mistake of ours"))
    monkeypatch.setattr(owner, name, injection.around(getattr(owner, name)))
    virtual(lambda: a_failing_life(injection))
    assert injection.count >= 1, "the script never comes here"


@pytest.mark.parametrize("nth", [1, 9, 14, 30, 43, 71])
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("error", [Bug, asyncio.CancelledError])
def test_a_step_may_fail(
    error: type[BaseException], is_before: bool, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After: the state was changed in place, and what was to be done about it is not known to anybody."""
    injection = Injection(is_before, nth, error())
    monkeypatch.setattr(runtime_module, "step", injection.around(step))
    virtual(lambda: a_failing_life(injection))
    assert injection.count >= nth


def test_a_batch_that_was_never_written_is_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch, log_lines: list[Any]
) -> None:
    """The append before it is on its way, the one after it comes later: neither the failed one nor these are told of
    a success, though the store says that what was handed to it is durable."""

    async def main() -> None:
        world = World(0, Faults(append_s=(0.01, 0.01)))
        owner = world.owner()
        log = await owner.log()
        await produce(log, b"first")
        monkeypatch.setattr(FakeWriter, "abandon", lambda writer: None)  # it goes on, and reports its successes
        before = append(log, batch_of(b"on its way"))
        await asyncio.sleep(0.001)
        injection = Injection(True, 1, MemoryError("no memory for one turn"))
        monkeypatch.setattr(OwnSegment, "place", injection.around(OwnSegment.place))
        failed = append(log, batch_of(b"never written"))
        await asyncio.sleep(0.001)
        assert isinstance(log.state, Offline) and injection.count == 1
        assert owner.manager.ready(KEY) is None
        after = append(log, batch_of(b"too late"))
        await asyncio.sleep(5)
        codes = [answer.result().error_code for answer in (before, failed, after)]
        retry = ErrorCode.NOT_LEADER_OR_FOLLOWER  # as when it is fenced: what became of it is not known
        assert codes == [retry, retry, ErrorCode.KAFKA_STORAGE_ERROR]
        assert owner.manager.budget.bytes_used == 0
        assert owner.manager.counts.offline == 1
        (line,) = [line for line in log_lines if line["event"] == "partition_offline"]
        assert "no memory" in line["reason"] and line["log_level"] == "error"
        with pytest.raises(KafkaError, match="MemoryError: no memory for one turn"):
            await owner.log()
        heir = await world.owner().log()
        assert [value for _, value in await read_all(heir)] == [b"first", b"on its way"]

    virtual(main)


def test_a_partition_that_went_offline_starts_again_in_the_same_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next epoch, which is what a reassignment or an election gives it."""

    async def main() -> None:
        world = World(0, SLOW)
        owner = world.owner()
        log = await owner.log()
        await produce(log, b"kept")
        with monkeypatch.context() as patch:
            patch.setattr(FakeWriter, "append", Injection(False, 1, Bug()).around(FakeWriter.append))
            assert (await append(log, batch_of(b"unknown"))).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert isinstance(log.state, Offline)
        owner.manager.assign(KEY, 2, "topic", CONFIG, 1)
        again = await owner.log()
        assert isinstance(again.state, Writing)
        await produce(again, b"and on")
        values = [value for _, value in await read_all(again)]
        assert values[0] == b"kept" and values[-1] == b"and on"

    virtual(main)


def test_one_partitions_failure_leaves_the_others_of_its_turn_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(0, SLOW)
        owner = world.owner()
        owner.manager.assign(NEIGHBOUR, 1, "neighbour", CONFIG)
        log, neighbour = await owner.log(), await owner.manager.leader_of(NEIGHBOUR)
        monkeypatch.setattr(OwnSegment, "place", Injection(True, 1, Bug()).around(OwnSegment.place))
        answers = [append(log, batch_of(b"fails")), append(neighbour, batch_of(b"written in the same turn"))]
        assert [answer.error_code for answer in await asyncio.gather(*answers)] == [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NONE,
        ]

    virtual(main)


def test_callbacks_that_raise_keep_nobody_waiting() -> None:
    """Of a produce, of a waiting fetch, of whoever waits for room, of the listener for new owners."""

    async def main() -> None:
        world = World(0, SLOW, append_bytes_max=200)
        owner = world.owner()
        called: list[str] = []

        def raising(name: str, error: BaseException) -> Callable[..., None]:
            def callback(*_: object) -> None:
                called.append(name)
                raise error

            return callback

        owner.manager.on_owned(raising("owned", Bug()))
        log = await owner.log()
        errors = (Bug(), asyncio.CancelledError())
        for error in errors:
            log.append(produced_batch(log.topic_partition, memoryview(batch_of(b"x" * 100)), raising("done", error)))
        for error in errors:
            log.on_advance(raising("advance", error))
        log.on_advance(lambda: called.append("advance"))
        await asyncio.sleep(1)
        await produce(log, b"and on it goes")
        assert sorted(called) == ["advance"] * 3 + ["done"] * 2 + ["owned"]
        assert owner.manager.budget.bytes_used == 0

    virtual(main)


def test_a_check_that_fails_refuses_one_produce(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        owner = World(0, SLOW).owner()
        log = await owner.log()
        monkeypatch.setattr(ProducerStates, "check", Injection(True, 1, Bug()).around(ProducerStates.check))
        ledger = Ledger(1)
        assert (await ledger.send(log)).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
        ledger.sent = 0
        assert (await ledger.send(log)).error_code is ErrorCode.NONE
        assert owner.manager.budget.bytes_used == 0

    virtual(main)


def test_upkeep_and_retention_go_on_with_the_next_partition(
    monkeypatch: pytest.MonkeyPatch, log_lines: list[Any]
) -> None:
    async def main() -> None:
        world = World(0, SLOW)
        owner = world.owner()
        owner.manager.assign(NEIGHBOUR, 1, "neighbour", CONFIG)
        logs = [await owner.log(), await owner.manager.leader_of(NEIGHBOUR)]
        seen: list[PartitionRuntime] = []

        def upkeep(self: PartitionRuntime, now_s: float, now_ms: int) -> None:
            seen.append(self)
            raise Bug

        def expire_producers(self: PartitionRetention, now_ms: int) -> None:
            seen.append(next(log for log in logs if log.retention is self))
            raise Bug

        async def apply(self: PartitionRetention, now_ms: int, consumed_offset: int) -> None:
            expire_producers(self, now_ms)

        def is_due(self: PartitionRetention, now_ms: int) -> bool:
            return True

        monkeypatch.setattr(PartitionRuntime, "upkeep", upkeep)
        monkeypatch.setattr(PartitionRetention, "apply", apply)
        monkeypatch.setattr(PartitionRetention, "is_due", is_due)
        await asyncio.sleep(2.5)
        assert seen == logs * 2
        await owner.manager.apply_retention()
        assert seen == logs * 3
        monkeypatch.setattr(PartitionRetention, "expire_producers", expire_producers)
        await owner.manager.apply_retention()
        events = [line["event"] for line in log_lines if line["log_level"] == "error"]
        assert events == ["partition_upkeep_failed"] * 4 + ["partition_retention_failed"] * 4

    virtual(main)


def test_a_turn_that_cannot_be_scheduled_does_not_end_all_turns() -> None:
    class Full:
        def __init__(self) -> None:
            self.is_full = True
            self.ready: deque[Callable[..., None]] = deque()

        def time(self) -> float:
            return 0.0

        def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
            if self.is_full:
                raise MemoryError
            self.ready.append(callback)

    loop, written = Full(), []
    turns = AppendBatcher(loop)  # type: ignore[arg-type]
    with pytest.raises(MemoryError):
        turns.schedule(lambda: written.append("first"))
    loop.is_full = False
    turns.schedule(lambda: written.append("second"))
    loop.ready.popleft()()
    assert written == ["second"]
