"""The bytes of one read from one replica: the request, the packets that answer it, the final status. Pure.

A DataNode extends a range to whole chunks (a chunk is the bytes under one checksum), and answers: `BlockOpResponse,
packet..., empty packet`. A packet is `int32 length, int16 header length, header, one checksum per chunk, data`. Then the
DataNode wants a ClientReadStatus, and keeps the connection for the next request.

`BlockReceiver` offers its caller the memory to receive into. A packet's data goes straight to its place in the answer;
headers and checksums pass through a small buffer. Where packets are small, as from DataNodes that encrypt, many packets pass
through a larger buffer.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c
from google.protobuf.message import DecodeError

from bmq.hdfs.blocks import Block
from bmq.hdfs.checksums import CHECKSUM_BYTES, CRC_OF_TYPE, Crc, wrong_chunk
from bmq.hdfs.delimited import delimited
from bmq.hdfs.packet_taking import IS_THERE, take_packets
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.transfer_pb2 import (
    BaseHeader,
    BlockOpResponse,
    ClientOperationHeader,
    ClientReadStatus,
    OpReadBlock,
    PacketHeader,
    TransferStatus,
)

CHUNK_BYTES_MAX: Final = 1024 * 1024
CHECKSUMS_BYTES_MAX: Final = 1024 * 1024  # of one packet
RESPONSE_BYTES_MAX: Final = 64 * 1024
HEADER_BYTES_MAX: Final = 1024
SCRATCH_BYTES: Final = 4096
SMALL_PACKET_BYTES: Final = 16 * 1024
"""Packets below this are received together, and taken many at a time; the data of larger ones is received at its place."""
SCRATCH_OF_SMALL_BYTES: Final = 128 * 1024

_SUCCESS: Final = TransferStatus.SUCCESS  # looking an enum's member up costs microseconds
_READ_BLOCK: Final = b"\x00\x1c\x51"  # protocol version 28, operation 81
_LENGTHS: Final = Struct(">iH")
_HEADER: Final = Struct("<BqBqBBBi")  # PacketHeader with its field tags; all of its fields have fixed sizes
_HEADER_TAGS: Final = (0x09, 0x11, 0x18, 0x25)
# Texts with which a DataNode refuses a range because its replica, open or complete, is too short.
_SHORT_SIGNS: Final = ("bytes, but only", "don't match block")


class ReplicaError(Exception):
    """One replica did not give the bytes; another one may. The message is one clause, without the node's name."""


class ReplicaLost(ReplicaError):
    """No connection, or it ended before the last packet."""


class ReplicaRefused(ReplicaError):
    """The DataNode answered with an error."""


class ReplicaMalformed(ReplicaError):
    """The answer does not follow the protocol."""


class ReplicaCorrupt(ReplicaError):
    """The bytes do not match their checksums, or the replica has no checksums."""


class ReplicaShort(ReplicaError):
    """The replica ends before the range does."""


VERIFIED: Final = delimited(ClientReadStatus(status=TransferStatus.CHECKSUM_OK))


def read_request(block: Block, token: Token, *, client_name: str, position: int, length_bytes: int) -> bytes:
    """The request for a range of a block, with checksums. `block.length_bytes`: how much of the block the range may touch."""
    base = BaseHeader(block=block.message(), token=token if token.IsInitialized() else None)
    header = ClientOperationHeader(base_header=base, client_name=client_name)
    request = OpReadBlock(header=header, offset=position, len=length_bytes, send_checksums=True)
    return _READ_BLOCK + delimited(request)


