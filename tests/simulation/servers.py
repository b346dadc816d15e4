"""Whole servers under clients: the real server on a faulty store, killed, paused, cut off and overtaken.

Servers come one after another, each a new process on a host of its own with the next node incarnation. A paused one wakes
up later as a zombie. Clients are told where the newest server is; visitors go on asking older ones, and what those still
say has to be true or refused.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from bmq.log.compaction import LogCleaning
from bmq.log.partition_log import TopicPartition
from bmq.server.settings import load_settings
from bmq.server.standalone import StandaloneServer
from tests.fakes.store import FakeClient, FakeStore, Faults
from tests.fakes.store_writer import AppendFailure
from tests.simulation.aged_topic import AgedKind, AgedTopic, broker_settings
from tests.simulation.cleaning_watch import CleaningHabits, CleaningWatch, HurtCleaners, watched_cleaning
from tests.simulation.clients import Client, Consumer, committed_offset, create_topic
from tests.simulation.clock import SimulatedClock
from tests.simulation.crowd import Crowd
from tests.simulation.fault_rates import FaultRates, worsen
from tests.simulation.history import History, Violation
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.namespace_check import check_one_writer_per_epoch
from tests.simulation.network import Network
from tests.simulation.node_losses import NodeLosses, find_shortage
from tests.simulation.outcome import Outcome
from tests.simulation.process import Process
from tests.simulation.store_troubles import StoreTroubles
from tests.simulation.until_done import until_done
from tests.simulation.visitors import Visitors, read_all

PARTITIONS = 3
BATCHES_PER_PRODUCER = 40
ROUNDS = 10
TIME_LIMIT_S = 600.0
LONG_PAUSE_S = (7.0, 40.0)
_PORT = 9092
_SETTINGS: dict[str, Any] = {
    "kafka": {"offsets.topic.num.partitions": "2"},
    "broker": {"tail_cache_bytes_max": 100_000, "append_bytes_max": 400_000, "upkeep_interval_s": 0.2},
    "fetch": {"read_cache_bytes_max": 400_000, "read_chunk_bytes": 65_536, "read_ahead_bytes_max": 200_000},
}


@dataclass(slots=True)
class ServerProcess:
    """`high_watermarks`: as last seen in this process."""

    process: Process
    client: FakeClient
    address: tuple[str, int] | None = None
    server: StandaloneServer | None = None
    last_error: str = ""
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)


class Servers:
    """The hosts, the store and whoever serves at the moment."""

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        self.seed = seed
        self.rates = rates.draw(self._dice("rates"))
        self._is_looking_inside = is_looking_inside
        self.rng = random.Random(seed)
        self.loop = VirtualTimeLoop(time_limit_s=TIME_LIMIT_S)
        self.loop.expected_failures = (AppendFailure,)
        self.network = Network(self.loop, self._dice("network"))
        self.network.reset_rate = self.rates["resets"]
        self.store = FakeStore(self._dice("store"), self._faults())
        worsen(self.store.faults, self.rates)
        self._troubles = StoreTroubles(self.store, self._dice("troubles"), self.rates)
        self._operator = self._dice("operator")
        self.history = History()
        self.outcome = Outcome(seed)
        self.nodes = NodeLosses(self.loop, self.store, self.outcome, self._dice("nodes"), away_s=6.0)
        self._dice_replication = self._dice("replication")
        self.replicas_min = self._dice("replicas").choice((1, 2, 2, 3))
        self.history.on_acknowledge = self._check_acknowledged
        self.servers: list[ServerProcess] = []
        self._aged_kind = AgedKind.of(self._dice("aged"), self.rates)
        self._watch_of_cleaning: CleaningWatch[ServerProcess] = CleaningWatch(self.outcome)
        self._cleaning_habits = CleaningHabits.of(self._dice("cleaning"))
        self._hurt_cleaners = HurtCleaners(self.rates["hurt_cleaners"], self._dice("hurt cleaners"), self._hurt)
        self._watch_of_cleaning.on_group = self._hurt_cleaners
        self._restarting: list[ServerProcess] = []

    def _dice(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed} {purpose}")

    def _faults(self) -> Faults:
        """Some seeds have a good store, some a slow one, some a bad one."""
        dice = self._dice("faults")
        mood = dice.choice(("good", "slow", "bad"))
        faults = Faults(request_s=(0.0002, 0.002), append_s=(0.0001, 0.001), recover_lease_s=(0.1, 1.0))
        if mood != "good":
            faults.append_s = (0.0001, 0.05)
            faults.request_s = (0.0002, 0.01)
        if mood == "bad":
            faults.unavailable_rate = 0.005
            faults.lost_reply_rate = 0.005
            faults.late_reply_rate = 0.005
            faults.half_takeover_rate = 0.1
            faults.recover_lease_rate = 0.1
            faults.break_writer_rate = 0.01
            faults.half_mend_rate = 0.1
        return faults

    @property
    def newest(self) -> ServerProcess:
        return self.servers[-1]

    def address(self) -> tuple[str, int] | None:
        return self.newest.address if self.servers else None

    def start_server(self) -> ServerProcess:
        number = len(self.servers)
        host = f"server-{number}"
        process = Process(self.loop, host)
        client = self.store.client(host)
        process.on_kill(client.kill)
        entry = ServerProcess(process, client)
        self.servers.append(entry)
        self.outcome.takeovers += 1
        process.spawn(self._serve(entry, host, number))
        return entry

    async def _serve(self, entry: ServerProcess, host: str, number: int) -> None:
        loaded = load_settings({"listen": f"{host}:{_PORT}", **self._settings()}, None)
        dice = self._dice(f"server {number}")
        while True:
            cleaning = self._cleaning(entry, self._dice(f"cleaning {number}"))
            server = StandaloneServer(loaded.settings, entry.client, SimulatedClock(self.loop), dice, cleaning=cleaning)
            entry.server = server
            try:
                entry.address = await server.start()
                return
            except Exception as error:
                # A server that cannot start exits; the person, or systemd, starts it again.
                entry.last_error = f"{type(error).__name__}: {error}"
                await server.stop()
                await asyncio.sleep(0.3)
                if entry is not self.newest:
                    return

    def _settings(self) -> dict[str, Any]:
        if self._aged_kind is None:
            return _SETTINGS
        return {**_SETTINGS, "broker": {**_SETTINGS["broker"], **broker_settings()}}

    def _cleaning(self, entry: ServerProcess, dice: random.Random) -> LogCleaning | None:
        if self._aged_kind is None or not self._aged_kind.terms.is_compacted:
            return None
        return watched_cleaning(entry, entry.client, self._watch_of_cleaning, self._cleaning_habits, dice)

    def _places(self) -> list[tuple[str, int]]:
        return [entry.address for entry in self.servers[-3:] if entry.address is not None]

    # --- what goes wrong

    async def chaos(self) -> None:
        dice = self._dice("chaos")
        for _ in range(ROUNDS):
            await asyncio.sleep(dice.expovariate(1 / 1.2))
            self._troubles.maybe_begin()
            kind = dice.choice(("kill", "kill", "kill", "pause", "pause", "rival", "stop", "reset", "node", "node"))
            current = self.newest
            if kind == "node":
                self.nodes.lose_some()
                continue
            if kind == "reset":
                self.outcome.resets += self.network.reset_some(dice.randint(1, 3))
                continue
            if kind == "kill":
                current.process.kill()
                self.outcome.kills += 1
                await asyncio.sleep(dice.uniform(0.0, 0.3))
            elif kind == "pause":
                is_long = dice.random() < self.rates["long_pauses"]
                self._pause(current)
                self.outcome.long_pauses += is_long
                self.loop.call_later(
                    dice.uniform(*LONG_PAUSE_S) if is_long else dice.uniform(0.1, 6), self._wake, current
                )
                if is_long and dice.random() < 0.5:
                    continue  # nobody takes its place: its clients wait, and leave
            elif kind == "stop" and current.server is not None and current.address is not None:
                self.outcome.hand_overs += 1
                stopping = current.process.spawn(current.server.stop())
                await asyncio.wait([stopping], timeout=dice.choice((0.0, 6.0)))
            self.start_server()

    def _pause(self, entry: ServerProcess) -> None:
        entry.process.pause()
        entry.client.pause()
        self.outcome.pauses += 1

    def _hurt(self, entry: ServerProcess) -> None:
        """In the middle of a compaction; another one takes its place."""
        if entry is not self.newest or not entry.process.is_alive or entry.process.is_paused:
            return
        self.outcome.cleaners_hurt += 1
        if self._operator.random() < 0.5:
            entry.process.kill()
            self.outcome.kills += 1
        else:
            self._pause(entry)
            self.loop.call_later(self._operator.uniform(0.1, 6), self._wake, entry)
        self.start_server()

    def _wake(self, entry: ServerProcess) -> None:
        entry.client.resume()
        entry.process.resume()

    # --- what must hold all the time

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            if self._dice_replication.random() < 0.02:
                self.store.replicate()
            self.check_now()
            server = self.newest.server
            if server is not None and server.manager is not None and server.manager.fenced():
                # An older server woke up in its start and took everything over: whoever looks after them starts one more.
                self.start_server()
            elif server is not None and (server.failed.done() or (server.manager and server.manager.unserved())):
                self._restart_later(self.newest)

    def _restart_later(self, entry: ServerProcess) -> None:
        """Partitions are offline, or it ended because its metadata is: an operator restarts the server."""
        if entry not in self._restarting:
            self._restarting.append(entry)
            self.loop.call_later(self._operator.uniform(0.2, 3.0), self._restart, entry)

    def _restart(self, entry: ServerProcess) -> None:
        if entry is self.newest:
            entry.process.kill()
            self.start_server()

    def _check_acknowledged(self, values: list[bytes]) -> None:
        violation = find_shortage(self.store, "topics", values[-1], min(self.replicas_min, self.store.nodes.wanted))
        if violation is not None:
            raise violation

    def check_now(self) -> None:
        if self.loop.failures:
            failure = self.loop.failures[0]
            raise Violation(
                f"an exception nobody caught in {failure.get('process')}: "
                f"{failure.get('exception')!r} {failure.get('message')}"
            )
        if not self._is_looking_inside:
            return
        check_one_writer_per_epoch(self.store.namespace)
        for entry in self.servers:
            if entry.process.is_alive and entry.server is not None:
                self._check_server(entry, entry.server)

    def _check_server(self, entry: ServerProcess, server: StandaloneServer) -> None:
        partitions = server.manager
        if partitions is None:
            return
        cache, budget = partitions.tail_cache, partitions.budget
        if cache.bytes_used > cache.bytes_max:
            raise Violation(f"the tail cache holds {cache.bytes_used} bytes of {cache.bytes_max}")
        if budget.bytes_used > budget.refuse_bytes_max:
            raise Violation(f"{budget.bytes_used} bytes are being appended, {budget.refuse_bytes_max} are allowed")
        for key, high_watermark in partitions.high_watermarks().items():
            before = entry.high_watermarks.get(key, 0)
            if high_watermark < before:
                raise Violation(f"the high watermark of {key} went back from {before} to {high_watermark}")
            entry.high_watermarks[key] = high_watermark

    # --- the run

    def _client(self, name: str, kind: Any, *more: Any) -> Any:
        return kind(name, self.address, self._dice(name), *more)

    async def run(self) -> None:
        self.start_server()
        watching = self.loop.create_task(self.watch())
        admin = Client("admin", self.address, self._dice("admin"))
        await create_topic(admin, PARTITIONS, self._topic_configs())
        crowd = Crowd(self._client, self.history, self._dice("crowd"), self.rates, PARTITIONS)
        visitors = Visitors(self.history, self.outcome, self._dice("visitors"), self._places, PARTITIONS)
        chaos = self.loop.create_task(self.chaos())
        aged = self._aged()
        works = [visitors.run(), *crowd.works(), *(aged.works() if aged is not None else ())]
        others = [self.loop.create_task(work) for work in works]
        writing = crowd.write(BATCHES_PER_PRODUCER)
        await until_done((writing, chaos), (visitors.failure, watching, *others))
        for task in others:
            task.cancel()
        visitors.stop()
        await self._calm()
        # The operator stays: what was damaged a moment ago may have taken a partition of the last server offline.
        reading = self.loop.create_task(self._read_everything(admin, crowd))
        await until_done((reading,), (watching,))
        watching.cancel()
        crowd.count(self.outcome)
        self.check_now()
        self.history.check_final(reading.result())
        if aged is not None:
            await self._check_aged(aged)
        await self._check_budgets()

    def _aged(self) -> AgedTopic | None:
        if self._aged_kind is None:
            return None
        return AgedTopic(self._aged_kind, self._client, self._places, self._dice("aged steps"), self.outcome)

    async def _check_aged(self, aged: AgedTopic) -> None:
        watching, checking = (self.loop.create_task(work) for work in (self.watch(), aged.check_settled()))
        await until_done((checking,), (watching,))
        watching.cancel()

    async def _read_everything(self, admin: Client, crowd: Crowd) -> dict[int, list[tuple[int, bytes]]]:
        """What every partition holds; what was committed is compared at once."""
        final = {partition: await read_all(admin, self.history, partition) for partition in range(PARTITIONS)}
        for partition in range(PARTITIONS):
            offset = await admin.until_done(lambda p=partition: committed_offset(admin, Consumer.GROUP, p))  # type: ignore[misc]
            self.history.fetched_commit(partition, offset, self.history.committed[partition])
        await admin.until_done(crowd.committer.check)
        return final

    def _topic_configs(self) -> dict[str, str]:
        return {
            "bmq.segment.idle.close.ms": self._dice("topic").choice(("300", "60000")),
            "min.insync.replicas": str(self.replicas_min),
        }

    async def _calm(self) -> None:
        """Faults end, zombies are gone, one last server starts from what is stored."""
        self._cleaning_habits.is_calm = self._hurt_cleaners.is_calm = True
        self.store.faults = Faults()
        self._troubles.end()
        self.nodes.all_return()
        self.network.reset_rate = 0.0
        self.network.heal()
        for entry in self.servers:
            entry.process.kill()
        self.start_server()

    async def _check_budgets(self) -> None:
        """Everything was answered, so nothing is on its way any more."""
        await asyncio.sleep(2.0)
        server = self.newest.server
        assert server is not None and server.manager is not None
        left = {"append budget": server.manager.budget.bytes_used, "requests": server.in_flight_bytes}
        if self._is_looking_inside and any(left.values()):
            raise Violation(f"bytes that nobody gave back: {left}")
