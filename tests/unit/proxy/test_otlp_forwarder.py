"""Pushes on their way to an OTLP endpoint: in order, tried again, dropped and counted; on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from bmq.protocol.compression import Compression, compress
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.otlp_resources import with_attributes
from bmq.proxy.otlp_forwarder import OtlpForwarder
from bmq.proxy.telemetry_receiver import PushedMetrics, TelemetryStats
from bmq.proxy.telemetry_settings import TelemetrySettings
from tests.unit.routing.group_cluster import virtual

pytestmark = pytest.mark.unit

METRICS = b"\x0a\x02\x12\x00"
WHO = {"client_id": "app"}
Answer = Callable[[], Awaitable[int]]


class Endpoint:
    """Answers as told, then with 200."""

    def __init__(self, *answers: int | Exception | None) -> None:
        self._answers = list(answers)
        self.bodies: list[bytes] = []

    async def post(self, body: bytes) -> int:
        self.bodies.append(body)
        await asyncio.sleep(0.01)
        answer = self._answers.pop(0) if self._answers else 200
        if answer is None:
            await asyncio.sleep(1_000_000)
        if isinstance(answer, Exception):
            raise answer
        assert answer is not None
        return answer


class Bench:
    def __init__(self, endpoint: Endpoint, **settings: float) -> None:
        self.stats = TelemetryStats()
        self.endpoint = endpoint
        made = TelemetrySettings(otlp_endpoint="http://collector", **settings)  # type: ignore[arg-type]
        self.forwarder = OtlpForwarder(endpoint.post, made, self.stats, Random(1))

    def push(self, data: bytes = METRICS, codec: Compression = Compression.NONE) -> None:
        self.forwarder.receive(PushedMetrics(WHO, codec, compress(codec, data)))


def told(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    virtual(main)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_push_is_sent_with_who_sent_it(codec: Compression) -> None:
    async def story() -> None:
        bench = Bench(Endpoint())
        bench.push(codec=codec)
        await asyncio.sleep(1)
        assert bench.endpoint.bodies == [with_attributes(METRICS, WHO)]
        assert (bench.stats.forwarded, bench.stats.dropped) == (1, 0)
        await bench.forwarder.close()

    told(story)


def test_what_the_endpoint_cannot_take_now_is_sent_again_and_what_it_refuses_is_not() -> None:
    async def story() -> None:
        bench = Bench(Endpoint(503, OSError("no route"), None, 200, 400, 200), otlp_timeout_s=2.0)
        for scopes in range(3):
            bench.push(b"\x0a" + bytes((2 * scopes,)) + b"\x12\x00" * scopes)
        await asyncio.sleep(60)
        assert len(bench.endpoint.bodies) == 6
        assert (bench.stats.forwarded, bench.stats.dropped) == (2, 1)
        await bench.forwarder.close()

    told(story)


def test_a_push_is_given_up_after_a_while() -> None:
    async def story() -> None:
        bench = Bench(Endpoint(*[429] * 1_000), otlp_retry_max_s=30.0)
        bench.push()
        await asyncio.sleep(31)
        assert (bench.stats.forwarded, bench.stats.dropped) == (0, 1)
        await bench.forwarder.close()
        assert bench.stats.dropped == 1

    told(story)


def test_the_queue_has_a_limit_and_what_is_left_at_the_end_counts_as_dropped() -> None:
    async def story() -> None:
        bench = Bench(Endpoint(None), otlp_queue_bytes_max=3 * len(with_attributes(METRICS, WHO)))
        for _ in range(5):
            bench.push()
        assert bench.stats.dropped == 2
        await asyncio.sleep(0)
        await bench.forwarder.close()
        assert (bench.stats.forwarded, bench.stats.dropped) == (0, 5)

    told(story)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Compression.NONE, bytes(1001)),
        (Compression.ZSTD, compress(Compression.ZSTD, bytes(100_000_000))),
        (Compression.GZIP, compress(Compression.GZIP, bytes(100_000_000))),
        (Compression.LZ4, b"nonsense"),
        (Compression.SNAPPY, b""),
        (Compression.NONE, b"\x0a\x05"),
    ],
)
def test_bombs_and_nonsense_are_refused(codec: Compression, data: bytes) -> None:
    async def story() -> None:
        bench = Bench(Endpoint(), decompressed_bytes_max=1_000)
        with pytest.raises(KafkaError) as caught:
            bench.forwarder.receive(PushedMetrics(WHO, codec, data))
        assert caught.value.code is ErrorCode.INVALID_RECORD
        await bench.forwarder.close()

    told(story)
