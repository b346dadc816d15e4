"""One connection to a DataNode over which one block is written: setup, packets out, acknowledgements in."""

from __future__ import annotations

import asyncio
from asyncio import Future, Transport
from collections.abc import Sequence
from typing import Final, Protocol, cast

from google.protobuf.message import DecodeError, Message

from bmq.hdfs.blocks import DataNode
from bmq.hdfs.delimited import delimited
from bmq.hdfs.errors import HandshakeFailed, SetupRefused, peers_words
from bmq.hdfs.packets import (
    HEARTBEAT_SEQNO,
    INCOMPLETE,
    UNUSUAL,
    Ack,
    BadAck,
    decode_ack,
    read_ack,
    read_varint,
)
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.transfer_pb2 import BlockOpResponse, TransferStatus
from bmq.hdfs.transfer_connector import PROTECTION_ADVICE, TransferConnector
from bmq.log.store import Buffer

TRANSFER_VERSION: Final = 28
WRITE_BLOCK: Final = 80
SETUP_REPLY_BYTES_MAX: Final = 64 * 1024


class Listener(Protocol):
    """Receives a connection's acknowledgements. It is not called once the connection is closed or aborted."""

    def acknowledged(self, connection: DataNodeConnection) -> None:
        """Packets were acknowledged; see the connection's counters."""

    def heartbeat_acknowledged(self, connection: DataNodeConnection) -> None:
        """Another heartbeat was answered."""

    def refused(self, connection: DataNodeConnection, ack: Ack) -> None:
        """An acknowledgement reports a failure, or is out of order."""

    def lost(self, connection: DataNodeConnection, reason: str) -> None:
        """The DataNode closed the connection or broke the protocol."""


