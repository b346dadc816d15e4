"""One server that is called repeatedly. It is connected when a call needs it, once for all waiting calls."""

from __future__ import annotations

import asyncio
from typing import Generic

from google.protobuf.message import Message

from bmq.dataclass import dataclass
from bmq.hdfs.authentication import Authentication
from bmq.hdfs.config import Address
from bmq.hdfs.errors import CallTimedOut, ConnectionLost
from bmq.hdfs.rpc import RpcConnection
from bmq.hdfs.rpc_codec import M
from bmq.log.store import StorageUnavailable


@dataclass(slots=True)
class Call(Generic[M]):
    """One logical call. It keeps its id on every retry, at any server, so that a server's retry cache can answer a call
    that was carried out although its answer was lost."""

    call_id: int
    method: str
    request: Message
    response_type: type[M]
    sent_count: int = 0


class Endpoint:
    """`silence_max_s`: close a connection that owes answers and has been silent for this time."""

    def __init__(
        self,
        address: Address,
        protocol_name: str,
        authentication: Authentication,
        *,
        client_id: bytes,
        connect_timeout_s: float,
        silence_max_s: float,
    ) -> None:
        self.address = address
        self._protocol_name = protocol_name
        self._authentication = authentication
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._silence_max_s = silence_max_s
        self._connection: RpcConnection | None = None
        self._connecting: asyncio.Task[RpcConnection] | None = None
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and not self._connection.is_closed

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return self._connecting is None and (self._connection is None or not self._connection.calls_in_flight)

    async def send(self, call: Call[M], *, timeout_s: float) -> M:
        """Send a call and wait for its answer, `timeout_s` in all. Raises as RpcConnection.open and .call.

        Servers close idle connections. If an older connection turns out to be lost, that says nothing about the server, so
        the call is sent once more on a new one.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        if self._connection is not None and self._connection.silent_s() >= self._silence_max_s:
            self._connection.fail(f"silent for {self._connection.silent_s():.2g} s")
        connection = self._connection
        if connection is not None and not connection.is_closed:
            try:
                return await self._send_on(connection, call, timeout_s)
            except ConnectionLost:
                pass
        connection = await self._connected(max(0.0, deadline_s - loop.time()))
        return await self._send_on(connection, call, max(0.0, deadline_s - loop.time()))

    def close(self) -> None:
        """Drop the connection. Calls under way and later ones fail."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()

    async def _send_on(self, connection: RpcConnection, call: Call[M], timeout_s: float) -> M:
        retry_count = call.sent_count
        call.sent_count += 1
        try:
            return await connection.call(
                call.method,
                call.request,
                call.response_type,
                call_id=call.call_id,
                retry_count=retry_count,
                timeout_s=timeout_s,
            )
        except CallTimedOut:
            if connection.silent_s() >= self._silence_max_s:
                connection.fail(f"silent for {connection.silent_s():.2g} s")
            raise

    async def _connected(self, timeout_s: float) -> RpcConnection:
        """The connection. Callers share one attempt to connect, and a cancelled caller does not end it for others."""
        if self._is_closed:
            raise StorageUnavailable(f"{self.address}: closed here")
        if self._connection is not None and not self._connection.is_closed:
            return self._connection
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            self._connecting.add_done_callback(self._connect_ended)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(self._connecting)
        except TimeoutError:
            raise CallTimedOut(f"{self.address}: no connection within {timeout_s:.2g} s") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_closed and task is not None and not task.cancelling():
                raise StorageUnavailable(f"{self.address}: closed here") from None
            raise

    async def _connect(self) -> RpcConnection:
        return await RpcConnection.open(
            self.address,
            self._protocol_name,
            self._authentication,
            client_id=self._client_id,
            timeout_s=self._connect_timeout_s,
        )

    def _connect_ended(self, connecting: asyncio.Task[RpcConnection]) -> None:
        self._connecting = None
        if connecting.cancelled() or connecting.exception() is not None:
            return  # waiting calls get the exception; reading it here stops asyncio from logging an abandoned attempt
        connection = connecting.result()
        if self._is_closed:
            connection.close()
        else:
            self._connection = connection
