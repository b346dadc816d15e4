"""What a NameNode or a DataNode answers to calls: frames, headers, messages, errors."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from bmq.hdfs.blocks import FileBlocks, LocatedBlock
from bmq.hdfs.config import Address
from bmq.hdfs.delimited import read_delimited, varint
from bmq.hdfs.errors import RemoteError, store_error
from bmq.hdfs.proto import namenode_pb2
from bmq.hdfs.proto.rpc_pb2 import RpcResponseHeader, RpcSasl
from bmq.hdfs.rpc import RpcConnection
from bmq.hdfs.rpc_codec import MalformedAnswer, parse_body
from bmq.log.store import StoreError
from tests.fuzz.random_protobuf import changed_protobuf, random_protobuf
from tests.fuzz.target import Target

_ANSWERS: Final[list[type[Message]]] = [
    getattr(namenode_pb2, name) for name in sorted(vars(namenode_pb2)) if name.endswith("Response")
]
_WITH_BLOCK: Final = (
    namenode_pb2.AddBlockResponse,
    namenode_pb2.AppendResponse,
    namenode_pb2.UpdateBlockForPipelineResponse,
)
_CALL_ID: Final = 7
_loop: Final = asyncio.new_event_loop()
atexit.register(_loop.close)


class _Transport:
    """Of a connection that nobody is at the end of."""

    def abort(self) -> None:
        """Nothing is open."""


def check(data: bytes) -> bool:
    """The first byte says what was called, the second how the stream is cut; the answer is awaited by call 7."""
    if len(data) < 2:
        return False
    answer_class, piece_bytes, stream = _ANSWERS[data[0] % len(_ANSWERS)], 1 + data[1], data[2:]
    asyncio._set_running_loop(_loop)
    try:
        connection = RpcConnection(Address("nn", 8020), "protocol", bytes(16))
        connection._transport = _Transport()  # type: ignore[assignment]
        body = _loop.create_future()
        connection._waiting[_CALL_ID] = body
        for place in range(0, len(stream), piece_bytes):
            connection.data_received(stream[place : place + piece_bytes])
            if connection.is_closed:
                break
    finally:
        asyncio._set_running_loop(None)
    if not body.done():
        return False
    error = body.exception()
    if error is not None:
        assert isinstance(error, StoreError | RemoteError), f"a call fails with {error!r}"
        if isinstance(error, RemoteError):
            assert str(store_error(error, "/path"))
        return False
    return _is_understood(answer_class, body.result())


def _is_understood(answer_class: type[Message], body: bytes) -> bool:
    try:
        answer: Any = parse_body(body, answer_class)
    except MalformedAnswer:
        return False
    if answer_class is namenode_pb2.GetBlockLocationsResponse and answer.HasField("locations"):
        FileBlocks.of(answer.locations)
    elif answer_class in _WITH_BLOCK:
        LocatedBlock.of(answer.block)
    return True


def seeds() -> Iterator[bytes]:
    dice = Random(6)
    for number, answer_class in enumerate(_ANSWERS):
        for _ in range(3):
            header = RpcResponseHeader(call_id=_CALL_ID, status=RpcResponseHeader.SUCCESS)
            yield bytes((number, 255)) + _framed(header, random_protobuf(answer_class, dice))
    for name in ("StandbyException", "LeaseExpiredException", "AccessControlException", "Foo"):
        for status in (RpcResponseHeader.ERROR, RpcResponseHeader.FATAL):
            header = RpcResponseHeader(
                call_id=_CALL_ID, status=status, exception_class_name=name, error_message="no\nwhy"
            )
            yield bytes((0, 3)) + _framed(header)
    header = RpcResponseHeader(call_id=2**32 - 33, status=RpcResponseHeader.SUCCESS)
    yield bytes((0, 255)) + _framed(header, random_protobuf(RpcSasl, dice))


def mutate(data: bytes, dice: Random) -> bytes:
    """A field of the header or of the answer drawn anew."""
    try:
        encoded, place = read_delimited(data, 6)
        header = RpcResponseHeader.FromString(encoded)
        answer = _ANSWERS[data[0] % len(_ANSWERS)].FromString(read_delimited(data, place)[0])
    except (ValueError, DecodeError):
        number = dice.randrange(len(_ANSWERS))
        header = RpcResponseHeader(call_id=_CALL_ID, status=RpcResponseHeader.SUCCESS)
        data, answer = bytes((number, dice.randrange(256))), random_protobuf(_ANSWERS[number], dice)
    if dice.randrange(4):
        answer = changed_protobuf(answer, dice)
    else:
        header = changed_protobuf(header, dice)
    return data[:2] + _framed(header, answer)


def _framed(header: RpcResponseHeader, body: Message | None = None) -> bytes:
    frame = _delimited(header.SerializePartialToString()) + (
        b"" if body is None else _delimited(body.SerializePartialToString())
    )
    return len(frame).to_bytes(4, "big") + frame


def _delimited(encoded: bytes) -> bytes:
    return varint(len(encoded)) + encoded


TARGET: Final = Target("hdfs_rpc", seeds, check, ("bmq.hdfs.rpc", "bmq.hdfs.rpc_codec", "bmq.hdfs.delimited"), mutate)
