"""One seed, one history: the real server on a faulty store, killed, paused and cut off, under real-looking clients.

Servers come one after another, each a new process on a host of its own with the next node incarnation. A paused one wakes
up later as a zombie. Everybody is told where the newest server is; what an older one still says has to be true or refused.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from bmq.cli.standalone import StandaloneServer

from bmq.cli.settings import load_settings
from tests.fakes.store import FakeClient, FakeStore, Faults
from tests.simulation.clients import (
    Client,
    Consumer,
    Disconnected,
    Producer,
    Unhappy,
    create_topic,
    fetch,
    latest_offset,
)
from tests.simulation.clock import SimulatedClock
from tests.simulation.history import History, Violation
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.simulation.outcome import Outcome
from tests.simulation.process import Process

PARTITIONS = 3
BATCHES_PER_PRODUCER = 40
_TIME_LIMIT_S = 900.0
_PORT = 9092


@dataclass(slots=True)
class ServerProcess:
    process: Process
    client: FakeClient
    address: tuple[str, int] | None = None
    server: StandaloneServer | None = None
    starting: asyncio.Task[Any] | None = field(default=None)


class Servers:
    """The hosts, the store and whoever serves at the moment."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.loop = VirtualTimeLoop(time_limit_s=_TIME_LIMIT_S)
        self.network = Network(self.loop, self._dice("network"))
        self.store = FakeStore(self._dice("store"), self._faults())
        self.history = History()
        self.outcome = Outcome(seed)
        self.servers: list[ServerProcess] = []

    def _dice(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed} {purpose}")

    def _faults(self) -> Faults:
        """Some seeds have a good store, some a slow one, some a bad one."""
        dice = self._dice("faults")
        mood = dice.choice(("good", "slow", "bad"))
        faults = Faults(request_s=(0.0002, 0.002), append_s=(0.0001, 0.001), recover_lease_s=(0.5, 3.0))
        if mood != "good":
            faults.append_s = (0.0001, 0.05)
            faults.request_s = (0.0002, 0.02)
        if mood == "bad":
            faults.unavailable_rate = 0.01
            faults.lost_reply_rate = 0.01
            faults.late_reply_rate = 0.01
            faults.half_takeover_rate = 0.1
            faults.recover_lease_rate = 0.1
            faults.break_writer_rate = 0.005
        return faults

    def address(self) -> tuple[str, int] | None:
        return self.servers[-1].address if self.servers else None

    def start_server(self) -> ServerProcess:
        number = len(self.servers)
        host = f"server-{number}"
        process = Process(self.loop, host)
        client = self.store.client(host)
        process.on_kill(client.kill)
        entry = ServerProcess(process, client)
        self.servers.append(entry)
        entry.starting = process.spawn(self._serve(entry, host, number))
        return entry

    async def _serve(self, entry: ServerProcess, host: str, number: int) -> None:
        loaded = load_settings({"listen": f"{host}:{_PORT}"}, None)
        dice = random.Random(f"{self.seed} server {number}")
        while True:
            server = StandaloneServer(loaded.settings, entry.client, SimulatedClock(self.loop), dice)
            entry.server = server
            try:
                entry.address = await server.start()
                return
            except Exception as error:
                # A server that cannot start exits; the person, or systemd, starts it again.
                await server.stop()
                await asyncio.sleep(0.5)
                if not self._is_newest(entry):
                    raise Disconnected("a newer server was started meanwhile") from error

    def _is_newest(self, entry: ServerProcess) -> bool:
        return self.servers[-1] is entry

    # --- what goes wrong
    async def chaos(self) -> None:
        dice = self._dice("chaos")
        while True:
            await asyncio.sleep(dice.expovariate(1 / 4))
            kind = dice.choice(("kill", "kill", "pause", "reset", "reset"))
            current = self.servers[-1]
            if current.address is None:
                continue
            if kind == "kill":
                current.process.kill()
                self.outcome.kills += 1
                await asyncio.sleep(dice.uniform(0.01, 1.0))
                self._replace()
            elif kind == "pause":
                current.process.pause()
                current.client.pause()
                self.outcome.pauses += 1
                self._replace()
                self.loop.call_later(dice.uniform(0.1, 20), self._wake, current)
            else:
                self.outcome.resets += self.network.reset_some(dice.randint(1, 3))

    def _replace(self) -> None:
        self.outcome.takeovers += 1
        self.start_server()

    def _wake(self, entry: ServerProcess) -> None:
        entry.client.resume()
        entry.process.resume()

    # --- the run
    async def run(self) -> None:
        self.start_server()
        admin = Client("admin", self.address, self._dice("admin"))
        await create_topic(admin, PARTITIONS, {"segment.bytes": str(1024 * 1024)})
        producers = [
            Producer(f"p{n}", self.address, self._dice(f"producer {n}"), self.history, PARTITIONS) for n in range(2)
        ]
        consumers = [
            Consumer(f"c{n}", self.address, self._dice(f"consumer {n}"), self.history, PARTITIONS) for n in range(2)
        ]
        reading = [self.loop.create_task(consumer.run()) for consumer in consumers]
        chaos = self.loop.create_task(self.chaos())
        writing = [self.loop.create_task(producer.run(BATCHES_PER_PRODUCER)) for producer in producers]
        written = asyncio.gather(*writing)
        done, _ = await asyncio.wait([written, *reading, chaos], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
        for task in [*reading, chaos]:
            task.cancel()
        await self._calm()
        self.history.check_final({partition: await self._read_all(admin, partition) for partition in range(PARTITIONS)})

    async def _calm(self) -> None:
        """Faults end, zombies are gone, one last server starts from what is stored."""
        self.store.faults = Faults()
        self.network.heal()
        for entry in self.servers:
            entry.process.kill()
        self._replace()

    async def _read_all(self, client: Client, partition: int) -> list[tuple[int, bytes]]:
        async def attempt() -> list[tuple[int, bytes]]:
            records: list[tuple[int, bytes]] = []
            end = await latest_offset(client, partition)
            while len(records) < end:
                found, _ = await fetch(client, partition, len(records), 1000)
                if not found:
                    raise Violation(f"nothing at {len(records)} of {partition} below the high watermark {end}")
                records += found
            return records

        return await client.until_done(attempt)
