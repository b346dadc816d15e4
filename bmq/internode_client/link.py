"""One connection to one node's internal listener: requests go out, answers come back in any order.

    link = await Link.open("10.0.0.2", 9192, client_id="node-1")
    response = await link.call(ApiKey.BROKER_HEARTBEAT, request, timeout_s=2.0)

A link fails as a whole: when it ends for any reason (malformed data from the peer, too), every request in flight fails
exactly once, and its outcome is unknown. `Links` (links.py) opens a new one.

All requests of one event loop turn leave in one write. A hanging peer is noticed by the requests' timeouts; the link
stays open, since one slow answer says nothing about the others.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version as package_version
from math import inf
from typing import Any, Final, Self, cast

import structlog

from bmq.aio.deadlines import Deadlines
from bmq.internode_client.link_tls import REFUSED_AFTERWARDS, LinkTls, NotEncrypted, connect, loss
from bmq.protocol.apis import ALL_APIS, ApiKey
from bmq.protocol.codec import decode_response, encode, is_flexible
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage, UnsupportedVersion
from bmq.protocol.frames import FRAME_BYTES_MAX_BETWEEN_NODES, FrameSplitter, ReceiveBuffer
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.api_versions_response import ApiVersionsResponse
from bmq.protocol.messages.envelope_request import EnvelopeRequest
from bmq.protocol.wire import Buffer
from bmq.proxy.stall_watch import StallWatch

FRAME_BYTES_MAX: Final = FRAME_BYTES_MAX_BETWEEN_NODES
"""A longer answer closes the link as malformed; the largest valid ones, metadata snapshots, stay far below."""
UNSENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""A peer with more unsent bytes than this is dropped. Callers stop long before (`unsent_bytes`)."""

_RECEIVE_BUFFER_BYTES: Final = 64 * 1024
_FRAME_BYTES_AT_FIRST_MAX: Final = 1024 * 1024
_API_VERSIONS_VERSION: Final = 3
_IDS: Final = 2**31
_HEAD: Final = struct.Struct(
    ">ihhih"
)  # length of what follows it, API key, version, correlation id, client id's length
_LENGTH_BYTES: Final = 4
_CORRELATION_ID: Final = struct.Struct(">i")
_API_VERSIONS_HEAD: Final = struct.Struct(">ih")  # correlation id, error code

_STOOD_STILL: Final = "this process was stalled"
_UNANSWERED_MS_MAX: Final = 5_000
_GIVEN_UP_SOON: Final = tuple(
    (getattr(socket, name), value)
    for name, value in (
        ("TCP_USER_TIMEOUT", _UNANSWERED_MS_MAX),
        ("TCP_KEEPIDLE", 2),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", 3),
    )
    if hasattr(socket, name)  # Linux has them all
)

Answered = Callable[[bytearray | None], None]

_log = structlog.get_logger("bmq.internode_client")


