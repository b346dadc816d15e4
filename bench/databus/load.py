"""Many applications at one rate, in one process: by the agent's socket, or each with a producer of librdkafka.

Both are open loops: records are due at fixed times, whether earlier ones are answered or not. A latency is the time from the
write of a record's frame to its answer.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvloop
from confluent_kafka import Producer

from bmq.databus.record_fields import NO_HEADERS
from bmq.databus.socket_frame import Request, encoded_request

CONNECTS_AT_ONCE: Final = 100
_HEAD: Final = struct.Struct(">IBBI")


class _Application(asyncio.Protocol):
    """One connection. `latencies_s`: of answers; `codes`: how many of each code."""

    def __init__(self, latencies_s: list[float], codes: dict[int, int]) -> None:
        self._latencies_s, self._codes = latencies_s, codes
        self._sent_s: dict[int, float] = {}
        self._rest = b""
        self._transport: Any = None
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def hand_over(self, channel: bytes, value: bytes) -> None:
        self._number += 1
        frame = encoded_request(Request(self._number, -1, channel, None, value, NO_HEADERS))
        self._sent_s[self._number] = time.perf_counter()
        self._transport.write(frame)

    def data_received(self, data: bytes) -> None:
        now_s = time.perf_counter()
        data = self._rest + data
        offset = 0
        while offset + _HEAD.size <= len(data):
            length, _, code, number = _HEAD.unpack_from(data, offset)
            if offset + 4 + length > len(data):
                break
            self._latencies_s.append(now_s - self._sent_s.pop(number))
            self._codes[code] = self._codes.get(code, 0) + 1
            offset += 4 + length
        self._rest = data[offset:]


def due_numbers(wanted: int, rate_per_s: float, now_s: Callable[[], float]) -> Iterator[range]:
    """The numbers from 0 to `wanted` that are due at each time it is asked, at this rate from now on; perhaps none."""
    sent, began_s = 0, now_s()
    while sent < wanted:
        due = max(sent, min(wanted, int((now_s() - began_s) * rate_per_s)))
        yield range(sent, due)
        sent = due


async def by_agent(
    path: str, channel: str, connections: int, rate: float, seconds: float, record_bytes: int
) -> dict[str, Any]:
    """`rate`: records per second of each connection."""
    loop = asyncio.get_running_loop()
    latencies_s: list[float] = []
    codes: dict[int, int] = {}
    applications: list[_Application] = []
    while len(applications) < connections:
        made = [
            loop.create_unix_connection(lambda: _Application(latencies_s, codes), path)
            for _ in range(min(CONNECTS_AT_ONCE, connections - len(applications)))
        ]
        applications += [protocol for _, protocol in await asyncio.gather(*made)]
    value = os.urandom(record_bytes)
    name = channel.encode()
    sent = round(connections * rate * seconds)
    began_s = loop.time()
    for numbers in due_numbers(sent, connections * rate, loop.time):
        for number in numbers:
            applications[number % connections].hand_over(name, value)
        await asyncio.sleep(0.001)
    until_s = loop.time() + 10
    while len(latencies_s) < sent and loop.time() < until_s:  # noqa: ASYNC110  # an event would cost each answer
        await asyncio.sleep(0.01)
    latencies_s.sort()
    return {
        "sent": sent,
        "answered": len(latencies_s),
        "seconds": loop.time() - began_s,
        "codes": codes,
        "p50_ms": 1_000 * latencies_s[len(latencies_s) // 2],
        "p99_ms": 1_000 * latencies_s[len(latencies_s) * 99 // 100],
    }


def by_producers(
    bootstrap: str, topic: str, producers: int, rate: float, seconds: float, record_bytes: int
) -> dict[str, Any]:
    """Idempotent producers with librdkafka's defaults."""
    made = [
        Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}) for _ in range(producers)
    ]
    value = os.urandom(record_bytes)
    sent = round(producers * rate * seconds)
    began_s = time.monotonic()
    for numbers in due_numbers(sent, producers * rate, time.monotonic):
        for number in numbers:
            made[number % producers].produce(topic, value)
        time.sleep(0.001)
    left = sum(one.flush(10) for one in made)
    return {"sent": sent, "answered": sent - left, "seconds": time.monotonic() - began_s}


def main() -> None:
    """`python -m bench.databus.load JSON`: the arguments of one of the functions above, and `by`."""
    given = json.loads(sys.argv[1])
    by = given.pop("by")
    gc.disable()  # a look at all connections takes 20 ms, which would count as the agent's
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    found = uvloop.run(by_agent(**given)) if by == "agent" else by_producers(**given)
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    os._exit(0)  # hundreds of producers end slowly, one after the other


if __name__ == "__main__":
    main()
