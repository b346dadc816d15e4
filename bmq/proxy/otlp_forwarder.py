"""Forwards clients' metrics to an OTLP endpoint over HTTP, one push after the other.

A push is answered before it is forwarded, so neither clients nor other requests wait for the endpoint. A push that does not fit
into the queue, is refused, or cannot be sent within the time for retries is dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

import structlog

from bmq.aio.backoff import Backoff
from bmq.protocol.compression import BadCompressedData, decompress
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage
from bmq.protocol.otlp_resources import with_attributes
from bmq.proxy.telemetry_receiver import PushedMetrics, TelemetryStats
from bmq.proxy.telemetry_settings import TelemetrySettings

Post = Callable[[bytes], Awaitable[int]]
"""Sends a body of type application/x-protobuf by POST, and returns the status. Raises OSError without an answer."""

_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
"""The retryable status codes of OTLP/HTTP."""
_RETRY_FIRST_S: Final = 0.5
_RETRY_LONGEST_S: Final = 10.0

_log = structlog.get_logger("bmq.proxy")


class OtlpForwarder:
    """A TelemetryReceiver that forwards to an endpoint. `post`: sends a request to it."""

    def __init__(self, post: Post, settings: TelemetrySettings, stats: TelemetryStats, random: Random) -> None:
        self._post = post
        self._settings = settings
        self._stats = stats
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._sender: asyncio.Task[None] | None = None
        self._is_failing = False

    def receive(self, pushed: PushedMetrics) -> None:
        """Queue a push. Raises KafkaError INVALID_RECORD if it does not decompress, or is not OpenTelemetry data."""
        try:
            data = decompress(pushed.compression, pushed.data, self._settings.decompressed_bytes_max)
            body = with_attributes(memoryview(data), pushed.attributes)
        except (BadCompressedData, MalformedMessage) as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
        if self._queue_bytes + len(body) > self._settings.otlp_queue_bytes_max:
            self._drop("its queue is full")
            return
        self._queue.append(body)
        self._queue_bytes += len(body)
        if self._sender is None or self._sender.done():
            self._sender = self._loop.create_task(self._send_all())

    async def close(self) -> None:
        """Stop sending. Queued pushes are dropped, and counted as dropped."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait({self._sender})
        self._stats.dropped += len(self._queue)
        self._queue.clear()

    async def _send_all(self) -> None:
        while self._queue:
            await self._send(self._queue[0])
            self._queue_bytes -= len(self._queue.popleft())

    async def _send(self, body: bytes) -> None:
        backoff = Backoff(self._random, first_s=_RETRY_FIRST_S, max_s=_RETRY_LONGEST_S)
        until_s = self._loop.time() + self._settings.otlp_retry_max_s
        while True:
            try:
                async with asyncio.timeout(self._settings.otlp_timeout_s):
                    status = await self._post(body)
            except TimeoutError:
                why, may_retry = "it does not answer", True
            except OSError as error:
                why, may_retry = str(error), True
            else:
                if 200 <= status < 300:
                    self._stats.forwarded += 1
                    self._is_failing = False
                    return
                why, may_retry = f"it answers {status}", status in _TRY_AGAIN
            pause_s = backoff.next_s()
            if not may_retry or self._loop.time() + pause_s > until_s:
                self._drop(why)
                return
            await asyncio.sleep(pause_s)

    def _drop(self, why: str) -> None:
        self._stats.dropped += 1
        if not self._is_failing:
            # Log the first of failures in a row; the counter has the others.
            self._is_failing = True
            _log.warning("client_metrics_dropped", endpoint=self._settings.otlp_endpoint, why=why)
