"""A proxy in front of a NameNode that keeps single calls back, and has them carried out long after they were given up.

    async with LateCalls(namenode, Random(7)) as proxy:       # clients connect to proxy.address
        proxy.begin(share=0.2, late_s=(1.0, 25.0))
        …
        proxy.end()                                           # what is kept back is still carried out when its time comes

Of a call that is kept back the NameNode hears nothing, nor of the client's tries of the same call: the client either waits
in vain or loses its connection. When its time comes the call is sent once, over a connection of its own, as a packet that
was held up in the network is. Reads are never kept back: a late one changes nothing. On a kerberized cluster the connection
has a login of its own, and calls have to be readable: hadoop.rpc.protection is `authentication` there.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Final, NamedTuple, Self

from bmq.hdfs.authentication import Authentication
from bmq.hdfs.config import Address
from bmq.hdfs.delimited import read_delimited
from bmq.hdfs.failover import CLIENT_PROTOCOL
from bmq.hdfs.proto.rpc_pb2 import RequestHeader, RpcRequestHeader, RpcSasl
from bmq.hdfs.rpc_codec import context_frame, first_bytes, parse_answer, parse_body, sasl_frame
from bmq.log.store import StoreError

PREAMBLE_BYTES: Final = 7
READ_BYTES: Final = 64 * 1024
ANSWER_WAIT_S: Final = 10.0
ANY_PORT: Final = Address("127.0.0.1", 0)
MUTATING: Final = frozenset(
    {
        "mkdirs",
        "create",
        "addBlock",
        "getAdditionalDatanode",
        "rename2",
        "delete",
        "complete",
        "fsync",
        "updateBlockForPipeline",
        "updatePipeline",
        "recoverLease",
    }
)
_LENGTH: Final = struct.Struct(">i")
_CLIENT_ID: Final = bytes(16)  # of the login's own messages; each call has its client's


class Call(NamedTuple):
    """What a retry cache goes by, and what is to be done."""

    client_id: bytes
    call_id: int
    method: str


def call_of(frame: bytes) -> Call | None:
    """None for a frame that belongs to the connection: its context, an authentication. `frame`: without its length."""
    header_bytes, position = read_delimited(frame, 0)
    header = RpcRequestHeader.FromString(header_bytes)
    if header.call_id < 0:
        return None
    request_bytes, _ = read_delimited(frame, position)
    return Call(header.client_id, header.call_id, RequestHeader.FromString(request_bytes).method_name)


class LateCalls:
    """`address`: where clients connect. `kept`, `delivered`: how many calls of each method. `is_wanted`: which calls may be
    kept back at all. `authentication`: of the connections that carry late calls, where the NameNode wants a login.
    """

    def __init__(
        self,
        target: Address,
        random: Random,
        address: Address = ANY_PORT,
        is_wanted: Callable[[Call], bool] = lambda call: call.method in MUTATING,
        *,
        authentication: Authentication | None = None,
    ) -> None:
        self.target = target
        self.address = address
        self.kept: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self._random = random
        self._is_wanted = is_wanted
        self._authentication = authentication
        self._share = 0.0
        self._late_s = (0.0, 0.0)
        self._hurry = asyncio.Event()
        self._held: set[Call] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, *self.address)
        self.address = Address(self.address.host, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """What is still kept back is never carried out."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- Orders ------------------------------------------------------------------------------------------------------

    def begin(self, share: float, late_s: tuple[float, float]) -> None:
        """From now on this share of the calls is kept back, each for a time between these two."""
        self._share, self._late_s = share, late_s

    def end(self) -> None:
        self._share = 0.0

    async def until_delivered(self) -> None:
        """Return once nothing is kept back any more."""
        await asyncio.gather(*self._late)

    async def deliver(self) -> None:
        """Have all that is kept back carried out now."""
        self._hurry.set()
        await self.until_delivered()
        self._hurry.clear()

    # -- Connections -------------------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._spawn(self._serve(_Connection(reader, writer)))
        task.add_done_callback(lambda _: writer.transport.abort())

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, client: _Connection) -> None:
        try:
            namenode_reader, namenode_writer = await asyncio.open_connection(*self.target)
        except OSError:
            return
        answers = self._spawn(_copy(namenode_reader, client.writer))
        try:
            await self._forward(client, namenode_writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two is gone, and the other one is let go
        finally:
            answers.cancel()
            namenode_writer.transport.abort()

    async def _forward(self, client: _Connection, namenode: asyncio.StreamWriter) -> None:
        """Returns where the client is to lose its connection."""
        client.opening += await client.reader.readexactly(PREAMBLE_BYTES)
        namenode.write(client.opening)
        while True:
            prefix = await client.reader.readexactly(_LENGTH.size)
            body = await client.reader.readexactly(_LENGTH.unpack(prefix)[0])
            call = call_of(body)
            if call is None:
                client.opening += prefix + body
            elif call in self._held:
                continue
            elif self._random.random() < self._share and self._is_wanted(call):
                opening = bytes(client.opening) if self._authentication is None else b""
                self._keep(call, opening + prefix + body)
                if self._random.random() < 0.5:
                    return
                continue
            namenode.write(prefix + body)
            await namenode.drain()

    # -- Calls that are late -----------------------------------------------------------------------------------------

    def _keep(self, call: Call, data: bytes) -> None:
        self._held.add(call)
        self.kept[call.method] += 1
        late = self._spawn(self._deliver(call, data, self._random.uniform(*self._late_s)))
        self._late.add(late)
        late.add_done_callback(self._late.discard)

    async def _deliver(self, call: Call, data: bytes, late_s: float) -> None:
        """`data`: all that a connection needs to carry it, but a login."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), late_s)
        try:
            async with asyncio.timeout(ANSWER_WAIT_S):
                reader, writer = await asyncio.open_connection(*self.target)
                try:
                    if self._authentication is not None:
                        await _log_in(self._authentication, self.target.host, reader, writer)
                    writer.write(data)
                    await reader.readexactly(_LENGTH.size)
                    self.delivered[call.method] += 1
                finally:
                    writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError, StoreError):
            pass  # no NameNode was there: it is lost for good
        finally:
            self._held.discard(call)


@dataclass(slots=True)
class _Connection:
    """`opening`: what the client sent before its first call, and would have to send again on another connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    opening: bytearray = field(default_factory=bytearray)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(READ_BYTES):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.transport.abort()


@dataclass(slots=True)
class _Login:
    """Implements bmq.hdfs.authentication.Negotiation."""

    host: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def exchange(self, message: RpcSasl) -> RpcSasl:
        self.writer.write(sasl_frame(_CLIENT_ID, message))
        (length,) = _LENGTH.unpack(await self.reader.readexactly(_LENGTH.size))
        return parse_body(parse_answer(await self.reader.readexactly(length)).body, RpcSasl)


async def _log_in(
    authentication: Authentication, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Raises StoreError, OSError, IncompleteReadError."""
    writer.write(first_bytes(authentication.first_byte))
    layer = await authentication.negotiate(_Login(host, reader, writer))
    assert layer is None, "the NameNode protects calls, which nobody can keep back then"
    writer.write(context_frame(_CLIENT_ID, CLIENT_PROTOCOL, authentication.user_information))