class LinkLost(KafkaError):
    """The connection was refused, lost or closed. The outcome of requests sent is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class LinkClosed(LinkLost):
    """This end closed the link: the node has left, has another address, or we stop."""


class LinkTimeout(LinkLost):
    """No answer in time; the request may still be carried out."""


class LinkNotEncrypted(LinkLost):
    """The node answers, and there is no TLS with it, or it does not take this node for one."""


class Link(asyncio.BufferedProtocol):
    """Made by `open`."""

    def __init__(
        self, peer: str, client_id: str, receive_buffer: ReceiveBuffer, stalls: StallWatch | None = None
    ) -> None:
        self._stalls = stalls or StallWatch()
        self._loop = asyncio.get_running_loop()
        self._peer = peer
        name = client_id.encode()
        self._client_id_bytes = len(name)
        self._tails = (name, name + b"\0")  # of the header, without and with (empty) tagged fields
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter(receive_buffer, FRAME_BYTES_MAX, _FRAME_BYTES_AT_FIRST_MAX)
        self._versions: dict[ApiKey, int] = {}
        self._waiting: dict[int, Answered] = {}  # by correlation id, in the order of sending
        self._deadlines: Deadlines[_Call] = Deadlines(self._loop, self._expire)
        self._last_id = -1
        self._first_sent_s = 0.0
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._reason: str | None = None  # why it is lost
        self._is_closed_here = False
        self._when_lost: dict[Callable[[], None], None] = {}
        self._gone = asyncio.Event()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        connect_timeout_s: float = 2.0,
        receive_buffer: ReceiveBuffer | None = None,
        stalls: StallWatch | None = None,
        tls: LinkTls | None = None,
    ) -> Self:
        """Connect, and learn which versions the peer speaks. Links may share a receive buffer.

        `client_id` stands in the header of every request. `tls`: then the peer has to prove that it is a node. Raises
        LinkLost, LinkNotEncrypted, UnsupportedVersion.
        """
        loop = asyncio.get_running_loop()
        made = cls(
            f"{host}:{port}", client_id, receive_buffer or ReceiveBuffer(_RECEIVE_BUFFER_BYTES), stalls or StallWatch()
        )
        try:
            async with asyncio.timeout(connect_timeout_s):
                await connect(loop, made, host, port, tls)
                await made._learn_versions()
        except TimeoutError:
            made._lose("no connection in time")
            raise LinkTimeout(f"{host}:{port}: no connection within {connect_timeout_s:g} s") from None
        except NotEncrypted as error:
            made._lose(str(error))
            raise LinkNotEncrypted(f"{host}:{port}: {error}") from None
        except LinkLost as error:
            made.close()
            raise error if tls is None else LinkNotEncrypted(f"{error} ({REFUSED_AFTERWARDS})") from None
        except (OSError, OverflowError, UnicodeError) as error:  # the latter two: no port, no host name
            made._lose("not connected")
            raise LinkLost(f"{host}:{port}: {getattr(error, 'strerror', None) or error}") from None
        except BaseException:
            made.close()
            raise
        return made

    def version(self, api_key: ApiKey) -> int:
        """The highest version of the API that both sides speak. Raises UnsupportedVersion when there is none."""
        try:
            return self._versions[api_key]
        except KeyError:
            raise UnsupportedVersion(
                f"{self._peer} and this node have no version of {api_key.name} in common"
            ) from None

    @property
    def is_open(self) -> bool:
        """Whether a request sent now may arrive."""
        return self._reason is None

    @property
    def unsent_bytes(self) -> int:
        """Bytes the peer's host has not taken yet, or that wait for the end of this turn of the loop."""
        if self._transport is None or self._reason is not None:
            return 0
        return self._out_bytes + self._transport.get_write_buffer_size()

    @property
    def waiting_count(self) -> int:
        """The number of unanswered requests."""
        return len(self._waiting)

    @property
    def deadline_count(self) -> int:
        """The number of unanswered requests with a timeout."""
        return len(self._deadlines)

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call once when the link is lost or closed, after all its requests have failed; soon if it is already."""
        if self._reason is None:
            self._when_lost[lost] = None
        else:
            self._loop.call_soon(self._notify_lost, lost)

    # --- requests
    def send(self, api_key: ApiKey, request: Any, *, timeout_s: float) -> asyncio.Future[Any]:
        """Send a request; the future has the response message, or fails with LinkLost or LinkTimeout.

        Cancelling the future forgets the answer, not the request. Raises UnsupportedVersion.
        """
        version = self.version(api_key)
        if isinstance(request, EnvelopeRequest):
            request.connection_age_ms = int((self._stalls.now_s() - self._first_sent_s) * 1000)
        future: asyncio.Future[Any] = self._loop.create_future()
        call = _Call(self, api_key, version, future, timeout_s)
        correlation_id = self._write(api_key, version, (encode("request", api_key, version, request),), call)
        if correlation_id is not None:
            call.correlation_id = correlation_id
            self._deadlines.add(call, self._loop.time() + timeout_s)
        return future

    def send_frame(self, api_key: ApiKey, body: Sequence[Buffer], answered: Answered) -> None:
        """Send a request whose body, in `version(api_key)`, is already laid out in pieces.

        They are sent as they are, without a copy, and must not change until the request is answered. `answered` gets the
        answer with its header, or None when the link is lost: once, and never from within this call; it may raise
        MalformedMessage, which closes the link. There is no timeout, and a request that has no answer (Produce with
        acks 0) must not be sent. Raises UnsupportedVersion.
        """
        self._write(api_key, self.version(api_key), body, answered)

    async def call(self, api_key: ApiKey, request: Any, *, timeout_s: float) -> Any:
        """`send`, and wait. Raises LinkLost, LinkTimeout, UnsupportedVersion."""
        return await self.send(api_key, request, timeout_s=timeout_s)

    def close(self) -> None:
        """Drop the connection; what is under way fails with LinkLost."""
        if self._reason is None:
            self._is_closed_here = True
        self._lose("the link was closed here")

    async def wait_gone(self) -> None:
        """After `close`, wait until the socket is closed too."""
        if self._transport is not None:
            await self._gone.wait()

    def _write(self, api_key: ApiKey, version: int, body: Sequence[Buffer], answered: Answered) -> int | None:
        """Queue the request; its correlation id, or None when the link is lost already."""
        if self._reason is not None:
            self._loop.call_soon(self._fail, answered)
            return None
        correlation_id = (self._last_id + 1) % _IDS
        while correlation_id in self._waiting:
            correlation_id = (correlation_id + 1) % _IDS  # ids have wrapped round, and that request is still unanswered
        self._last_id = correlation_id
        tail = self._tails[is_flexible(api_key, version)]
        size = _HEAD.size - _LENGTH_BYTES + len(tail) + sum(map(len, body))
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(_HEAD.pack(size, api_key, version, correlation_id, self._client_id_bytes) + tail)
        self._out.extend(body)
        self._out_bytes += size + _LENGTH_BYTES
        self._waiting[correlation_id] = answered
        return correlation_id

    def _flush(self) -> None:
        if self._stalls.is_stalled():
            self._lose(_STOOD_STILL)  # the queued requests are too old
            return
        out, self._out, self._out_bytes = self._out, [], 0
        if self._transport is None or self._transport.is_closing():
            return  # the waiting requests fail when the connection is lost
        self._transport.writelines(out)
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes > UNSENT_BYTES_MAX:
            self._lose_badly(f"the peer has not taken {unsent_bytes} bytes")

    # --- the transport's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connected = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # If the peer's host is cut off, nothing is heard: without these options TCP would retry for a quarter of an
        # hour.
        for option, value in _GIVEN_UP_SOON:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
        if self._reason is not None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._stalls.is_stalled():
            self._lose(_STOOD_STILL)
            return
        try:
            for frame in self._splitter.feed(nbytes):
                if self._reason is not None:
                    return
                self._take(frame)
        except MalformedMessage as error:
            self._lose_badly(f"the peer sent what is no answer: {error}")

    def eof_received(self) -> bool:
        self._lose("the peer closed the connection")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(loss(exc))
        self._transport = None
        self._gone.set()

    # --- answers
    def _take(self, frame: bytearray) -> None:
        if len(frame) < _CORRELATION_ID.size:
            raise MalformedMessage(f"an answer of {len(frame)} bytes")
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        answered = self._waiting.pop(correlation_id, None)
        if answered is None:
            if correlation_id < 0 or (self._last_id - correlation_id) % _IDS >= _IDS // 2:
                raise MalformedMessage(f"an answer to request {correlation_id}, which was never sent")
            return  # late: the request has timed out
        try:
            answered(frame)
        except MalformedMessage:
            raise
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._note_failure(error)

    def _fail(self, answered: Answered) -> None:
        try:
            answered(None)
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._note_failure(error)

    def _note_failure(self, error: Exception) -> None:
        """Log a callback's own fault, which does not concern the other requests."""
        _log.error("link_callback_failed", peer=self._peer, error=repr(error), exc_info=True)

    def _expire(self, call: _Call) -> None:
        self._waiting.pop(call.correlation_id, None)
        call.fail(LinkTimeout(f"{self._peer} has not answered {call.api_key.name} within {call.timeout_s:g} s"))

    def failure(self) -> LinkLost:
        """The reason for the loss.

        A new exception each time: one raised in several tasks would collect their tracebacks.
        """
        return (LinkClosed if self._is_closed_here else LinkLost)(f"{self._peer}: {self._reason}")

    # --- ending
    def _lose_badly(self, reason: str) -> None:
        if self._reason is None:
            _log.warning("link_closed", peer=self._peer, reason=reason)
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        if self._reason is not None:
            return
        self._reason = reason
        if self._transport is not None:
            # Abort rather than close: a hung peer would never take the unsent bytes, and closing would wait for ever.
            self._transport.abort()
        self._deadlines.close()
        self._out, self._out_bytes = [], 0
        waiting = tuple(self._waiting.values())
        self._waiting.clear()
        for answered in waiting:
            self._fail(answered)
        when_lost, self._when_lost = self._when_lost, {}
        for lost in when_lost:
            self._notify_lost(lost)

    def _notify_lost(self, lost: Callable[[], None]) -> None:
        try:
            lost()
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._note_failure(error)

    # --- versions
    async def _learn_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name="bmq", client_software_version=_software_version())
        body = encode("request", ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, request)
        future: asyncio.Future[Any] = self._loop.create_future()
        call = _Call(self, ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, future, decode=_decode_api_versions)
        self._first_sent_s = self._stalls.now_s()
        self._write(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, (body,), call)
        response: ApiVersionsResponse = await future
        if response.error_code:
            raise UnsupportedVersion(
                f"{self._peer} refuses ApiVersions {_API_VERSIONS_VERSION}: error {response.error_code}"
            )
        self._versions = common_versions({one.api_key: (one.min_version, one.max_version) for one in response.api_keys})


