"""The gRPC door: `bmq.databus.v1.Databus`, one request or a stream of them. Imported only where `grpc` is set.

A call is logged in before its first byte is read. Its handlers read messages themselves, those of `Produce` as well: so the
time for a request runs while gRPC still waits for its rest. gRPC gathers one unfinished request for each open call, so the
door's memory is bounded by `grpc_calls_max` times `frame_bytes_max`.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc

from bmq.databus.doors.bearer_token import token_fault
from bmq.databus.doors.gathered_answers import GatheredAnswers
from bmq.databus.doors.grpc_calls import GrpcCalls, TooManyCalls
from bmq.databus.doors.grpc_requests import accepted, records_of, refused, status_of
from bmq.databus.doors.unix_path import SocketUnusable, UnixPath
from bmq.databus.intake import Intake
from bmq.databus.rules import Refusal
from bmq.databus.settings import AgentSettings
from bmq.databus.socket_frame import Code
from bmq.databus.v1 import databus_pb2

UNANSWERED_MAX: Final = 64
"""Requests of one stream that are taken and not answered: with fsync they share one."""
STREAMS_PER_CONNECTION_MAX: Final = 100
HEADERS_BYTES_MAX: Final = 16 * 1024
KEEPALIVE_MS: Final = 30_000
PING_TIMEOUT_MS: Final = 10_000
CONNECTION_IDLE_MS: Final = 300_000
STOP_S: Final = 1.0
PUSHBACK: Final = "grpc-retry-pushback-ms"
"""The hint that gRPC's own retries obey (gRFC A6)."""
_SERVICE: Final = databus_pb2.DESCRIPTOR.services_by_name["Databus"].full_name


