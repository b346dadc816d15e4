"""The simulation's own ground: virtual time, processes that stop dead, a network that keeps order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.loop import Deadlock, TimeLimit, VirtualTimeLoop
from tests.simulation.network import Network
from tests.simulation.process import Process

pytestmark = pytest.mark.simulation


WORLDS: list[VirtualTimeLoop] = []


@pytest.fixture(autouse=True)
def clean_up() -> Iterator[None]:
    yield
    while WORLDS:
        WORLDS.pop().discard()


def world(seed: int = 1, **limits: float) -> tuple[VirtualTimeLoop, Network]:
    loop = VirtualTimeLoop(**limits)
    WORLDS.append(loop)
    return loop, Network(loop, random.Random(seed))


def test_an_hour_passes_at_once() -> None:
    loop, _ = world(time_limit_s=4000)
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.time() == pytest.approx(3600)


def test_waiting_for_nobody_is_a_deadlock() -> None:
    loop, _ = world()
    with pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())


def test_endless_waiting_hits_the_time_limit() -> None:
    async def for_ever() -> None:
        for _ in range(1000):
            await asyncio.sleep(1)

    loop, _ = world(time_limit_s=100)
    with pytest.raises(TimeLimit):
        loop.run_until_complete(for_ever())


def test_a_killed_process_runs_nothing_more_not_even_finally() -> None:
    loop, _ = world()
    seen: list[str] = []

    async def work() -> None:
        try:
            while True:
                seen.append("work")
                await asyncio.sleep(1)
        finally:
            seen.append("finally")

    process = Process(loop, "a")

    async def main() -> None:
        process.spawn(work())
        await asyncio.sleep(2.5)
        process.kill()
        await asyncio.sleep(10)

    loop.run_until_complete(main())
    assert seen == ["work"] * 3


def test_a_paused_process_goes_on_later_in_order() -> None:
    loop, _ = world()
    seen: list[float] = []

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append(loop.time())

    process = Process(loop, "a")

    async def main() -> None:
        task = process.spawn(work())
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(10)
        process.resume()
        await asyncio.wait([task])

    loop.run_until_complete(main())
    assert seen == pytest.approx([1.0, 11.5, 12.5])


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
        await writer.drain()
    writer.close()


def served(loop: VirtualTimeLoop) -> tuple[Process, Process]:
    server, client = Process(loop, "server"), Process(loop, "client")

    async def serve() -> None:
        await asyncio.start_server(echo, "server", 9092)

    loop.run_until_complete(server.spawn(serve()))
    return server, client


def test_bytes_arrive_in_order_and_the_same_for_the_same_seed() -> None:
    def one(seed: int) -> tuple[bytes, float]:
        loop, _ = world(seed)
        _, client = served(loop)

        async def talk() -> bytes:
            reader, writer = await asyncio.open_connection("server", 9092)
            sent = b"".join(bytes([n]) * 100 for n in range(200))
            for start in range(0, len(sent), 333):
                writer.write(sent[start : start + 333])
            received = await reader.readexactly(len(sent))
            assert received == sent
            writer.close()
            return received

        return loop.run_until_complete(client.spawn(talk())), loop.time()

    assert one(7) == one(7)
    assert one(7)[1] != one(8)[1]


def test_a_killed_server_resets_its_connections() -> None:
    loop, _ = world()
    server, client = served(loop)

    async def talk() -> Any:
        reader, writer = await asyncio.open_connection("server", 9092)
        writer.write(b"x")
        await reader.readexactly(1)
        server.kill()
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("server", 9092)

    loop.run_until_complete(client.spawn(talk()))


def test_a_cut_link_holds_bytes_until_it_heals() -> None:
    loop, network = world()
    _, client = served(loop)

    async def talk() -> float:
        reader, writer = await asyncio.open_connection("server", 9092)
        network.cut("client", "server")
        writer.write(b"x")
        loop.call_later(5, network.heal)
        await reader.readexactly(1)
        writer.close()
        return loop.time()

    assert loop.run_until_complete(client.spawn(talk())) >= 5


def test_a_reader_that_does_not_read_stops_the_writer() -> None:
    loop, _ = world()
    server, client = Process(loop, "server"), Process(loop, "client")

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1000)

    async def serve() -> None:
        await asyncio.start_server(mute, "server", 9092)

    async def talk() -> int:
        _, writer = await asyncio.open_connection("server", 9092)
        sent = 0
        try:
            async with asyncio.timeout(100):
                while True:
                    writer.write(b"x" * 10_000)
                    sent += 10_000
                    await writer.drain()
        except TimeoutError:
            return sent
        finally:
            writer.close()

    loop.run_until_complete(server.spawn(serve()))
    assert loop.run_until_complete(client.spawn(talk())) < 1_000_000
