"""What a DataNode sends: a block that is read, the reply to a set-up, acknowledgements of packets."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Iterator
from random import Random
from struct import pack
from typing import Any, Final

from crc32c import crc32c

from bmq.hdfs.blocks import DataNode
from bmq.hdfs.config import Address
from bmq.hdfs.datanode_connection import DataNodeConnection
from bmq.hdfs.delimited import delimited
from bmq.hdfs.errors import SetupRefused
from bmq.hdfs.packets import INCOMPLETE, UNUSUAL, Ack, BadAck, decode_ack, packet_head, read_ack
from bmq.hdfs.proto.transfer_pb2 import BlockOpResponse, PipelineAck, TransferStatus
from bmq.hdfs.read_packets import BlockReceiver, ReplicaError
from tests.fuzz.mutation import changed
from tests.fuzz.random_protobuf import random_protobuf
from tests.fuzz.target import Target

CHUNK_BYTES: Final = 512
_READ, _WRITE, _ACK = range(3)
_RANGE: Final = (100, 1500)
"""Position and length of what is read."""
_MEMORY_MAX: Final = 1 << 17
_NODE: Final = DataNode("dn0", Address("127.0.0.1", 1), Address("127.0.0.1", 2))
_loop: Final = asyncio.new_event_loop()
atexit.register(_loop.close)


def check(data: bytes) -> bool:
    """The first byte says what is awaited, the second how the stream is cut."""
    if len(data) < 2:
        return False
    kind, piece_bytes, stream = data[0] % 3, 1 + data[1], data[2:]
    if kind == _READ:
        return _is_read(stream, piece_bytes)
    if kind == _WRITE:
        return _is_heard(stream, piece_bytes)
    return _is_acknowledged(stream, 1 + data[1] % 3)


def _is_read(stream: bytes, piece_bytes: int) -> bool:
    receiver, place = BlockReceiver(*_RANGE), 0
    try:
        while place < len(stream):
            room = receiver.get_buffer()
            assert 0 < len(room) <= _MEMORY_MAX + len(stream), "its room has no bound"
            piece = stream[place : place + min(piece_bytes, len(room))]
            room[: len(piece)] = piece
            place += len(piece)
            if receiver.received(len(piece)):
                assert len(receiver.data) == _RANGE[1], "another range than was asked for"
                return True
    except ReplicaError:
        pass
    return False


class _Listener:
    """Implements bmq.hdfs.datanode_connection.Listener."""

    def __init__(self) -> None:
        self.is_bad = False

    def acknowledged(self, connection: DataNodeConnection) -> None:
        """News."""

    def heartbeat_acknowledged(self, connection: DataNodeConnection) -> None:
        """News."""

    def refused(self, connection: DataNodeConnection, ack: Ack) -> None:
        ack.bad_index()
        self.is_bad = True
        connection.abort()

    def lost(self, connection: DataNodeConnection, reason: str) -> None:
        self.is_bad = True
        connection.abort()


def _is_heard(stream: bytes, piece_bytes: int) -> bool:
    listener = _Listener()
    connection = DataNodeConnection(_NODE, listener, _loop, chain_nodes=3)
    ready = connection._ready
    assert ready is not None
    for place in range(0, len(stream), piece_bytes):
        connection.data_received(stream[place : place + piece_bytes])
        if ready.done() and ready.exception() is not None:
            assert isinstance(ready.exception(), SetupRefused)
            return False
        if listener.is_bad:
            return False
    if not ready.done():
        connection.abort()
        return False
    assert ready.result().HasField("status"), "a reply without a status is taken for a success"
    return True


def _is_acknowledged(stream: bytes, node_count: int) -> bool:
    """Decoded by hand and by protobuf it says the same."""
    try:
        end, seqno = read_ack(stream, 0, node_count)
        if end == INCOMPLETE:
            return False
        ack = decode_ack(stream, 0, end)
    except BadAck:
        return False
    if seqno != UNUSUAL:
        assert (ack.seqno, ack.is_success(node_count)) == (seqno, True), "by hand it is another acknowledgement"
    return ack.is_success(node_count)


def seeds() -> Iterator[bytes]:
    dice = Random(7)
    yield bytes((_READ, 255)) + _block()
    yield bytes((_READ, 0)) + _block()
    for status in TransferStatus.values():
        reply = BlockOpResponse(status=status, message="no\nwhy", first_bad_link="dn1")  # type: ignore[arg-type]
        yield bytes((_READ, 9)) + delimited(reply)
        yield bytes((_WRITE, 9)) + delimited(reply)
    success = delimited(BlockOpResponse(status=TransferStatus.SUCCESS))
    for pieces in (1, 40, 255):
        acks = b"".join(delimited(_ack(seqno, 3)) for seqno in range(5))
        yield bytes((_WRITE, pieces)) + success + acks + delimited(_ack(-1, 3))
    for count in range(1, 4):
        yield bytes((_ACK, count - 1)) + delimited(_ack(300, count))
        yield bytes((_ACK, count - 1)) + delimited(random_protobuf(PipelineAck, dice))


def mutate(data: bytes, dice: Random) -> bytes:
    """A packet with a wrong field and a right rest; or blindly."""
    if not dice.randrange(3):
        return bytes((_READ, dice.randrange(256))) + _block(dice)
    if not dice.randrange(3):
        count = dice.randint(1, 3)
        body = delimited(random_protobuf(PipelineAck, dice)) if dice.randrange(2) else delimited(_ack(5, count))
        return bytes((_ACK, count - 1)) + changed(body, dice)
    return changed(data, dice)


def _ack(seqno: int, count: int) -> PipelineAck:
    ack = PipelineAck(seqno=seqno, downstream_ack_time_nanos=77_000, flag=[0] * count)
    ack.reply.extend([TransferStatus.SUCCESS] * count)
    return ack


def _block(dice: Random | None = None) -> bytes:
    """The answer to a read of the range, in two packets; dice change a number or two."""

    def maybe(right: int) -> int:
        return dice.choice((0, 1, right + 1, 2**31 - 1, -1, 512)) if dice and not dice.randrange(12) else right

    response: Any = BlockOpResponse(status=TransferStatus.SUCCESS)
    info = response.read_op_checksum_info
    info.checksum.type, info.checksum.bytes_per_checksum = 2, maybe(CHUNK_BYTES) & 0xFFFF_FFFF
    info.chunk_offset = maybe(0) & 0xFFFF_FFFF
    out, offset = delimited(response), 0
    for count in (2, 2):
        body = bytes(count * CHUNK_BYTES)
        sums = [crc32c(body[:CHUNK_BYTES])] * count
        head = packet_head(offset=maybe(offset), seqno=0, data_bytes=maybe(len(body)), checksum_count=maybe(count) % 64)
        out += head + pack(f">{count}I", *sums) + body
        offset += len(body)
    return out + packet_head(offset=offset, seqno=9, data_bytes=0, is_last=maybe(1) == 1)


TARGET: Final = Target(
    "hdfs_transfer",
    seeds,
    check,
    ("bmq.hdfs.read_packets", "bmq.hdfs.packets", "bmq.hdfs.datanode_connection"),
    mutate,
)
