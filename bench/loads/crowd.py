"""Clients that nobody wants, in a process of their own: connections that only stand there, and consumers that hardly read.

    python -m bench.loads.crowd FETCHES IDLE SLOW ADDRESS [ADDRESS ...]

FETCHES: a file with one Fetch request, its length in front, that asks for as much as it may. IDLE connections and SLOW
consumers are spread over the addresses; each consumer takes READ_BYTES in PAUSE_S and asks again at the end of an answer.
Prints "there" once all are connected, and ends with its standard input; then one line of JSON: how many connections were
closed by the servers, and the bytes that the consumers read.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Final

READ_BYTES: Final = 64 * 1024
PAUSE_S: Final = 0.25
CONNECTING_MAX: Final = 100
LENGTH_BYTES: Final = 4


class Crowd:
    """`closed`: connections that ended before the crowd left."""

    def __init__(self, fetch: bytes) -> None:
        self.closed = 0
        self.read_bytes = 0
        self._fetch = fetch
        self._connecting = asyncio.Semaphore(CONNECTING_MAX)
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, address: str, *, is_consumer: bool) -> None:
        host, _, port = address.rpartition(":")
        async with self._connecting:
            reader, writer = await asyncio.open_connection(host, int(port), limit=READ_BYTES)
        self._writers.append(writer)
        stay = self._read_slowly(reader, writer) if is_consumer else self._stand(reader)
        self._tasks.append(asyncio.create_task(stay))

    async def _stand(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            await reader.read(1)
        self.closed += 1

    async def _read_slowly(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                writer.write(self._fetch)
                left = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
                while left > 0:
                    data = await reader.read(min(left, READ_BYTES))
                    if not data:
                        self.closed += 1
                        return
                    left -= len(data)
                    self.read_bytes += len(data)
                    await asyncio.sleep(PAUSE_S)
        self.closed += 1

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()


async def run(fetch: bytes, idle: int, slow: int, addresses: list[str]) -> None:
    crowd = Crowd(fetch)
    await asyncio.gather(
        *(crowd.join(address, is_consumer=False) for address in islice(cycle(addresses), idle)),
        *(crowd.join(address, is_consumer=True) for address in islice(cycle(addresses), slow)),
    )
    print("there", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    closed, read_bytes = crowd.closed, crowd.read_bytes
    await crowd.leave()
    print(json.dumps({"closed": closed, "read_bytes": read_bytes}), flush=True)


def main() -> None:
    fetches, idle, slow, *addresses = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(run(Path(fetches).read_bytes(), int(idle), int(slow), addresses))


if __name__ == "__main__":
    main()