class DataNodeConnection(asyncio.Protocol):
    """`acked_seqno`: newest acknowledged packet. `heartbeats`: number of acknowledged heartbeats. `heard_s`: loop time of the
    last answer.

    `transport`: None before the connection is made and once it is closed.
    """

    __slots__ = (
        "_chain_nodes",
        "_is_closed",
        "_listener",
        "_loop",
        "_ready",
        "_rest",
        "acked_seqno",
        "connector",
        "heard_s",
        "heartbeats",
        "node",
        "transport",
    )

    def __init__(
        self,
        node: DataNode,
        listener: Listener,
        loop: asyncio.AbstractEventLoop,
        *,
        chain_nodes: int = 1,
        connector: TransferConnector | None = None,
    ) -> None:
        """`chain_nodes`: number of nodes, this one included, that an acknowledgement covers. `connector`: of HdfsConfig."""
        self.node = node
        self.connector = connector
        self._chain_nodes = chain_nodes
        self.acked_seqno = -1
        self.heartbeats = 0
        self.heard_s = 0.0
        self._listener = listener
        self._loop = loop
        self.transport: Transport | None = None
        self._ready: Future[BlockOpResponse] | None = loop.create_future()
        self._rest = b""
        self._is_closed = False

    async def open(self, operation: Message, *, token: Token, timeout_s: float) -> None:
        """Connect, log in by the block's token, and set up the block. Raises SetupRefused; then nothing is left open."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._set_up(operation, token)
        except TimeoutError as error:
            is_connected = self.transport is not None
            self.abort()
            raise SetupRefused(
                f"no answer in {timeout_s:g} s", is_unreachable=True, is_connected=is_connected
            ) from error
        except BaseException:
            self.abort()
            raise

    async def _set_up(self, operation: Message, token: Token) -> None:
        host, port = self.node.transfer
        ready = self._ready
        assert ready is not None
        try:
            if self.connector is None:
                await self._loop.create_connection(lambda: self, host, port)
            else:
                await self.connector.connect(self, host, port, token)
        except OSError as error:
            raise SetupRefused(error.strerror or str(error), is_unreachable=True, is_connected=False) from error
        except HandshakeFailed as error:
            raise SetupRefused(str(error)) from error
        head = TRANSFER_VERSION.to_bytes(2, "big") + bytes((WRITE_BLOCK,))
        self.write((head + delimited(operation),))
        response = await ready
        self._ready = None
        if response.status != TransferStatus.SUCCESS:
            name = status_name(response.status)
            reason = peers_words(response.message) or f"refused with {name}"
            raise SetupRefused(reason, bad_link=response.first_bad_link)

    def tell(self, listener: Listener) -> None:
        """Tell this listener from now on."""
        self._listener = listener

    def write(self, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return  # `lost` is on its way
        if len(pieces) == 1:
            transport.write(pieces[0])
        else:
            transport.writelines(pieces)

    def abort(self) -> None:
        """Close at once and drop unsent bytes. The listener is not called any more."""
        self._is_closed = True
        if self._ready is not None and not self._ready.cancel() and not self._ready.cancelled():
            self._ready.exception()  # nobody waits for it any more
        if self.transport is not None:
            self.transport.abort()
            self.transport = None

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._is_closed:
            cast(Transport, transport).abort()
        else:
            self.transport = cast(Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            return
        if self._rest:
            data = self._rest + data
            self._rest = b""
        at = 0
        if self._ready is not None and not self._ready.done():
            at = self._take_setup_reply(data)
            if at == len(data):
                return
        acked_seqno = self.acked_seqno
        heartbeats = self.heartbeats
        strange: Ack | None = None
        size_bytes = len(data)
        try:
            while at < size_bytes:
                end, seqno = read_ack(data, at, self._chain_nodes)
                if seqno == UNUSUAL:
                    ack = decode_ack(data, at, end)
                    if not ack.is_success(self._chain_nodes):
                        strange = ack
                        break
                    seqno = ack.seqno
                if seqno == acked_seqno + 1 and end != INCOMPLETE:
                    acked_seqno = seqno
                elif end == INCOMPLETE:
                    self._rest = data[at:]
                    break
                elif seqno == HEARTBEAT_SEQNO:
                    self.heartbeats += 1
                else:
                    strange = decode_ack(data, at, end)
                    break
                at = end
        except BadAck as error:
            self._listener.lost(self, f"it sent {error}")
            return
        self.heard_s = self._loop.time()
        if acked_seqno != self.acked_seqno:
            self.acked_seqno = acked_seqno
            self._listener.acknowledged(self)
        if heartbeats != self.heartbeats and not self._is_closed:
            self._listener.heartbeat_acknowledged(self)
        if strange is not None and not self._is_closed:
            self._listener.refused(self, strange)

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_closed:
            return
        self.transport = None
        reason = f"connection lost: {error}" if error else "it closed the connection"
        if self._ready is not None and not self._ready.done():
            advice = "" if self.connector is None else f": {PROTECTION_ADVICE}"
            self._ready.set_exception(SetupRefused(f"{reason}{advice}"))
        else:
            self._is_closed = True
            self._listener.lost(self, reason)

    def _take_setup_reply(self, data: bytes) -> int:
        """Where the setup reply ends; the end of `data` when it is incomplete (kept for the next call) or malformed."""
        assert self._ready is not None
        try:
            length_bytes, at = read_varint(data, 0)
        except IndexError:
            length_bytes, at = len(data), 1  # more is to come
        except BadAck:
            length_bytes, at = SETUP_REPLY_BYTES_MAX + 1, 0
        end = at + length_bytes
        if length_bytes > SETUP_REPLY_BYTES_MAX:
            self._ready.set_exception(SetupRefused("its answer is no answer to a WRITE_BLOCK"))
            return len(data)
        if end > len(data):
            self._rest = data
            return len(data)
        try:
            response = BlockOpResponse.FromString(data[at:end])
        except DecodeError:
            response = BlockOpResponse()
        # A status that we do not know counts as missing, and would read as a success.
        if not response.IsInitialized():
            self._ready.set_exception(SetupRefused("its answer is no answer to a WRITE_BLOCK"))
            return len(data)
        self._ready.set_result(response)
        return end


def write_to_all(connections: Sequence[DataNodeConnection], pieces: Sequence[Buffer]) -> None:
    """Write the same bytes to each of the connections, which share one connector."""
    connector = connections[0].connector
    if connector is None or len(connections) == 1:
        for connection in connections:
            connection.write(pieces)
        return
    transports = [connection.transport for connection in connections]
    connector.write_to_all([one for one in transports if one is not None and not one.is_closing()], pieces)


def status_name(status: int) -> str:
    try:
        return TransferStatus.Name(status)
    except ValueError:
        return f"status {status}"
