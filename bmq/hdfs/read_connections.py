"""Connections to DataNodes for reading, kept for the next read: a small read then costs one round trip, not four.

A connection carries one read at a time. When its read completes it returns to the idle ones; if the read ends in any
other way it is closed. A DataNode keeps an idle connection about 4 s (dfs.datanode.socket.reuse.keepalive).
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import AbstractEventLoop, Future, TimerHandle
from contextlib import suppress
from typing import Final, cast

from bmq.hdfs.blocks import DataNode
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.errors import HandshakeFailed
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.read_packets import VERIFIED, BlockReceiver, ReplicaError, ReplicaLost, ReplicaRefused

IDLE_PER_NODE_MAX: Final = 16
IDLE_MAX: Final = 128


class ReadConnection(asyncio.BufferedProtocol):
    """One TCP connection. Made by ReadConnections."""

    __slots__ = (
        "_answer",
        "_loop",
        "_pool",
        "_receiver",
        "_stray",
        "_transport",
        "address",
        "answered_s",
        "idle_since_s",
        "is_aborted",
    )

    def __init__(self, pool: ReadConnections, address: Address, loop: AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._receiver: BlockReceiver | None = None
        self._answer: Future[BlockReceiver] | None = None
        self._stray = bytearray(1)
        self.address = address
        self.answered_s: float | None = None  # when the first byte of the current answer came
        self.idle_since_s = 0.0
        self.is_aborted = False

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and self._answer is None

    def start(self, request: bytes, receiver: BlockReceiver) -> Future[BlockReceiver]:
        """Send a read request. Returns a future of its filled receiver. It fails with ReplicaError, and then the connection
        is closed.
        """
        answer: Future[BlockReceiver] = self._loop.create_future()
        if self._transport is None or self._transport.is_closing():
            answer.set_exception(ReplicaLost("the connection is closed"))
            return answer
        self._receiver = receiver
        self._answer = answer
        self.answered_s = None
        self._transport.write(request)
        return answer

    def carries(self, receiver: BlockReceiver) -> bool:
        """Whether this read is under way on the connection."""
        return self._receiver is receiver

    def abort(self) -> None:
        """Close at once; a read under way is cancelled."""
        self.is_aborted = True
        answer, self._answer, self._receiver = self._answer, None, None
        if answer is not None:
            answer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close an idle connection once the ClientReadStatus of its last read is sent."""
        if self._transport is not None:
            self._transport.close()

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_aborted:
            self._transport.abort()
            return
        endpoint = transport.get_extra_info("socket")
        if endpoint is not None:
            with suppress(OSError):
                endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        receiver = self._receiver
        return receiver.get_buffer() if receiver is not None else memoryview(self._stray)

    def buffer_updated(self, nbytes: int) -> None:
        receiver = self._receiver
        if receiver is None:
            # No read is under way: these bytes would be taken for the answer to the next one.
            self.abort()
            return
        if self.answered_s is None:
            self.answered_s = self._loop.time()
        try:
            is_complete = receiver.received(nbytes)
        except ReplicaError as error:
            self._fail(error)
            return
        if is_complete:
            self._complete(receiver)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(ReplicaLost(f"the connection was lost: {exc}" if exc else "the DataNode closed the connection"))
        self._pool.discard(self)

    def _complete(self, receiver: BlockReceiver) -> None:
        answer, self._answer, self._receiver = self._answer, None, None
        assert self._transport is not None
        self._transport.write(VERIFIED)
        self._pool.put(self)
        if answer is not None and not answer.done():
            answer.set_result(receiver)

    def _fail(self, error: ReplicaError) -> None:
        answer, self._answer, self._receiver = self._answer, None, None
        if self._transport is not None:
            self._transport.abort()
        if answer is not None and not answer.done():
            answer.set_exception(error)
            answer.exception()  # marks it as retrieved, so that asyncio does not log it if nobody waits


class ReadConnections:
    """Keeps idle connections by DataNode, at most IDLE_MAX, and opens new ones."""

    def __init__(self, config: HdfsConfig, counts: ReadCounts) -> None:
        self._connect_timeout_s = config.connect_timeout_s
        self._idle_connection_s = config.idle_connection_s
        self._connector = config.required_connector
        self._counts = counts
        self._idle: dict[Address, list[ReadConnection]] = {}
        self._idle_count = 0
        self._expiry: TimerHandle | None = None
        self._is_closed = False

    def take(self, node: DataNode) -> ReadConnection | None:
        """The idle connection that was used last."""
        idle = self._idle.get(node.transfer)
        while idle:
            connection = idle.pop()
            self._idle_count -= 1
            if connection.is_usable:
                return connection
        return None

    async def open(self, node: DataNode, token: Token) -> ReadConnection:
        """A new connection, logged in by the token of one block. It can then read any block. Raises ReplicaLost,
        ReplicaRefused.
        """
        loop = asyncio.get_running_loop()
        connection = ReadConnection(self, node.transfer, loop)
        self._counts.connections_opened += 1
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                if self._connector is None:
                    await loop.create_connection(lambda: connection, node.transfer.host, node.transfer.port)
                else:
                    await self._connector.connect(connection, node.transfer.host, node.transfer.port, token)
        except TimeoutError:
            connection.abort()
            raise ReplicaLost(f"no connection within {self._connect_timeout_s:g} s") from None
        except OSError as error:
            connection.abort()
            raise ReplicaLost(f"no connection: {error.strerror or error}") from error
        except HandshakeFailed as error:
            connection.abort()
            raise ReplicaRefused(str(error)) from error
        except BaseException:
            connection.abort()
            raise
        return connection

    def close(self) -> None:
        """Close idle connections. Others are closed when their reads end."""
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        for idle in tuple(self._idle.values()):
            for connection in tuple(idle):
                connection.abort()
        self._idle.clear()
        self._idle_count = 0

    # --- for ReadConnection

    def put(self, connection: ReadConnection) -> None:
        """Take back a connection whose read is complete."""
        idle = self._idle.setdefault(connection.address, [])
        if (
            self._is_closed
            or not connection.is_usable
            or len(idle) >= IDLE_PER_NODE_MAX
            or self._idle_count >= IDLE_MAX
        ):
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since_s = loop.time()
        idle.append(connection)
        self._idle_count += 1
        if self._expiry is None:
            self._expiry = loop.call_later(self._idle_connection_s, self._expire)

    def discard(self, connection: ReadConnection) -> None:
        """Forget a connection that is closed."""
        idle = self._idle.get(connection.address)
        if idle and connection in idle:
            idle.remove(connection)
            self._idle_count -= 1

    def _expire(self) -> None:
        self._expiry = None
        loop = asyncio.get_running_loop()
        oldest_s = loop.time() - self._idle_connection_s
        next_s: float | None = None
        for address, idle in tuple(self._idle.items()):
            expired = [connection for connection in idle if connection.idle_since_s <= oldest_s]
            # The list is in the order of use, so the expired ones are its beginning.
            del idle[: len(expired)]
            self._idle_count -= len(expired)
            for connection in expired:
                connection.close()
            if idle:
                next_s = min(next_s, idle[0].idle_since_s) if next_s is not None else idle[0].idle_since_s
            else:
                del self._idle[address]
        if next_s is not None:
            self._expiry = loop.call_at(next_s + self._idle_connection_s, self._expire)