class GrpcDoor:
    """Call `open`, then `close`. `calls`: counts for the metrics."""

    def __init__(self, intake: Intake, settings: AgentSettings) -> None:
        self.calls = GrpcCalls(settings.grpc_calls_max)
        self._intake = intake
        self._settings = settings
        self._server = grpc.aio.server(options=_options(settings), maximum_concurrent_rpcs=2 * settings.grpc_calls_max)
        parse = databus_pb2.ProduceRequest.FromString
        write = databus_pb2.ProduceResponse.SerializeToString
        # On the wire a call with one request is like one with a stream of requests.
        handlers = {
            "Produce": grpc.stream_unary_rpc_method_handler(self._produce, parse, write),
            "ProduceStream": grpc.stream_stream_rpc_method_handler(self._produce_stream, parse, write),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))

    async def open(self) -> str:
        """Listen; the address. Raises SocketUnusable."""
        address = self._settings.grpc
        if address.startswith("unix:"):
            await self._open_unix(Path(address.removeprefix("unix:")))
            return address
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError:
            port = 0
        if not port:
            raise SocketUnusable(f"the gRPC door {address} cannot be opened: name a free address of this machine")
        await self._server.start()
        return f"{address.rpartition(':')[0]}:{port}"

    async def close(self) -> None:
        """Calls in progress may end for a moment. Records that were taken are answered before: the intake is drained."""
        await self._server.stop(STOP_S)
        if self._settings.grpc.startswith("unix:"):
            Path(self._settings.grpc.removeprefix("unix:")).unlink(missing_ok=True)

    async def _open_unix(self, path: Path) -> None:
        """gRPC binds the path itself: in a closed directory, from where the socket moves when its mode is set."""
        settings = self._settings
        target = UnixPath(path, int(settings.socket_mode, 8), settings.socket_owner, settings.socket_group)
        target.prepare()
        with tempfile.TemporaryDirectory(prefix=".grpc-", dir=path.parent) as closed:
            made = Path(closed, "s")
            try:
                is_bound = self._server.add_insecure_port(f"unix:{made}")
            except RuntimeError:
                is_bound = 0
            if not is_bound:
                raise SocketUnusable(f"the socket {path} cannot be opened by gRPC: name a shorter path")
            await self._server.start()
            target.take(made)

    # --- calls

    async def _produce(self, _requests: Any, context: Any) -> databus_pb2.ProduceResponse:
        """All records or none."""
        async with self._admitted(context):
            request = await self._read(context, self._settings.frame_timeout_s, "the rest of the request")
            if request is None:
                await _abort(context, Refusal(Code.BAD_FRAME, "the call has no request"))
            offered = self._offered(request)
            if isinstance(offered, GatheredAnswers):
                await offered.done
                if offered.refusal is None:
                    return accepted(offered.numbers, offered.sampled_out)
                offered = offered.refusal
            if offered.code is not Code.DROPPED:
                await _abort(context, offered)
            return refused(offered, len(request.records))
        raise AssertionError("a call that is not admitted has ended")

    async def _produce_stream(self, _requests: Any, context: Any) -> None:
        """An answer for each request, in order."""
        async with self._admitted(context):
            waiting: asyncio.Queue[_Taken] = asyncio.Queue(UNANSWERED_MAX)
            taking = asyncio.ensure_future(self._take(context, waiting))
            try:
                while (one := await waiting.get()) is not None:
                    await self._write(context, await _response_of(one))
            finally:
                taking.cancel()
                await asyncio.wait({taking})

    async def _take(self, context: Any, waiting: asyncio.Queue[_Taken]) -> None:
        """Requests of a stream until its end. Not read while too many are unanswered."""
        idle_s = self._settings.grpc_idle_timeout_s
        last: _Taken = None
        try:
            while (request := await self._read(context, idle_s, "a whole request")) is not None:
                offered = self._offered(request)
                if isinstance(offered, Refusal):
                    await waiting.put(refused(offered, len(request.records)))
                else:
                    await waiting.put(offered)
        except _Late as late:
            last = late
        except grpc.aio.UsageError:  # the call has ended
            pass
        await waiting.put(last)

    def _offered(self, request: databus_pb2.ProduceRequest) -> GatheredAnswers | Refusal:
        records = records_of(request)
        if isinstance(records, Refusal):
            return records
        gathered = GatheredAnswers(len(records))
        return self._intake.offer_all(gathered, request.channel.encode("utf-8", "replace"), records) or gathered

    # --- bounds

    @contextlib.asynccontextmanager
    async def _admitted(self, context: Any) -> AsyncIterator[None]:
        """Ends the call for one that is not logged in, is one too many, or is late."""
        token_file = self._settings.grpc_token_file
        if token_file:
            metadata = dict(context.invocation_metadata() or ())
            authorization = metadata.get("authorization", "")
            why = token_fault(authorization if isinstance(authorization, str) else "", token_file)
            if why:
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, why)
        try:
            with self.calls.opened():
                yield
        except _Late as late:
            self.calls.ended_late += 1
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, str(late))
        except TooManyCalls as full:
            await _abort(context, full.refusal)

    async def _read(self, context: Any, wait_s: float, what: str) -> databus_pb2.ProduceRequest | None:
        """None: the client sends no more. Raises _Late."""
        try:
            async with asyncio.timeout(wait_s):
                request = await context.read()
        except TimeoutError:
            raise _Late(f"{what} did not come in {wait_s:g} s") from None
        return None if request is grpc.aio.EOF else request

    async def _write(self, context: Any, response: databus_pb2.ProduceResponse) -> None:
        """Raises _Late."""
        wait_s = self._settings.frame_timeout_s
        try:
            async with asyncio.timeout(wait_s):
                await context.write(response)
        except TimeoutError:
            raise _Late(f"the client took no answer for {wait_s:g} s") from None


class _Late(Exception):
    """The client does not go on; the sentence is the call's."""


_Taken = databus_pb2.ProduceResponse | GatheredAnswers | _Late | None
"""A request of a stream that is not answered: refused, handed to the intake, or the end of the stream."""


async def _response_of(one: databus_pb2.ProduceResponse | GatheredAnswers | _Late) -> databus_pb2.ProduceResponse:
    """Raises _Late."""
    if isinstance(one, _Late):
        raise one
    if not isinstance(one, GatheredAnswers):
        return one
    await one.done
    refusal = one.refusal
    return accepted(one.numbers, one.sampled_out) if refusal is None else refused(refusal, len(one.answers))


async def _abort(context: Any, refusal: Refusal) -> NoReturn:
    """Raises what ends the call."""
    trailing = [("databus-code", databus_pb2.Code.Name(refusal.code.value).removeprefix("CODE_"))]
    if refusal.code is Code.RETRY:
        trailing.append((PUSHBACK, str(refusal.retry_after_ms)))
    await context.abort(grpc.StatusCode[status_of(refusal)], refusal.sentence, trailing_metadata=tuple(trailing))
    raise AssertionError("the call goes on after its end")


def _options(settings: AgentSettings) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", settings.frame_bytes_max),
        ("grpc.max_metadata_size", HEADERS_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", HEADERS_BYTES_MAX),
        ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.max_connection_idle_ms", CONNECTION_IDLE_MS),
        # Without a bound of what is read ahead, each stream may hold many requests.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.so_reuseport", 0),
    ]