class BlockReceiver:
    """Receives the answer to one read request, however the network cuts it.

    `get_buffer` gives the memory for the next bytes. `received` is told how much of it was filled, and returns True after the
    last packet. Then `data` holds exactly the range, every byte verified. `received` raises ReplicaError. After that, or
    after the end, the receiver cannot be used again. Memory: the range, rounded out to whole chunks.
    """

    __slots__ = (
        "_answer",
        "_checksums",
        "_chunk_bytes",
        "_crc",
        "_filled",
        "_has_small_packets",
        "_is_answered",
        "_length_bytes",
        "_missing_bytes",
        "_packet_start",
        "_position",
        "_scratch",
        "_scratch_end",
        "_skipped_bytes",
        "_takes_many",
        "_view",
        "received_bytes",
    )

    def __init__(self, position: int, length_bytes: int) -> None:
        self._position = position
        self._length_bytes = length_bytes
        self._is_answered = False
        self._has_small_packets = False
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._scratch_end = 0
        self._answer = bytearray()
        self._view = memoryview(self._answer)
        self._skipped_bytes = 0  # before the range, because its first chunk begins earlier
        self._filled = 0
        self._packet_start = 0
        self._missing_bytes = 0  # of the packet whose data is being received
        self._checksums = b""
        self._chunk_bytes = 0
        self._crc: Crc = crc32c
        self._takes_many = False
        self.received_bytes = 0

    @property
    def data(self) -> bytearray | memoryview:
        if not self._skipped_bytes and len(self._answer) == self._length_bytes:
            return self._answer
        return self._view[self._skipped_bytes : self._skipped_bytes + self._length_bytes]

    def get_buffer(self) -> memoryview:
        if self._missing_bytes:
            return self._view[self._filled : self._filled + self._missing_bytes]
        return self._scratch[self._scratch_end :]

    def received(self, nbytes: int) -> bool:
        self.received_bytes += nbytes
        if self._missing_bytes:
            self._filled += nbytes
            self._missing_bytes -= nbytes
            if not self._missing_bytes:
                self._verify_packet()
            return False
        self._scratch_end += nbytes
        start = 0
        if not self._is_answered:
            start = self._take_response()
            if not start:
                return False
        return self._take_packets(start)

    # --- the response

    def _take_response(self) -> int:
        """Where the packets begin in the scratch; 0 while the response is incomplete."""
        scratch, end = self._scratch, self._scratch_end
        size_bytes = shift = at = 0
        while True:
            if at == end:
                return 0
            byte = scratch[at]
            size_bytes |= (byte & 0x7F) << shift
            at += 1
            shift += 7
            if byte < 0x80:
                break
            if shift > 28:
                raise ReplicaMalformed("the length of its answer is no number")
        if size_bytes > RESPONSE_BYTES_MAX:
            raise ReplicaMalformed(f"its answer has {size_bytes} bytes")
        if at + size_bytes > end:
            self._make_room(0, at + size_bytes)
            return 0
        try:
            response = BlockOpResponse.FromString(bytes(scratch[at : at + size_bytes]))
        except DecodeError as error:
            raise ReplicaMalformed("its answer cannot be decoded") from error
        if not response.HasField("status"):
            raise ReplicaMalformed("its answer has no status that we know")
        self._begin(response)
        return at + size_bytes

    def _begin(self, response: BlockOpResponse) -> None:
        if response.status != _SUCCESS:
            reason = response.message.split("\n", 1)[0][:300]
            if any(sign in reason for sign in _SHORT_SIGNS):
                raise ReplicaShort(reason)
            raise ReplicaRefused(f"{TransferStatus.Name(response.status)} {reason}".rstrip())
        checksum = response.read_op_checksum_info.checksum
        crc = CRC_OF_TYPE.get(checksum.type)
        if crc is None:
            raise ReplicaCorrupt("the replica has no checksums")
        chunk_bytes = checksum.bytes_per_checksum
        chunk_offset = response.read_op_checksum_info.chunk_offset
        skipped_bytes = self._position - chunk_offset
        if not 0 < chunk_bytes <= CHUNK_BYTES_MAX or not 0 <= skipped_bytes < chunk_bytes or chunk_offset % chunk_bytes:
            raise ReplicaMalformed(f"it sends from byte {chunk_offset} with {chunk_bytes} bytes under a checksum")
        self._crc = crc
        self._takes_many = IS_THERE and crc is crc32c
        self._chunk_bytes = chunk_bytes
        self._skipped_bytes = skipped_bytes
        self._answer = bytearray(-(-(skipped_bytes + self._length_bytes) // chunk_bytes) * chunk_bytes)
        self._view = memoryview(self._answer)
        self._is_answered = True

    # --- packets

    def _take_packets(self, start: int) -> bool:
        """Take every packet that begins in the scratch from `start` on. Returns True after the last one."""
        end = self._scratch_end
        if self._has_small_packets:
            start = self._take_whole_packets(start, end)
        while end - start >= _LENGTHS.size:
            scratch = self._scratch
            packet_bytes, header_bytes = _LENGTHS.unpack_from(scratch, start)
            header_end = start + _LENGTHS.size + header_bytes
            if header_bytes > HEADER_BYTES_MAX:
                raise ReplicaMalformed(f"a packet header has {header_bytes} bytes")
            if header_end > end:
                return self._wait_for(start, header_end - start)
            offset, is_last, data_bytes = _packet_header(scratch[start + _LENGTHS.size : header_end])
            checksums_bytes = packet_bytes - 4 - data_bytes
            self._check_header(offset, is_last, data_bytes, checksums_bytes)
            self._has_small_packets = self._takes_many and data_bytes < SMALL_PACKET_BYTES
            data_start = header_end + checksums_bytes
            needed_bytes = data_start - start + (data_bytes if self._has_small_packets else 0)
            if needed_bytes > end - start:
                return self._wait_for(start, needed_bytes)
            if is_last:
                return self._end(end - data_start)
            self._checksums = bytes(scratch[header_end:data_start])
            start = min(end, data_start + data_bytes)
            self._packet_start = self._filled
            here_bytes = start - data_start
            self._view[self._filled : self._filled + here_bytes] = scratch[data_start:start]
            self._filled += here_bytes
            self._missing_bytes = data_bytes - here_bytes
            if not self._missing_bytes:
                self._verify_packet()
        return self._wait_for(start, _LENGTHS.size)

    def _take_whole_packets(self, start: int, end: int) -> int:
        """Take all packets that are complete and right. Returns where they end."""
        taken, filled = take_packets(
            self._scratch[start:end],
            self._answer,
            filled=self._filled,
            next_offset=self._position - self._skipped_bytes + self._filled,
            chunk_bytes=self._chunk_bytes,
        )
        self._filled = filled
        return start + taken

    def _wait_for(self, start: int, needed_bytes: int) -> bool:
        self._make_room(start, needed_bytes)
        return False

    def _make_room(self, start: int, needed_bytes: int) -> None:
        """Keep what came from `start` on, in a scratch that holds at least `needed_bytes`."""
        kept = bytes(self._scratch[start : self._scratch_end])
        if self._has_small_packets:
            left_bytes = len(self._answer) - self._filled
            needed_bytes = max(needed_bytes, min(2 * left_bytes + SCRATCH_BYTES, SCRATCH_OF_SMALL_BYTES))
        if needed_bytes > len(self._scratch):
            self._scratch = memoryview(bytearray(needed_bytes))
        self._scratch[: len(kept)] = kept
        self._scratch_end = len(kept)

    def _check_header(self, offset: int, is_last: bool, data_bytes: int, checksums_bytes: int) -> None:
        expected_offset = self._position - self._skipped_bytes + self._filled
        if is_last or not data_bytes:
            # Only the end of the range has an empty packet, and it is empty.
            if not is_last or data_bytes or checksums_bytes:
                raise ReplicaMalformed(f"an unexpected packet of {data_bytes} bytes ends the range")
            return
        if offset != expected_offset:
            raise ReplicaMalformed(f"a packet for byte {offset} came where {expected_offset} was due")
        if not 0 < data_bytes <= len(self._answer) - self._filled:
            raise ReplicaMalformed(f"a packet of {data_bytes} bytes goes beyond the range")
        if self._filled % self._chunk_bytes:
            raise ReplicaMalformed("a packet begins inside a chunk")
        if (
            checksums_bytes != CHECKSUM_BYTES * -(-data_bytes // self._chunk_bytes)
            or checksums_bytes > CHECKSUMS_BYTES_MAX
        ):
            raise ReplicaMalformed(f"a packet of {data_bytes} bytes has {checksums_bytes} bytes of checksums")

    def _verify_packet(self) -> None:
        data = self._view[self._packet_start : self._filled]
        chunk = wrong_chunk(self._crc, data, self._chunk_bytes, self._checksums)
        if chunk is not None:
            at = self._position - self._skipped_bytes + self._packet_start + chunk * self._chunk_bytes
            raise ReplicaCorrupt(f"the chunk at byte {at} of the block does not have its checksum")

    def _end(self, stray_bytes: int) -> bool:
        if stray_bytes:
            raise ReplicaMalformed(f"{stray_bytes} bytes came behind the last packet")
        available_bytes = self._filled - self._skipped_bytes
        if available_bytes < self._length_bytes:
            raise ReplicaShort(f"{available_bytes} bytes came, {self._length_bytes} were asked for")
        return True


def _packet_header(header: memoryview) -> tuple[int, bool, int]:
    """(offset in the block, whether it is the last packet, bytes of data)."""
    if len(header) == _HEADER.size:
        tag, offset, seqno_tag, _, last_tag, is_last, data_tag, data_bytes = _HEADER.unpack(header)
        if (tag, seqno_tag, last_tag, data_tag) == _HEADER_TAGS:
            return offset, bool(is_last), data_bytes
    try:
        message = PacketHeader.FromString(bytes(header))
    except DecodeError as error:
        raise ReplicaMalformed("a packet header cannot be decoded") from error
    if not message.IsInitialized():
        raise ReplicaMalformed("a packet header lacks a field")
    return message.offset_in_block, message.last_packet_in_block, message.data_len
