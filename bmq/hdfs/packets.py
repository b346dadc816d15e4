"""The bytes of a block's write stream: packets with their checksums, and acknowledgements. Pure.

A packet is `int32 length, int16 header length, header, one CRC32C per chunk, data`. DataNodes take a packet only where a
chunk begins, so what is appended behind an unfinished chunk goes out together with a copy of that chunk's beginning; they
skip what they have and replace the chunk's checksum. (A packet may begin elsewhere if it is shorter than a chunk, but one
that then crosses a chunk's end is acknowledged with a wrong checksum on disk. None is made here.)
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from bmq.dataclass import dataclass
from bmq.hdfs.buffer_slices import parts_of
from bmq.hdfs.chunk_checksums import chunk_checksums, write_chunk_checksums
from bmq.hdfs.proto.transfer_pb2 import PipelineAck, TransferStatus
from bmq.log.store import Buffer

HEARTBEAT_SEQNO: Final = -1
JOIN_BYTES_MAX: Final = 64 * 1024  # below it one copy is cheaper than handing the kernel several buffers
PIECES_MAX: Final = 32  # more buffers than this to one packet are joined, too
ACK_BYTES_MAX: Final = 64 * 1024  # some 30 bytes are normal

_LENGTHS: Final = Struct(">IH")
_HEADER: Final = Struct("<BqBqBBBi")  # PacketHeader with its field tags; all of its fields have fixed sizes
_OFFSET_TAG: Final = 0x09
_SEQNO_TAG: Final = 0x11
_LAST_TAG: Final = 0x18
_DATA_BYTES_TAG: Final = 0x25
_SYNC_FIELD: Final = b"\x28\x01"
_HEAD_BYTES: Final = _LENGTHS.size + _HEADER.size

_ACK_SEQNO_TAG: Final = 0x08
_ACK_REPLY_TAG: Final = 0x10
_ACK_TIME_TAG: Final = 0x18
_ACK_FLAGS_TAG: Final = 0x22


class Packet(NamedTuple):
    """One packet ready for the wire. `end_position`: where its data ends in the block."""

    seqno: int
    end_position: int
    pieces: Sequence[Buffer]


def packet_head(
    *,
    offset: int,
    seqno: int,
    data_bytes: int,
    checksum_count: int = 0,
    is_last: bool = False,
    is_sync: bool = False,
) -> bytes:
    """Everything before the checksums."""
    header = _HEADER.pack(_OFFSET_TAG, offset, _SEQNO_TAG, seqno, _LAST_TAG, is_last, _DATA_BYTES_TAG, data_bytes)
    if is_sync:
        header += _SYNC_FIELD
    return _LENGTHS.pack(4 + 4 * checksum_count + data_bytes, len(header)) + header


HEARTBEAT: Final = packet_head(offset=0, seqno=HEARTBEAT_SEQNO, data_bytes=0)


class PacketEncoder:
    """Cuts one block's bytes into packets. `position`: end of the encoded bytes. `next_seqno`: number of the next packet.

    `packet_bytes_max` bounds a packet's data; it is rounded down to whole chunks.
    """

    __slots__ = ("_chunk_bytes", "_data_bytes_max", "_tail", "next_seqno", "position")

    def __init__(self, *, chunk_bytes: int, packet_bytes_max: int) -> None:
        self._chunk_bytes = chunk_bytes
        self._data_bytes_max = max(chunk_bytes, packet_bytes_max // chunk_bytes * chunk_bytes)
        self._tail: bytes | None = b""  # of the unfinished chunk; None when it is not known
        self.position = 0
        self.next_seqno = 0

    def move(self, position: int) -> None:
        """Continue at `position`, as if everything before it had been written. A chunk has to begin there, unless no data
        follows.
        """
        self.position = position
        self._tail = None if position % self._chunk_bytes else b""

    def encode(self, buffers: Sequence[Buffer], size_bytes: int, *, is_sync: bool = False) -> list[Packet]:
        """Packets for `size_bytes` (at least 1) of buffers; `is_sync` marks the last packet.

        Raises ValueError behind an unfinished chunk whose bytes are not known.
        """
        tail = self._tail
        if tail is None:
            raise ValueError(f"the bytes before position {self.position} are not known")
        total_bytes = len(tail) + size_bytes
        pieces: Sequence[Buffer] = [tail, *buffers] if tail else buffers
        if total_bytes <= self._data_bytes_max:
            return [self._packet(pieces, total_bytes, is_sync=is_sync)]
        packets: list[Packet] = []
        for part, part_bytes in parts_of(pieces, self._data_bytes_max):
            total_bytes -= part_bytes
            packets.append(self._packet(part, part_bytes, is_sync=is_sync and not total_bytes))
        return packets

    def encode_sync(self) -> Packet:
        """An empty packet that makes durable everything before it."""
        return self._empty(is_sync=True)

    def encode_last(self, *, is_sync: bool = False) -> Packet:
        """The packet that ends the block. `is_sync`: everything before it has to be on disk."""
        return self._empty(is_sync=is_sync, is_last=True)

    def _empty(self, *, is_sync: bool = False, is_last: bool = False) -> Packet:
        head = packet_head(offset=self.position, seqno=self.next_seqno, data_bytes=0, is_sync=is_sync, is_last=is_last)
        packet = Packet(self.next_seqno, self.position, (head,))
        self.next_seqno += 1
        return packet

    def _packet(self, pieces: Sequence[Buffer], data_bytes: int, *, is_sync: bool) -> Packet:
        """One packet that begins with the unfinished chunk and ends with all of `pieces`."""
        assert self._tail is not None
        chunk_bytes = self._chunk_bytes
        seqno = self.next_seqno
        self.next_seqno = seqno + 1
        offset = self.position - len(self._tail)
        self.position = end_position = offset + data_bytes
        tail_bytes = data_bytes % chunk_bytes
        checksum_count = (data_bytes + chunk_bytes - 1) // chunk_bytes
        head = packet_head(
            offset=offset, seqno=seqno, data_bytes=data_bytes, checksum_count=checksum_count, is_sync=is_sync
        )
        if data_bytes > JOIN_BYTES_MAX and len(pieces) <= PIECES_MAX:
            head += chunk_checksums(pieces, chunk_bytes)
            self._tail = _end_of(pieces, tail_bytes)
            return Packet(seqno, end_position, (head, *pieces))
        data_start = len(head) + 4 * checksum_count
        wire = bytearray().join((head, bytes(4 * checksum_count), *pieces))
        write_chunk_checksums(wire, len(head), data_start, chunk_bytes)
        self._tail = bytes(wire[-tail_bytes:]) if tail_bytes else b""
        return Packet(seqno, end_position, (wire,))


def _end_of(pieces: Sequence[Buffer], size_bytes: int) -> bytes:
    """A copy of the last `size_bytes` bytes."""
    end: list[Buffer] = []
    for piece in reversed(pieces):
        if size_bytes <= 0:
            break
        end.append(memoryview(piece)[-size_bytes:])
        size_bytes -= len(piece)
    return b"".join(reversed(end))


# --- acknowledgements

INCOMPLETE: Final = 0  # in place of the end position: more bytes are needed
UNUSUAL: Final = -1000  # in place of the seqno: `decode_ack` tells


@dataclass(frozen=True, slots=True)
class Ack:
    """`statuses`: one per node of the pipeline, first node first."""

    seqno: int
    statuses: tuple[int, ...]

    def is_success(self, node_count: int) -> bool:
        """Whether every node reports success. Statuses unknown to the protocol are missing from `statuses`."""
        return len(self.statuses) == node_count and self.bad_index() is None

    def bad_index(self) -> int | None:
        """Which node of the pipeline failed: the last one with an error, as nodes before it only pass errors on."""
        bad = [index for index, status in enumerate(self.statuses) if status != TransferStatus.SUCCESS]
        return bad[-1] if bad else None


class BadAck(Exception):
    """Received bytes are no acknowledgement."""


def read_ack(data: bytes, start: int, node_count: int) -> tuple[int, int]:
    """The length-prefixed acknowledgement at `start`: where it ends, and its seqno if `node_count` nodes say SUCCESS.

    (INCOMPLETE, 0) when it is not all there; (end, UNUSUAL) when it is not a plain success. Raises BadAck for a length
    that cannot be. PipelineAck is decoded by hand because several arrive for every packet.
    """
    size_bytes = len(data)
    try:
        length_bytes = data[start]
        at = start + 1
        if length_bytes & 0x80:
            length_bytes, at = read_varint(data, start)
            if length_bytes > ACK_BYTES_MAX:
                raise BadAck(f"an acknowledgement of {length_bytes} bytes")
        end = at + length_bytes
        if end > size_bytes:
            return INCOMPLETE, 0
    except IndexError:
        return INCOMPLETE, 0
    try:
        if data[at] != _ACK_SEQNO_TAG:
            return end, UNUSUAL
        value = data[at + 1]
        at += 2
        if value & 0x80:
            value, at = read_varint(data, at - 1)
        reply_start = at
        while at < end and data[at] == _ACK_REPLY_TAG:
            if data[at + 1]:
                return end, UNUSUAL
            at += 2
        if at - reply_start != 2 * node_count:
            return end, UNUSUAL
        if at < end and data[at] == _ACK_TIME_TAG:
            at += 2
            while data[at - 1] & 0x80:
                at += 1
        if at < end and data[at] == _ACK_FLAGS_TAG:
            at += 2 + data[at + 1]
    except IndexError:
        return end, UNUSUAL
    if at != end:
        return end, UNUSUAL
    return end, (value >> 1) ^ -(value & 1)


def decode_ack(data: bytes, start: int, end: int) -> Ack:
    """The whole acknowledgement between `start` and `end`, decoded by protobuf. Raises BadAck."""
    try:
        _, at = read_varint(data, start)
        message = PipelineAck.FromString(data[at:end])
    except (DecodeError, IndexError) as error:
        raise BadAck("bytes that are no acknowledgement") from error
    if not message.IsInitialized():
        raise BadAck("an acknowledgement of no packet")
    return Ack(message.seqno, tuple(message.reply))


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """A protobuf varint: the value and where it ends. Raises IndexError when it is cut off, BadAck past 64 bits."""
    value = shift = 0
    at = start
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise BadAck("a number of more than 64 bits")
