"""A server of Hadoop's RPC that does what a test tells it, on a port of its own.

    async with ScriptedServer(lambda call: call.answer(DeleteResponse(result=True))) as server:
        … server.address, server.calls

The script sees each call and answers it, leaves it unanswered, or breaks the protocol. The bytes are taken apart with
protobuf's own readers: a mistake in bmq's codec must not hide itself.
"""

from __future__ import annotations

import asyncio
import io
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self, TypeVar

from google.protobuf import proto
from google.protobuf.message import Message

from bmq.hdfs.config import Address
from bmq.hdfs.proto.rpc_pb2 import (
    IpcConnectionContext,
    RequestHeader,
    RpcRequestHeader,
    RpcResponseHeader,
    RpcSasl,
)

M = TypeVar("M", bound=Message)

SASL_CALL_ID = -33
CONTEXT_CALL_ID = -3


@dataclass
class Peer:
    """One connection as the server sees it. `closed` is done when the client has let go of it."""

    number: int
    writer: asyncio.StreamWriter
    preamble: bytes = b""
    context: IpcConnectionContext | None = None
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def send_frame(self, *messages: Message) -> None:
        self.send(frame(*messages))

    def drop(self) -> None:
        self.writer.close()


@dataclass
class ReceivedCall:
    peer: Peer
    header: RpcRequestHeader
    method: str
    protocol_name: str
    body: bytes

    @property
    def call_id(self) -> int:
        return self.header.call_id

    @property
    def identity(self) -> tuple[bytes, int]:
        """What a retry cache goes by."""
        return self.header.client_id, self.header.call_id

    def request(self, request_type: type[M]) -> M:
        return request_type.FromString(self.body)

    def answer(self, response: Message) -> None:
        self.peer.send_frame(self._response_header(RpcResponseHeader.SUCCESS), response)

    def refuse(self, exception_class: str, message: str, *, is_fatal: bool = False, detail: int = 0) -> None:
        status = RpcResponseHeader.FATAL if is_fatal else RpcResponseHeader.ERROR
        header = self._response_header(status)
        header.exception_class_name = exception_class
        header.error_message = message
        header.error_detail = detail
        self.peer.send_frame(header)

    def _response_header(self, status: RpcResponseHeader.Status) -> RpcResponseHeader:
        return RpcResponseHeader(
            call_id=self.call_id, status=status, client_id=self.header.client_id, server_ipc_version=9
        )


Script = Callable[[ReceivedCall], object]
SaslScript = Callable[[Peer, RpcSasl], object]


def frame(*messages: Message) -> bytes:
    body = io.BytesIO()
    for message in messages:
        proto.serialize_length_prefixed(message, body)
    return struct.pack(">i", body.tell()) + body.getvalue()


def ignore(call: ReceivedCall) -> None:
    """A script: the call stays unanswered."""


class ScriptedServer:
    """`on_sasl` sees SASL messages, `on_connect` each connection before its first byte is read."""

    def __init__(
        self,
        script: Script = ignore,
        *,
        on_sasl: SaslScript | None = None,
        on_connect: Callable[[Peer], object] | None = None,
    ) -> None:
        self.script = script
        self.on_sasl = on_sasl
        self.on_connect = on_connect
        self.calls: list[ReceivedCall] = []
        self.peers: list[Peer] = []
        self.failures: list[BaseException] = []
        self._news = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = Address("127.0.0.1", 0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        if self.failures:
            raise self.failures[0]

    async def start(self) -> None:
        """Also again after `stop`, on the same port."""
        self._server = await asyncio.start_server(self._accept, self.address.host, self.address.port)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Drop every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def received(self, count: int) -> list[ReceivedCall]:
        """The first `count` calls, once there are so many."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.calls) >= count)
        return self.calls[:count]

    async def connected(self, count: int) -> list[Peer]:
        """The first `count` connections, once there are so many."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.peers) >= count)
        return self.peers[:count]

    def calls_of(self, method: str) -> list[ReceivedCall]:
        return [call for call in self.calls if call.method == method]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(len(self.peers), writer)
        self.peers.append(peer)
        try:
            if self.on_connect is not None:
                self.on_connect(peer)
            await self._tell()
            peer.preamble = await reader.readexactly(7)
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                self._take(peer, io.BytesIO(await reader.readexactly(length)))
                await self._tell()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.failures.append(error)
        finally:
            peer.closed.set()
            writer.close()

    def _take(self, peer: Peer, received: io.BytesIO) -> None:
        header = _read(RpcRequestHeader, received)
        if header.call_id == SASL_CALL_ID:
            assert self.on_sasl is not None, "the client negotiates"
            self.on_sasl(peer, _read(RpcSasl, received))
        elif header.call_id == CONTEXT_CALL_ID:
            assert peer.context is None, "a second context"
            peer.context = _read(IpcConnectionContext, received)
        else:
            assert peer.context is not None, "a call before the context"
            method = _read(RequestHeader, received)
            call = ReceivedCall(
                peer, header, method.method_name, method.declaring_class_protocol_name, _read_delimited(received)
            )
            assert method.client_protocol_version == 1
            self.calls.append(call)
            self.script(call)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()


def _read(message_type: type[M], source: io.BytesIO) -> M:
    message = proto.parse_length_prefixed(message_type, source)
    assert message is not None and message.IsInitialized()
    return message


def _read_delimited(source: io.BytesIO) -> bytes:
    length = shift = 0
    while True:
        (byte,) = source.read(1)
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    rest = source.read()
    assert len(rest) == length, "a request of another length than it says"
    return rest
