"""One connection to a NameNode or to a DataNode's IPC port: calls go out, answers come back in any order.

    connection = await RpcConnection.open(address, CLIENT_PROTOCOL, SimpleAuthentication("bmq"), client_id=…, timeout_s=1.0)
    response = await connection.call("getFileInfo", request, GetFileInfoResponse, call_id=7, retry_count=0, timeout_s=5.0)

A connection fails as a whole: whatever breaks it, a malformed answer included, fails every call in flight. Reconnecting
and retrying are left to `Endpoint` (rpc_endpoint.py) and its callers.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final, Self, cast

from google.protobuf.message import Message

from bmq.hdfs.authentication import (
    NO_NEGOTIATION,
    SASL_CALL_ID,
    Authentication,
    MessageLayer,
    refusal,
    sasl_demanded,
)
from bmq.hdfs.config import Address
from bmq.hdfs.errors import CallTimedOut, ConnectionLost, RemoteError
from bmq.hdfs.proto.rpc_pb2 import RpcResponseHeader, RpcSasl
from bmq.hdfs.rpc_codec import (
    Answer,
    AnswerSplitter,
    M,
    MalformedAnswer,
    call_frame,
    context_frame,
    first_bytes,
    parse_answer,
    parse_body,
    protected_frames,
    sasl_frame,
)
from bmq.log.store import StorageUnavailable, StoreError

CALLS_IN_FLIGHT_MAX: Final = 1024


class RpcConnection(asyncio.Protocol):
    """Made by `open`. Any number of calls up to CALLS_IN_FLIGHT_MAX may be under way."""

    def __init__(self, address: Address, protocol_name: str, client_id: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._address = address
        self._protocol_name = protocol_name
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._splitter = AnswerSplitter()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._negotiation: asyncio.Future[bytes] | None = None
        self._is_sasl = False
        self._exchange_max_s = 0.0
        self._layer: MessageLayer | None = None
        self._inner = AnswerSplitter()  # of what the layer protects
        self._failure: StoreError | None = None
        self._unheard_since_s: float | None = None

    @classmethod
    async def open(
        cls,
        address: Address,
        protocol_name: str,
        authentication: Authentication,
        *,
        client_id: bytes,
        timeout_s: float,
    ) -> Self:
        """Connect and authenticate. Raises StorageUnavailable, AuthenticationRequired, PermissionRefused.

        `timeout_s`: for the connection, and then for each answer of the server to a login. A KDC has a timeout of its own.
        """
        loop = asyncio.get_running_loop()
        connection: Self | None = None
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    lambda: cls(address, protocol_name, client_id), address.host, address.port
                )
            connection._is_sasl = authentication.first_byte != NO_NEGOTIATION  # noqa: SLF001 of the same class
            connection._exchange_max_s = timeout_s  # noqa: SLF001 of the same class
            connection._write(first_bytes(authentication.first_byte))  # noqa: SLF001 of the same class
            connection._layer = await authentication.negotiate(connection)  # noqa: SLF001 of the same class
        except TimeoutError:
            raise StorageUnavailable(f"{address}: no connection within {timeout_s:g} s") from None
        except OSError as error:
            raise StorageUnavailable(f"{address}: {error.strerror or error}") from error
        else:
            connection._write(context_frame(client_id, protocol_name, authentication.user_information))  # noqa: SLF001 of the same class
            if connection._failure is not None:  # noqa: SLF001 of the same class
                raise _again(connection._failure)  # noqa: SLF001 of the same class
            established, connection = connection, None
            return established
        finally:
            if connection is not None:
                connection.close()

    @property
    def host(self) -> str:
        return self._address.host

    @property
    def is_closed(self) -> bool:
        return self._failure is not None

    @property
    def calls_in_flight(self) -> int:
        return len(self._waiting)

    def silent_s(self) -> float:
        """Seconds since the last bytes from the server while an answer was outstanding; 0 if no answer is outstanding."""
        return 0.0 if self._unheard_since_s is None else self._loop.time() - self._unheard_since_s

    async def call(
        self,
        method: str,
        request: Message,
        response_type: type[M],
        *,
        call_id: int,
        retry_count: int,
        timeout_s: float,
    ) -> M:
        """Send a call and wait for its answer.

        `call_id`: 0 to 2^31 - 1, not under way on this connection; a logical call keeps it on every retry, and
        `retry_count` counts them. Raises RemoteError (the server refused), CallTimedOut (the connection is kept),
        ConnectionLost, StorageUnavailable, AuthenticationRequired, PermissionRefused.
        """
        if self._failure is not None:
            raise _again(self._failure)
        if len(self._waiting) >= CALLS_IN_FLIGHT_MAX:
            raise StorageUnavailable(f"{self._address}: {CALLS_IN_FLIGHT_MAX} calls are under way already")
        if call_id in self._waiting:
            raise ValueError(f"call {call_id} ({method}) is under way already")
        frame = call_frame(
            call_id=call_id,
            retry_count=retry_count,
            client_id=self._client_id,
            protocol_name=self._protocol_name,
            method=method,
            request=request,
        )
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting[call_id] = future
        timer = self._loop.call_later(timeout_s, self._expire, future, method, timeout_s)
        try:
            self._write(frame)
            body = await future
        finally:
            timer.cancel()
            self._waiting.pop(call_id, None)
        try:
            return parse_body(body, response_type)
        except MalformedAnswer as error:
            failure = self._malformed(error)
            self._fail(failure)
            raise failure from error

    async def exchange(self, message: RpcSasl) -> RpcSasl:
        """Send one message of a SASL negotiation and wait for the answer. Raises StorageUnavailable after the timeout given
        to `open`.
        """
        if self._failure is not None:
            raise _again(self._failure)
        self._negotiation = self._loop.create_future()
        try:
            self._write(sasl_frame(self._client_id, message))
            async with asyncio.timeout(self._exchange_max_s):
                return parse_body(await self._negotiation, RpcSasl)
        except TimeoutError:
            raise StorageUnavailable(
                f"{self._address}: no answer to the login within {self._exchange_max_s:g} s"
            ) from None
        except MalformedAnswer as error:
            raise self._malformed(error) from error
        finally:
            self._negotiation = None

    def close(self) -> None:
        """Drop the connection; calls under way fail with ConnectionLost."""
        self.fail("the connection was closed here")

    def fail(self, reason: str) -> None:
        """Drop the connection; calls under way fail with this reason."""
        self._fail(ConnectionLost(f"{self._address}: {reason}"))

    # --- the transport's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connected = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._take(parse_answer(frame))
        except MalformedAnswer as error:
            self._fail(self._malformed(error))
        self._unheard_since_s = self._loop.time() if self._waiting else None

    def connection_lost(self, exc: Exception | None) -> None:
        reason = "the server closed the connection" if exc is None else f"the connection broke ({exc})"
        self._fail(ConnectionLost(f"{self._address}: {reason}"))

    # --- answers
    def _take(self, answer: Answer, *, is_protected: bool = False) -> None:
        header = answer.header
        if self._failure is not None:
            return
        if self._layer is not None and not is_protected:
            self._take_protected(self._layer, answer)
        elif header.status != RpcResponseHeader.SUCCESS:
            self._take_error(answer)
        elif answer.call_id == SASL_CALL_ID:
            self._take_sasl(answer.body)
        else:
            # If nobody waits for the answer, its call has timed out or was cancelled.
            waiting = self._waiting.pop(answer.call_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer.body)

    def _take_protected(self, layer: MessageLayer, answer: Answer) -> None:
        """Feed decrypted bytes, which continue a stream of ordinary frames. Raises MalformedAnswer."""
        message = parse_body(answer.body, RpcSasl) if answer.call_id == SASL_CALL_ID and answer.body else None
        if message is None or message.state != RpcSasl.WRAP:
            self._fail(ConnectionLost(f"{self._address} sent an unprotected answer over a protected connection"))
            return
        try:
            data = layer.unwrap(message.token)
        except StoreError as error:
            self._fail(ConnectionLost(f"{self._address}: {error}"))
            return
        for frame in self._inner.feed(data):
            self._take(parse_answer(frame), is_protected=True)

    def _take_error(self, answer: Answer) -> None:
        header = answer.header
        error = RemoteError(header.exception_class_name, header.error_message)
        if header.status != RpcResponseHeader.FATAL and answer.call_id >= 0:
            self._refuse(answer.call_id, error)
            return
        # The server closes the connection after this. If the answer names a call, that call gets the server's own
        # words.
        refused = refusal(str(self._address), error, header.error_detail, is_sasl=self._is_sasl)
        if refused is None:
            self._refuse(answer.call_id, error)
        self._fail(refused or ConnectionLost(f"{self._address} ended the connection: {error}"))

    def _refuse(self, call_id: int, error: RemoteError) -> None:
        waiting = self._waiting.pop(call_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    def _take_sasl(self, body: bytes) -> None:
        if self._negotiation is not None and not self._negotiation.done():
            self._negotiation.set_result(body)
            return
        try:
            self._fail(sasl_demanded(str(self._address), parse_body(body, RpcSasl)))
        except MalformedAnswer as error:
            self._fail(self._malformed(error))

    def _expire(self, future: asyncio.Future[bytes], method: str, timeout_s: float) -> None:
        if not future.done():
            future.set_exception(CallTimedOut(f"{self._address}: {method} unanswered for {timeout_s:.2g} s"))

    def _malformed(self, error: MalformedAnswer) -> ConnectionLost:
        return ConnectionLost(f"{self._address} sent {error}")

    def _fail(self, failure: StoreError) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        if self._transport is not None:
            # Do not wait until unsent bytes are flushed: with a hanging peer that would take for ever.
            self._transport.abort()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(_again(failure))
        if self._negotiation is not None and not self._negotiation.done():
            self._negotiation.set_exception(_again(failure))

    def _write(self, data: bytes) -> None:
        if self._unheard_since_s is None and self._waiting:
            self._unheard_since_s = self._loop.time()
        if self._transport is None or self._failure is not None:
            return
        if self._layer is not None:
            data = protected_frames(self._client_id, self._layer, data)
        self._transport.write(data)


def _again(failure: StoreError) -> StoreError:
    """A copy of the exception: one that is raised in several tasks would collect all their tracebacks."""
    return type(failure)(str(failure))
