"""Owners of one partition against each other: the real partition machine on a faulty store, without the Kafka protocol.

Owners follow each other every fraction of a second, each a process with the next leader epoch. Older ones are killed,
stand still at the worst moments and wake up later, hand over in order, or simply go on believing they own it. Segments
are small, so that every start, roll, rest, mend and cut is met many times. Some seeds lose power, and with it what was
not synced: then the partition has to go offline until an operator accepts the loss (rule 5).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bmq.broker.manager import PartitionManager
from bmq.broker.partition_states import Offline
from bmq.log.names import partition_directory
from bmq.log.partition_log import AppendResult
from bmq.log.store import Durability, StoreError
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import batches
from tests.fakes.opener import FakeOpener, FakeTurnRoom
from tests.fakes.store import FakeClient, FakeStore, Faults
from tests.fakes.store_writer import AppendFailure
from tests.simulation.aged_partition import AGED, AgedPartition, aged_settings
from tests.simulation.aged_topic import AgedKind
from tests.simulation.chances import Chances
from tests.simulation.cleaning_watch import CleaningHabits, CleaningWatch, HurtCleaners, watched_cleaning
from tests.simulation.clock import SimulatedClock
from tests.simulation.fault_rates import FaultRates, worsen
from tests.simulation.history import SHORTAGES, History, Violation
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.namespace_check import check_one_writer_per_epoch
from tests.simulation.node_losses import NodeLosses, find_shortage
from tests.simulation.outcome import Outcome
from tests.simulation.owner import PARTITION, Owner, WatchedClient
from tests.simulation.power_loss import damage_unsynced
from tests.simulation.process import Process
from tests.simulation.store_troubles import StoreTroubles
from tests.support.produced_batch import produced_batch

DIRECTORY = partition_directory(PARTITION)
BATCHES_PER_PRODUCER = 40
ROUNDS = 24
TIME_LIMIT_S = 240.0
CALM_LIMIT_S = 30.0
LONG_PAUSE_S = (5.0, 20.0)
OPERATOR_S = 0.1  # from an owner that went offline to the next one
_CODECS = (Compression.NONE, Compression.NONE, Compression.LZ4)
_RETRIED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    *SHORTAGES,
)


@dataclass(slots=True)
class Batch:
    sequence: int
    values: list[bytes]
    data: bytes
    is_acks_all: bool


@dataclass(slots=True)
class Attempt:
    """One go at sending all that is not acknowledged; answers to an older one may still come."""

    answered: int = 0
    failed: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Owners:
    """One seed's history."""

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        self.seed = seed
        self.rates = rates.draw(self._dice("rates"))
        self._is_looking_inside = is_looking_inside
        self.loop = VirtualTimeLoop(time_limit_s=TIME_LIMIT_S)
        self.loop.expected_failures = (AppendFailure,)
        self.chances = Chances.of(self._dice("chances"))
        self.store = FakeStore(self._dice("store"), self.chances.faults)
        worsen(self.store.faults, self.rates)
        self._troubles = StoreTroubles(self.store, self._dice("troubles"), self.rates)
        self.history = History()
        self.outcome = Outcome(seed)
        self.owners: list[Owner] = []
        self.reported_high_watermark = 0
        self.power_losses = 0  # answers from before the last one never arrive
        self.is_loss_possible = False  # power was lost, and nobody has owned the partition since
        self.losses_accepted = 0
        self._post = self._dice("post")
        self._worst = self._dice("worst moments")
        self.nodes = NodeLosses(self.loop, self.store, self.outcome, self._dice("nodes"), away_s=2.0)
        self._is_calm = False
        # Padding counts as bytes that are kept, and nobody outside can tell how much of it there is.
        is_padded = self.chances.power_loss > 0
        aged_kind = AgedKind.of(self._dice("aged"), self.rates, has_sizes=not is_padded)
        self._aged: AgedPartition | None = None
        if aged_kind is not None:
            self.chances.settings = aged_settings(self.chances.settings)
            self._aged = AgedPartition(
                aged_kind, self.chances, self.somebody, self.to, self.back, self._dice("aged steps"), self.outcome
            )
        self._watch_of_cleaning: CleaningWatch[Owner] = CleaningWatch(self.outcome)
        self._cleaning_habits = CleaningHabits.of(self._dice("cleaning"))
        self._hurt_cleaners = HurtCleaners(self.rates["hurt_cleaners"], self._dice("hurt cleaners"), self._hurt)
        self._watch_of_cleaning.on_group = self._hurt_cleaners

    def _dice(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed} owners {purpose}")

    # --- owners

    @property
    def newest(self) -> Owner:
        return self.owners[-1]

    def appoint(self, floor: int | None = None) -> Owner:
        """Tell a new process to own the partition at the next epoch."""
        number = len(self.owners) + 1
        process = Process(self.loop, f"owner-{number}")
        owner = Owner(process, number, self.floor() if floor is None else floor, self.store.counts.damaged_reads)
        client = WatchedClient(self.store, process.name, lambda path: self._created(owner, path))
        self.store.clients.append(client)
        owner.client = client
        process.on_kill(client.kill)
        self.owners.append(owner)
        self.outcome.takeovers += 1
        process.spawn(self._own(owner, client))
        return owner

    def floor(self) -> int:
        """The highest high watermark anybody can know of."""
        history = self.history
        known = [self.reported_high_watermark]
        known += (offset + 1 for _, offset in history.acknowledged)
        known += (offset + 1 for _, offset in history.consumed)
        return max(known)

    async def _own(self, owner: Owner, client: FakeClient) -> None:
        dice = self._dice(owner.process.name)
        holder = f"{owner.process.name}-{dice.getrandbits(32):08x}"
        owner.manager = manager = PartitionManager(
            client, holder, SimulatedClock(self.loop), dice, self.chances.settings
        )
        openings = self._dice(f"openings {owner.leader_epoch}")
        manager.context.opener = FakeOpener(self.loop, openings)
        manager.context.turn_room = FakeTurnRoom(openings, share=0.7)  # type: ignore[assignment]
        manager.assign(PARTITION, owner.leader_epoch, "events", self.chances.config, owner.floor)
        self._assign_aged(owner, manager, client)
        while True:
            try:
                log = await manager.leader_of(PARTITION)
                break
            except KafkaError as error:
                if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    return
                if isinstance(owner.runtime and owner.runtime.state, Offline):
                    self._went_offline(owner)
                    return
        start = log.inspect().start.recovered
        assert start is not None
        if start.end_offset < self.floor() and owner.floor == 0 and self.is_loss_possible:
            self._forgive(start.end_offset)
        self.is_loss_possible = False
        owner.log = log

    def _assign_aged(self, owner: Owner, manager: PartitionManager, client: FakeClient) -> None:
        if self._aged is None:
            return
        self._aged.assign(manager, owner.leader_epoch)
        if self._aged.kind.terms.is_compacted:
            dice = self._dice(f"cleaning {owner.leader_epoch}")
            manager.use_cleaning(
                watched_cleaning(owner, client, self._watch_of_cleaning, self._cleaning_habits, dice, chunk_bytes=1_024)
            )

    def _hurt(self, owner: Owner) -> None:
        """In the middle of a compaction; another one follows it."""
        if self._is_calm or not owner.process.is_alive or owner.process.is_paused:
            return
        self.outcome.cleaners_hurt += 1
        if self._worst.random() < 0.5:
            self.kill(owner)
        else:
            self.pause(owner)
        if owner is self.newest:
            self.appoint()

    def _went_offline(self, owner: Owner) -> None:
        if owner.floor > self.floor():
            if owner is self.newest:  # a loss was accepted after it was appointed
                self.loop.call_later(OPERATOR_S, self._appoint_after, owner, context=self.store.context)
            return
        if not self.is_loss_possible:
            if self.store.counts.damaged_reads == owner.damaged_reads_before:
                raise Violation(f"epoch {owner.leader_epoch} went offline though the store lost nothing")
            if owner is self.newest:
                self.loop.call_later(OPERATOR_S, self._appoint_after, owner, context=self.store.context)
            return
        if owner is self.newest:
            # The operator accepts the loss.
            self.loop.call_later(OPERATOR_S, self._appoint_after, owner, 0, context=self.store.context)

    def _appoint_after(self, owner: Owner, floor: int | None = None) -> None:
        """An operator starts it once more: what was unreadable may be readable again."""
        if owner is self.newest:
            self.appoint(floor)

    def _forgive(self, end_offset: int) -> None:
        """An operator accepted that the log ends here."""
        self.losses_accepted += 1
        self.outcome.losses_accepted += 1
        history = self.history
        for promises in (history.acknowledged, history.consumed):
            for place in [place for place in promises if place[1] >= end_offset]:
                del promises[place]
        self.reported_high_watermark = min(self.reported_high_watermark, end_offset)

    def _created(self, owner: Owner, path: str) -> None:
        """The worst moments to stand still: between making a file and connecting it (rule 7), and soon after."""
        if self._is_calm or not path.endswith(".log") or owner.process.is_paused:
            return
        if self._worst.random() < self.chances.pause_at_create:
            # Or a little later, when it is connected and waits for its turn (rule 3).
            delay_s = self._worst.choice((0.0, 0.004, 0.03)) * self._worst.random()
            if delay_s:
                self.loop.call_later(delay_s, self._overtake, owner, context=self.store.context)
            else:
                self._overtake(owner)

    def pause(self, owner: Owner) -> None:
        if not owner.process.is_alive or owner.process.is_paused:
            return
        assert owner.client is not None
        owner.process.pause()
        owner.client.pause()
        self.outcome.pauses += 1
        duration_s = self._worst.choice((0.05, 0.3, 4.0)) * self._worst.random()
        if self._worst.random() < self.rates["long_pauses"] * 0.1:
            duration_s = self._worst.uniform(*LONG_PAUSE_S)
            self.outcome.long_pauses += 1
        self.loop.call_later(duration_s, self._wake, owner, context=self.store.context)

    def _wake(self, owner: Owner) -> None:
        assert owner.client is not None
        owner.client.resume()
        owner.process.resume()

    def kill(self, owner: Owner) -> None:
        if owner.process.is_alive:
            owner.process.kill()
            self.outcome.kills += 1

    # --- messages

    def to(self, owner: Owner, deliver: Callable[[], None]) -> None:
        """A request: it arrives when the process can take it, or never."""
        if owner.process.is_alive:
            self.loop.call_later(self._post.uniform(0.0001, 0.003), deliver, context=owner.process.context())

    def back(self, deliver: Callable[[], None]) -> None:
        """An answer on its way to a client."""
        power_losses = self.power_losses

        def arrive() -> None:
            if power_losses == self.power_losses:
                deliver()

        self.loop.call_later(self._post.uniform(0.0001, 0.003), arrive, context=self.store.context)

    def somebody(self, dice: random.Random) -> Owner:
        """The newest owner, now and then one of those before it: metadata is a hint."""
        if dice.random() < 0.75:
            return self.newest
        return dice.choice(self.owners[-4:])

    # --- producers

    async def produce(self, number: int) -> None:
        """Idempotent, several batches on their way, everything not acknowledged is sent again after a while."""
        dice, codecs = self._dice(f"producer {number}"), self._dice(f"codecs {number}")
        left, count, life = BATCHES_PER_PRODUCER, 0, 0
        is_acks_all = number == 1 or dice.random() < 0.5
        while left > 0:
            life += 1
            loss = self.losses_accepted
            sequence = 0
            unacknowledged: list[Batch] = []
            while (left > 0 or unacknowledged) and loss == self.losses_accepted:
                while left > 0 and len(unacknowledged) < 4 and dice.random() < 0.7:
                    values = []
                    for _ in range(dice.randint(1, 3)):
                        count += 1
                        values.append(f"p{number}-{count}:".encode() + b"." * dice.randrange(200))
                    data = encode_batch(
                        [Record(None, value, timestamp_ms=1_700_000_000_000) for value in values],
                        producer_id=number * 1000 + life,
                        producer_epoch=0,
                        base_sequence=sequence,
                        compression=codecs.choice(_CODECS),
                    )
                    self.history.sent.update(values)
                    unacknowledged.append(Batch(sequence, values, bytes(data), is_acks_all))
                    sequence += len(values)
                    left -= 1
                if unacknowledged:
                    await self._send(dice, unacknowledged)
                await asyncio.sleep(dice.expovariate(80))

    async def _send(self, dice: random.Random, unacknowledged: list[Batch]) -> None:
        attempt, owner = Attempt(), self.somebody(dice)
        sent = tuple(unacknowledged)

        def answered(batch: Batch, result: AppendResult) -> None:
            attempt.answered += 1
            if result.error_code is ErrorCode.NONE:
                self.history.acknowledge(0, result.base_offset, batch.values)
                if batch in unacknowledged:
                    unacknowledged.remove(batch)
            else:
                if result.error_code not in _RETRIED and not attempt.failed and not attempt.done.is_set():
                    self._judge(result.error_code, batch, owner)
                attempt.failed = True
            if attempt.answered == len(sent):
                attempt.done.set()

        def arrive() -> None:
            for batch in sent:
                self._append(owner, batch, answered)

        self.to(owner, arrive)
        try:
            # Sometimes too impatient: then a duplicate meets its original on the way (rule 11).
            async with asyncio.timeout(dice.choice((0.004, 0.02, 0.3))):
                await attempt.done.wait()
        except TimeoutError:
            attempt.done.set()  # what still comes is of a connection that was given up

    def _append(self, owner: Owner, batch: Batch, answered: Callable[[Batch, AppendResult], None]) -> None:
        def done(result: AppendResult) -> None:
            self.history.shortages += result.error_code in SHORTAGES
            violation = None
            if result.error_code is ErrorCode.NONE and batch.is_acks_all:
                replicas_min = min(self.chances.config.min_insync_replicas, self.store.nodes.wanted)
                violation = find_shortage(self.store, DIRECTORY, batch.values[-1], replicas_min)

            def arrive() -> None:
                if violation is not None:
                    raise violation
                answered(batch, result)

            self.back(arrive)

        if owner.log is None:
            done(AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            records = memoryview(bytearray(batch.data))
            owner.log.append(produced_batch(owner.log.topic_partition, records, done, is_acks_all=batch.is_acks_all))

    def _judge(self, code: ErrorCode, batch: Batch, owner: Owner) -> None:
        """Out of order is what an owner says that was told of an earlier batch after a later one (another connection), or
        never was: a stale one, or one that lost data. Nothing else may be heard here."""
        if code not in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise Violation(f"epoch {owner.leader_epoch} answered {code.name} for sequence {batch.sequence}")

    # --- readers

    async def read(self, number: int) -> None:
        """Reads on from its own place, now and then from somewhere else, from whoever is asked."""
        dice = self._dice(f"reader {number}")
        place = 0
        while True:
            await asyncio.sleep(dice.expovariate(60))
            place = min(place, self.floor()) if dice.random() < 0.9 else dice.randint(0, self.floor())
            owner = self.somebody(dice)
            if owner.process.is_alive:
                owner.process.spawn(self._read_at(owner, place))
            place = dice.choice((place, self.floor()))

    async def _read_at(self, owner: Owner, offset: int) -> None:
        log = owner.log
        if log is None:
            return
        views = log.tail_read(offset, 1000, log.high_watermark)
        data = b"".join(views) if views else b""
        if not data:
            try:
                found = await log.read(offset, 1000)
            except BmqError:
                return
            if found is None:
                return
            data = bytes(found.data)
        records = [
            (record.offset, record.value or b"")
            for position, _ in batches(data)
            for record in decode_records(data, position)
        ]

        def tell() -> None:
            for place, value in records:
                self.history.consume(0, place, value)

        self.back(tell)

    async def ask(self) -> None:
        """Answers that must not be stale (rule 15): the log's end after a proof of ownership begun after the question."""
        dice = self._dice("asker")
        while True:
            await asyncio.sleep(dice.expovariate(100))
            owner = dice.choice(self.owners[-4:])
            known = max((offset + 1 for _, offset in self.history.acknowledged), default=0)
            self._ask(owner, known, self.losses_accepted)

    def _ask(self, owner: Owner, known: int, losses: int) -> None:
        async def answer() -> None:
            log = owner.log
            if log is None:
                return
            try:
                await log.prove_ownership()
            except (StoreError, BmqError):
                return
            end_offset = log.high_watermark

            def check() -> None:
                self.outcome.answers += 1
                if end_offset < known and losses == self.losses_accepted:
                    raise Violation(
                        f"epoch {owner.leader_epoch} proved ownership and said {end_offset}, but {known} was known"
                    )

            self.back(check)

        def arrive() -> None:
            self.loop.create_task(answer())

        self.to(owner, arrive)

    # --- what goes wrong

    async def chaos(self) -> None:
        dice = self._dice("chaos")
        for _ in range(ROUNDS):
            await asyncio.sleep(dice.expovariate(1 / self.chances.round_s))
            if dice.random() < self.chances.power_loss:
                self._lose_power(dice)
                await asyncio.sleep(0.3)
                continue
            self._troubles.maybe_begin()
            if dice.random() < self.chances.node_loss:
                self.nodes.lose_some()
            old = self.newest
            kind = dice.choice(("kill", "kill", "pause", "pause", "rival", "two", "hand over", "hand over", "break"))
            if kind == "break":
                for writer in tuple(old.client.writers if old.client else ()):
                    if dice.random() < 0.5:
                        writer.break_off()
                continue
            if kind == "kill":
                self.kill(old)
            elif kind == "pause":
                self.pause(old)
            elif kind == "hand over":
                await self._hand_over(old)
            elif kind == "two":
                self._delay_start(self.appoint(), dice)
            if self.newest is old or kind == "two":
                self._delay_start(self.appoint(), dice)

    def _delay_start(self, owner: Owner, dice: random.Random) -> None:
        """Let it stand still somewhere in its start, and another one come first."""
        if dice.random() < self.chances.pause_at_start:
            self.loop.call_later(
                dice.choice((0.001, 0.03)) * dice.random(), self._overtake, owner, context=self.store.context
            )

    def _overtake(self, owner: Owner) -> None:
        if not self._is_calm and owner.process.is_alive:
            self.pause(owner)
            if owner is self.newest:
                self.appoint()

    async def _hand_over(self, owner: Owner) -> None:
        manager = owner.manager
        if manager is None or not owner.process.is_alive or owner.process.is_paused:
            return
        self.outcome.hand_overs += 1
        keys = (PARTITION,) if self._aged is None else (PARTITION, AGED)
        await asyncio.wait([owner.process.spawn(manager.unassign(key)) for key in keys], timeout=0.5)

    async def watch(self) -> None:
        """Heartbeats: what owners report, their budgets, and a new owner for a partition that has none."""
        while True:
            await asyncio.sleep(0.05)
            if self._is_calm:
                self.store.replicate()
            for owner in self.owners:
                self._look_at(owner)
                if self._aged is not None and self._is_looking_inside:
                    self._aged.check_owner(owner, self.store.counts)
            if self._is_aged_lost():
                self.appoint()
            runtime = self.newest.runtime
            has_ended = runtime is not None and runtime.state.is_final
            if runtime is not None and isinstance(runtime.state, Offline):
                has_ended = self.newest.log is not None  # it served before; an operator starts it again
                if has_ended and not self.store.counts.raised_appends:
                    raise Violation(f"epoch {self.newest.leader_epoch} went offline while it was serving")
            if has_ended and self.newest.process.is_alive:
                self.appoint()
            if self._is_looking_inside:
                check_one_writer_per_epoch(self.store.namespace)
            if self.loop.failures:
                raise Violation(_sentence(self.loop.failures[0]))

    def _is_aged_lost(self) -> bool:
        """Whether the newest owner serves the other partition no more: an operator starts it again."""
        manager = self.newest.manager
        runtime = None if manager is None else manager.runtime(AGED)
        return self.newest.process.is_alive and runtime is not None and isinstance(runtime.state, Offline)

    def _look_at(self, owner: Owner) -> None:
        log, manager, process = owner.log, owner.manager, owner.process
        if log is None or manager is None or not process.is_alive:
            return
        cache, budget = manager.tail_cache, manager.budget
        if self._is_looking_inside and cache.bytes_used > cache.bytes_max:
            raise Violation(f"the tail cache holds {cache.bytes_used} bytes of {cache.bytes_max}")
        if self._is_looking_inside and budget.bytes_used > budget.refuse_bytes_max:
            raise Violation(f"{budget.bytes_used} bytes are being appended, {budget.refuse_bytes_max} are allowed")
        if self._is_looking_inside and log.high_watermark < owner.high_watermark:
            raise Violation(f"the high watermark went back from {owner.high_watermark} to {log.high_watermark}")
        owner.high_watermark = log.high_watermark
        if log.is_owning and not process.is_paused:
            self.reported_high_watermark = max(self.reported_high_watermark, log.high_watermark)

    def _lose_power(self, dice: random.Random) -> None:
        self.outcome.power_losses += 1
        self.power_losses += 1
        self.is_loss_possible = self.chances.config.durability is Durability.HFLUSH
        self.store.crash_machine()
        for owner in self.owners:
            owner.process.kill()
        self.nodes.all_return()
        if self.is_loss_possible:
            damage_unsynced(self.store.namespace, DIRECTORY, dice)
        self.appoint()

    # --- the run

    async def run(self) -> None:
        self.appoint()
        chaos = self.loop.create_task(self.chaos())
        works = [self.read(0), self.read(1), self.ask(), self.watch()]
        works += [] if self._aged is None else self._aged.works()
        others = [self.loop.create_task(work) for work in works]
        writing = asyncio.gather(*(self.produce(number) for number in (1, 2)))
        await self._first(writing, chaos, others, chaos)
        self._is_calm = True
        self._cleaning_habits.is_calm = self._hurt_cleaners.is_calm = True
        self.store.faults = Faults()
        self._troubles.end()
        self.nodes.all_return()
        if not writing.done():
            self.appoint()
            await self._first(writing, chaos, others, writing)
        for task in others:
            task.cancel()
        await self._check_end()

    async def _first(
        self,
        writing: asyncio.Future[list[None]],
        chaos: asyncio.Task[None],
        others: list[asyncio.Task[None]],
        wanted: asyncio.Future[Any],
    ) -> None:
        """Until `wanted` is done, or anything else fails."""
        while not wanted.done():
            everything: list[asyncio.Future[Any]] = [writing, chaos, *others]
            running = [task for task in everything if not task.done()]
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if self.loop.failures:
                raise Violation(_sentence(self.loop.failures[0]))

    async def _check_end(self) -> None:
        await asyncio.sleep(1.0)  # everything on its way arrives
        newest = self.newest
        for owner in self.owners:
            manager = owner.manager
            if (
                manager is not None
                and owner.process.is_alive
                and not owner.process.is_paused
                and manager.budget.bytes_used
                and self._is_looking_inside
            ):
                raise Violation(f"{manager.budget.bytes_used} bytes of the append budget were never given back")
        for owner in self.owners:
            owner.process.kill()
        last = self.appoint()
        assert last is not newest
        try:
            async with asyncio.timeout(CALM_LIMIT_S):
                while last.log is None:
                    await asyncio.sleep(0.05)
                    if last is not self.newest:
                        last = self.newest
        except TimeoutError:
            state = last.runtime.state_name if last.runtime else "nothing"
            raise Violation(f"the last owner did not start in {CALM_LIMIT_S} s; it is {state}") from None
        if self.loop.failures:
            raise Violation(_sentence(self.loop.failures[0]))
        records = await self.loop.create_task(self._read_all(last))
        if self._is_looking_inside:
            check_one_writer_per_epoch(self.store.namespace)
        if len(records) < self.reported_high_watermark:
            raise Violation(f"the log ends at {len(records)}, but {self.reported_high_watermark} was reported")
        self.history.check_final({0: records})
        if self._aged is not None:
            await self._aged.check_settled(last)
        _check_order([value for _, value in records])

    async def _read_all(self, owner: Owner) -> list[tuple[int, bytes]]:
        log = owner.log
        assert log is not None
        records: list[tuple[int, bytes]] = []
        end_offset = log.high_watermark
        while len(records) < end_offset:
            try:
                found = await log.read(len(records), 100_000)
            except BmqError as error:
                raise Violation(f"offset {len(records)} of {end_offset} cannot be read: {error}") from error
            if found is None:
                raise Violation(f"nothing at {len(records)} below the high watermark {end_offset}")
            before = len(records)
            for position, _ in batches(found.data):
                records += [(r.offset, r.value or b"") for r in decode_records(found.data, position)]
            if records[before][0] != before:
                raise Violation(f"asked for {before}, got {records[before][0]}")
        return records


def _sentence(failure: dict[str, object]) -> str:
    error = failure.get("exception")
    if isinstance(error, Violation):
        return str(error)
    return f"an exception nobody caught in {failure.get('process')}: {error!r} {failure.get('message')}"


def _check_order(values: list[bytes]) -> None:
    """A producer's records are in the order it sent them."""
    newest: dict[bytes, int] = {}
    for value in values:
        name, _, count = value.partition(b":")[0].partition(b"-")
        if int(count) <= newest.get(name, 0):
            raise Violation(f"record {int(count)} of {name.decode()} follows record {newest[name]}")
        newest[name] = int(count)
