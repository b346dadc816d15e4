"""Publish and PublishStream: records to the cluster, offsets back."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Any

import grpc

from bmq.gateway.calls import Calls
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.principal import Principal
from bmq.gateway.publish_requests import Outcome, all_failed, publishable
from bmq.gateway.publishing import Publishing
from bmq.gateway.v1 import gateway_pb2


class PublisherService:
    """The service `bmq.gateway.v1.Publisher`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def publish(self, request: gateway_pb2.PublishRequest, context: Any) -> gateway_pb2.PublishResponse:
        """Fails only if no record was written."""
        async with self._calls.admitted(context, "Publish") as principal:
            await principal.shared.publishing.take(request.ByteSize())
            done = await _begun(principal, request)
            await asyncio.wait({done})
            outcome = done.result()
            failure = outcome.common_failure()
            if failure is not None:
                self._calls.metrics.refused.inc(len(request.records))
                raise failure
            return self._counted(outcome.response())
        return gateway_pb2.PublishResponse()  # not reached: a failure has ended the call

    def _counted(self, response: gateway_pb2.PublishResponse) -> gateway_pb2.PublishResponse:
        failed = sum(failure.count for failure in response.failures)
        self._calls.metrics.refused.inc(failed)
        self._calls.metrics.published.inc(len(response.offsets) - failed)
        return response

    async def publish_stream(self, _requests: Any, context: Any) -> None:
        """An answer for each request, in order. A request that is wrong fails by itself, and the stream goes on."""
        async with self._calls.admitted(context, "PublishStream") as principal:
            stream = _PublishStream(principal, context)
            reading = asyncio.ensure_future(stream.read())
            try:
                while (response := await stream.next_response()) is not None:
                    await stream.write(self._counted(response))
            finally:
                reading.cancel()
                await asyncio.wait({reading})


class _PublishStream:
    """Requests in progress, bounded by bytes. What is shared with all users is given back when a request's records are
    written, whether or not the client takes the answer.
    """

    def __init__(self, principal: Principal, context: Any) -> None:
        self._principal = principal
        self._context = context
        self._pending: deque[tuple[int, asyncio.Future[Outcome]]] = deque()
        self._pending_bytes = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._has_ended = False
        self._failure: GatewayFailed | None = None

    async def read(self) -> None:
        """Take requests while there is room."""
        try:
            while (request := await self._next_request()) is not None:
                size = request.ByteSize()
                while self._pending and self._pending_bytes + size > self._principal.settings.publish_stream_bytes_max:
                    self._room.clear()
                    await self._room.wait()
                await self._principal.shared.publishing.take(size)
                done = await self._begun(request)
                self._pending_bytes += size
                self._pending.append((size, done))
                self._changed.set()
        except GatewayFailed as failed:
            self._failure = failed
        except grpc.aio.UsageError:  # the call has ended
            pass
        self._has_ended = True
        self._changed.set()

    async def _next_request(self) -> gateway_pb2.PublishRequest | None:
        idle_ms = self._principal.settings.stream_idle_max_ms
        try:
            async with asyncio.timeout(idle_ms / 1000 if idle_ms else None):
                request = await self._context.read()
        except TimeoutError:
            raise GatewayFailed("DEADLINE_EXCEEDED", f"no request came within {idle_ms} ms") from None
        return None if request is grpc.aio.EOF else request

    async def _begun(self, request: gateway_pb2.PublishRequest) -> asyncio.Future[Outcome]:
        """One request after the other: so their records keep their order."""
        try:
            return await _begun(self._principal, request)
        except GatewayFailed as failed:
            refused: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            refused.set_result(all_failed(max(1, len(request.records)), failed))
            return refused

    async def next_response(self) -> gateway_pb2.PublishResponse | None:
        """The answer to the oldest request; None at the end. Raises GatewayFailed."""
        while not self._pending:
            if self._failure is not None:
                raise self._failure
            if self._has_ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        size, done = self._pending[0]
        await asyncio.wait({done})
        self._pending.popleft()
        self._pending_bytes -= size
        self._room.set()
        return done.result().response()

    async def write(self, response: gateway_pb2.PublishResponse) -> None:
        """Raises GatewayFailed for a client that takes no answers."""
        wait_s = self._principal.settings.write_wait_max_ms / 1000
        try:
            async with asyncio.timeout(wait_s):
                await self._context.write(response)
        except TimeoutError:
            raise GatewayFailed("DEADLINE_EXCEEDED", f"the publisher took no answer for {wait_s:g} s") from None


async def _begun(principal: Principal, request: gateway_pb2.PublishRequest) -> asyncio.Future[Outcome]:
    """Check the records and hand them over. The room that was taken for them is given back when all are written or refused."""
    settings = principal.settings
    give_back = partial(principal.shared.publishing.give_back, request.ByteSize())
    try:
        checked = publishable(
            request, records_max=settings.records_per_publish_max, record_bytes_max=settings.record_bytes_max
        )
        done = await principal.part(Publishing).begin(checked)
    except BaseException:
        give_back()
        raise
    done.add_done_callback(lambda _: give_back())
    return done
