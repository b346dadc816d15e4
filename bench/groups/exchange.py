"""Heartbeats of members over connections, many of them under way at once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, cast

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

VERSION: Final = 1
CLIENT_ID: Final = "bench"
LENGTH_BYTES: Final = 4
RETRY_S: Final = 0.05
CONNECTING_MAX: Final = 100
# A shard that is still being loaded, or has just moved.
RETRIABLE: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Exchange(asyncio.Protocol):
    """One connection: requests are sent as they come, and answered in their order."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._received = bytearray()
        self._number = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES], "big")
            if len(self._received) < end:
                return
            frame = bytes(self._received[LENGTH_BYTES:end])
            del self._received[:end]
            waiting = self._waiting.popleft()
            if not waiting.done():  # nobody wants the answer any more
                waiting.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(ConnectionResetError(f"the server closed the connection: {error}"))

    async def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """The first answer that is not of a coordinator that is not ready. Raises ConnectionError."""
        return cast(ConsumerGroupHeartbeatResponse, await self.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, request))

    async def call(self, api_key: ApiKey, request: Any) -> Any:
        """Version 1 of a request to a coordinator: the first answer that is not of one that is not ready.

        Raises ConnectionError.
        """
        while True:
            frame = await self._answer_to(api_key, request)
            _, answer = decode_response(api_key, VERSION, frame)
            if answer.error_code not in RETRIABLE:
                return answer
            await asyncio.sleep(RETRY_S)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _answer_to(self, api_key: ApiKey, request: Any) -> bytes:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._number += 1
        frame = encode_request(api_key, VERSION, self._number, CLIENT_ID, request)
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._transport.write(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
        return await waiting


async def connect(address: str, count: int) -> list[Exchange]:
    """Raises OSError."""
    host, _, port = address.rpartition(":")
    connecting = asyncio.Semaphore(CONNECTING_MAX)

    async def one() -> Exchange:
        async with connecting:
            return (await asyncio.get_running_loop().create_connection(Exchange, host, int(port)))[1]

    return list(await asyncio.gather(*(one() for _ in range(count))))
