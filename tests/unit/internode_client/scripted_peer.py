"""The other end of a link, on a real loopback socket: it answers what, when and as wrongly as a test wants."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from bmq.protocol.apis import INTERNAL_APIS, ApiKey
from bmq.protocol.codec import RequestHeader, decode_request, encode_response, parse_request_header
from bmq.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse

Ranges = Mapping[int, tuple[int, int]]
ALL_RANGES: Ranges = {int(key): (api.advertised_min, api.version_max) for key, api in INTERNAL_APIS.items()}


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came in."""

    connection: PeerConnection
    header: RequestHeader
    frame: bytes

    @property
    def message(self) -> Any:
        return decode_request(self.header, self.frame)

    @property
    def body(self) -> bytes:
        return self.frame[self.header.body_position :]

    def answer(self, message: Any) -> None:
        header = self.header
        self.connection.send_frame(encode_response(header.api_key, header.api_version, header.correlation_id, message))


class PeerConnection(asyncio.Protocol):
    """One accepted connection. Takes whole frames only; ApiVersions is answered at once unless the peer is mute."""

    def __init__(self, peer: ScriptedPeer) -> None:
        self._peer = peer
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self.chunks: list[bytes] = []
        self.is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._peer.connections.append(self)
        if self._peer.is_deaf:
            self._transport.pause_reading()
        self._peer.note()

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                break
            frame, self._received = self._received[4:end], self._received[end:]
            self._take(frame)
        self._peer.note()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._peer.note()

    def _take(self, frame: bytes) -> None:
        received = Received(self, parse_request_header(frame), frame)
        if received.header.api_key == ApiKey.API_VERSIONS and not self._peer.is_mute:
            self._peer.greetings.append(received)
            if self._peer.raw_greeting is not None:
                self.send_frame(self._peer.raw_greeting)
            else:
                received.answer(self._peer.versions())
        else:
            self._peer.received.append(received)

    def send_frame(self, frame: bytes) -> None:
        self.send_raw(len(frame).to_bytes(4, "big") + frame)

    def send_raw(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def stop_reading(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()

    def go_on_reading(self) -> None:
        assert self._transport is not None
        self._transport.resume_reading()

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def reset(self) -> None:
        """Close with a RST, as a killed process with unread bytes does."""
        assert self._transport is not None
        self._transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self._transport.abort()


class ScriptedPeer:
    """Attributes a test may set before a link is opened: `ranges` (what ApiVersions says), `is_mute` (nothing is answered
    by itself), `is_deaf` (nothing is read), `raw_greeting` (a frame that answers ApiVersions whatever was asked)."""

    def __init__(self) -> None:
        self.ranges: Ranges = ALL_RANGES
        self.is_mute = False
        self.is_deaf = False
        self.raw_greeting: bytes | None = None
        self.connections: list[PeerConnection] = []
        self.greetings: list[Received] = []
        self.received: list[Received] = []
        self.host = self._server_host = "127.0.0.1"
        self.port = 0
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()

    def versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.ranges.items()
            ]
        )

    async def start(self, port: int = 0) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: PeerConnection(self), self.host, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and reset what is connected."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self.connections:
            if connection.is_open:
                connection.reset()
        await self.until(lambda: not any(connection.is_open for connection in self.connections))
        await asyncio.sleep(0)  # for the transports to close their sockets

    def note(self) -> None:
        self._changed.set()

    async def until(self, is_true: Any) -> None:
        """Wait for something that happens with bytes or connections here."""
        async with asyncio.timeout(10):
            while not is_true():
                self._changed.clear()
                await self._changed.wait()

    async def request(self, number: int = 0) -> Received:
        """The request number `number` after the greetings, once it is here."""
        await self.until(lambda: len(self.received) > number)
        return self.received[number]


@asynccontextmanager
async def scripted_peer() -> AsyncIterator[ScriptedPeer]:
    peer = ScriptedPeer()
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()