class _Call:
    """The `answered` callback of a request sent with a future: decodes the answer and resolves the future."""

    __slots__ = ("_decode", "_future", "_link", "_version", "api_key", "correlation_id", "timeout_s")

    def __init__(
        self,
        link: Link,
        api_key: ApiKey,
        version: int,
        future: asyncio.Future[Any],
        timeout_s: float = inf,
        decode: Callable[[int, int, Buffer], tuple[int, Any]] = decode_response,
    ) -> None:
        self.correlation_id = -1
        self.timeout_s = timeout_s
        self._link = link
        self.api_key = api_key
        self._version = version
        self._future = future
        self._decode = decode

    def __call__(self, frame: bytearray | None) -> None:
        self._link._deadlines.discard(self)  # noqa: SLF001 the link that made it
        if self._future.done():
            return  # cancelled
        if frame is None:
            self.fail(self._link.failure())
            return
        try:
            _, message = self._decode(self.api_key, self._version, frame)
        except MalformedMessage as error:
            self.fail(LinkLost(f"the answer to {self.api_key.name} does not parse: {error}"))
            raise
        self._future.set_result(message)

    def fail(self, error: LinkLost) -> None:
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()  # marks it as retrieved: many callers ignore the outcome, and asyncio would log it


def common_versions(ranges: Mapping[int, tuple[int, int]]) -> dict[ApiKey, int]:
    """The highest common version of each API. `ranges`: the peer's lowest and highest, by API key."""
    versions: dict[ApiKey, int] = {}
    for api_key, api in ALL_APIS.items():
        low, high = ranges.get(api_key, (0, -1))
        version = min(high, api.version_max)
        if version >= max(low, api.version_min):
            versions[api_key] = version
    return versions


def _decode_api_versions(api_key: int, api_version: int, frame: Buffer) -> tuple[int, Any]:
    """Versions that are not served are refused in the form of version 0 (KIP-511): only the error code is sure."""
    if len(frame) >= _API_VERSIONS_HEAD.size:
        correlation_id, error_code = _API_VERSIONS_HEAD.unpack_from(frame)
        if error_code:
            return correlation_id, ApiVersionsResponse(error_code=error_code)
    return decode_response(api_key, api_version, frame)


@cache
def _software_version() -> str:
    return package_version("bmq")
