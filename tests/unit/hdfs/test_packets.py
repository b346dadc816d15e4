"""Packets as a DataNode reads them, acknowledgements as protobuf reads them."""

from __future__ import annotations

from dataclasses import dataclass
from struct import unpack_from

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.hdfs.delimited import varint
from bmq.hdfs.packets import (
    ACK_BYTES_MAX,
    HEARTBEAT,
    INCOMPLETE,
    JOIN_BYTES_MAX,
    PIECES_MAX,
    UNUSUAL,
    BadAck,
    Packet,
    PacketEncoder,
    decode_ack,
    packet_head,
    read_ack,
    read_varint,
)
from bmq.hdfs.proto.transfer_pb2 import PacketHeader, PipelineAck, TransferStatus

pytestmark = pytest.mark.unit

CHUNK = 16
SIZES = st.one_of(st.sampled_from([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK]), st.integers(0, 200))
APPENDS = st.lists(st.lists(SIZES, max_size=5), max_size=12)


@dataclass
class Parsed:
    header: PacketHeader
    checksums: tuple[int, ...]
    data: bytes


def parse(packet: Packet) -> Parsed:
    """A packet as the protocol describes it, by protobuf's own parser."""
    wire = b"".join(bytes(piece) for piece in packet.pieces)
    length_bytes, header_bytes = unpack_from(">IH", wire)
    header = PacketHeader.FromString(wire[6 : 6 + header_bytes])
    assert header.SerializeToString() == wire[6 : 6 + header_bytes]
    checksums_bytes = length_bytes - 4 - header.data_len
    assert len(wire) == 6 + header_bytes + checksums_bytes + header.data_len
    checksums = unpack_from(f">{checksums_bytes // 4}I", wire, 6 + header_bytes)
    return Parsed(header, checksums, wire[len(wire) - header.data_len :])


class Replica:
    """A block as a DataNode keeps it: bytes, and one checksum per chunk."""

    def __init__(self, chunk_bytes: int) -> None:
        self.chunk_bytes = chunk_bytes
        self.data = bytearray()
        self.checksums: list[int] = []
        self.next_seqno = 0

    def take(self, parsed: Parsed) -> None:
        header = parsed.header
        assert header.seqno == self.next_seqno
        self.next_seqno += 1
        if not header.data_len:
            assert header.offset_in_block == len(self.data)
            return
        assert header.offset_in_block % self.chunk_bytes == 0
        assert header.offset_in_block <= len(self.data)
        known = len(self.data) - header.offset_in_block
        assert parsed.data[:known] == self.data[header.offset_in_block :]
        assert len(parsed.data) > known
        del self.data[header.offset_in_block :]
        del self.checksums[header.offset_in_block // self.chunk_bytes :]
        self.data += parsed.data
        self.checksums += parsed.checksums

    def check(self) -> None:
        chunks = [self.data[at : at + self.chunk_bytes] for at in range(0, len(self.data), self.chunk_bytes)]
        assert self.checksums == [crc32c(chunk) for chunk in chunks]


def filled(size_bytes: int, seed: int) -> bytes:
    return bytes((seed * 31 + at * 7) & 0xFF for at in range(size_bytes))


@given(APPENDS, st.sampled_from([1, CHUNK, 3 * CHUNK + 5, 1024]), st.booleans())
def test_whatever_is_appended_lies_on_the_datanode_with_right_checksums(
    appends: list[list[int]], packet_bytes_max: int, is_sync: bool
) -> None:
    encoder = PacketEncoder(chunk_bytes=CHUNK, packet_bytes_max=packet_bytes_max)
    replica = Replica(CHUNK)
    want = bytearray()
    for number, sizes in enumerate(appends):
        buffers = [memoryview(filled(size, number + index)) for index, size in enumerate(sizes)]
        want += b"".join(buffers)
        packets = [encoder.encode_sync()] if not any(sizes) else encoder.encode(buffers, sum(sizes), is_sync=is_sync)
        for packet in packets:
            parsed = parse(packet)
            assert parsed.header.data_len <= max(CHUNK, packet_bytes_max)
            replica.take(parsed)
            assert (packet.seqno, packet.end_position) == (parsed.header.seqno, len(replica.data))
        syncs = [parse(packet).header.sync_block for packet in packets]
        assert syncs == [False] * (len(packets) - 1) + [is_sync or not any(sizes)]
        assert encoder.position == len(want)
    last = parse(encoder.encode_last())
    replica.take(last)
    assert last.header.last_packet_in_block
    assert replica.data == want
    replica.check()


@pytest.mark.parametrize("piece_bytes", [JOIN_BYTES_MAX * 3 // 10, 5000, 700])
def test_large_packets_borrow_their_data_unless_it_comes_in_crumbs(piece_bytes: int) -> None:
    count = JOIN_BYTES_MAX * 2 // piece_bytes
    buffers = [memoryview(filled(piece_bytes, index)) for index in range(count)]
    encoder = PacketEncoder(chunk_bytes=4096, packet_bytes_max=1024 * 1024)
    replica = Replica(4096)
    replica.take(parse(encoder.encode((b"head",), 4)[0]))
    (packet,) = encoder.encode(buffers, count * piece_bytes)
    replica.take(parse(packet))
    assert replica.data == b"head" + b"".join(buffers)
    replica.check()
    if count < PIECES_MAX:
        assert all(any(piece is buffer for buffer in buffers) for piece in packet.pieces[2:])
    else:
        assert len(packet.pieces) == 1
    replica.take(parse(encoder.encode((b"tail",), 4)[0]))
    assert replica.data == b"head" + b"".join(buffers) + b"tail"
    replica.check()


def test_the_copy_of_an_unfinished_chunk_does_not_follow_its_buffer() -> None:
    encoder = PacketEncoder(chunk_bytes=CHUNK, packet_bytes_max=1024)
    buffer = bytearray(b"first")
    encoder.encode((memoryview(buffer),), 5)
    buffer[:] = b"other"
    assert parse(encoder.encode((b"!",), 1)[0]).data == b"first!"


def test_a_stream_can_go_on_at_a_chunk_and_end_anywhere() -> None:
    encoder = PacketEncoder(chunk_bytes=CHUNK, packet_bytes_max=1024)
    encoder.encode((b"x" * 40,), 40)
    encoder.move(CHUNK)
    (packet,) = encoder.encode((b"y" * 30,), 30)
    parsed = parse(packet)
    assert (parsed.header.offset_in_block, packet.end_position) == (CHUNK, CHUNK + 30)
    encoder.move(CHUNK + 3)
    with pytest.raises(ValueError, match="position 19"):
        encoder.encode((b"z",), 1)
    assert parse(encoder.encode_last()).header.offset_in_block == CHUNK + 3


def test_a_heartbeat_is_what_the_protocol_says() -> None:
    parsed = parse(Packet(-1, 0, (HEARTBEAT,)))
    assert parsed.header == PacketHeader(offset_in_block=0, seqno=-1, last_packet_in_block=False, data_len=0)


@given(st.integers(0, 2**62), st.integers(-1, 2**62), st.integers(0, 2**24), st.booleans(), st.booleans())
def test_a_header_is_what_protobuf_makes_of_it(
    offset: int, seqno: int, data_bytes: int, is_last: bool, is_sync: bool
) -> None:
    head = packet_head(offset=offset, seqno=seqno, data_bytes=data_bytes, is_last=is_last, is_sync=is_sync)
    message = PacketHeader(offset_in_block=offset, seqno=seqno, last_packet_in_block=is_last, data_len=data_bytes)
    if is_sync:
        message.sync_block = True
    assert head[6:] == message.SerializeToString()
    assert unpack_from(">IH", head) == (4 + data_bytes, len(head) - 6)


# --- acknowledgements

STATUSES = st.sampled_from(TransferStatus.values())
ACKS = st.builds(
    PipelineAck,
    seqno=st.one_of(st.integers(-2, 300), st.integers(-(2**63), 2**63 - 1)),
    reply=st.one_of(st.lists(st.just(TransferStatus.SUCCESS), max_size=4), st.lists(STATUSES, max_size=4)),
    downstream_ack_time_nanos=st.one_of(st.none(), st.integers(0, 2**64 - 1)),
    flag=st.lists(st.integers(0, 2**32 - 1), max_size=4),
)


def framed(message: PipelineAck) -> bytes:
    body = message.SerializeToString()
    return varint(len(body)) + body


@given(st.lists(ACKS, min_size=1, max_size=5), st.integers(0, 40), st.sampled_from([1, 3]))
@example([PipelineAck(seqno=7, reply=[0, 0, 0], downstream_ack_time_nanos=544021, flag=[0, 0, 0])], 0, 3)  # type: ignore[list-item]
def test_acknowledgements_are_read_as_protobuf_reads_them(
    messages: list[PipelineAck], cut: int, node_count: int
) -> None:
    wire = b"".join(framed(message) for message in messages)
    at = 0
    for message in messages:
        end, seqno = read_ack(wire, at, node_count)
        assert end == at + len(framed(message))
        ack = decode_ack(wire, at, end)
        assert (ack.seqno, ack.statuses) == (message.seqno, tuple(message.reply))
        if ack.is_success(node_count):
            assert seqno == message.seqno or (seqno == UNUSUAL and message.seqno == UNUSUAL)
        else:
            assert seqno == UNUSUAL
        at = end
    assert at == len(wire)
    # However little of the last one is there, more is asked for.
    start = len(wire) - len(framed(messages[-1]))
    if start + cut < len(wire):
        assert read_ack(wire[: start + cut], start, node_count) == (INCOMPLETE, 0)


@given(st.binary(max_size=40))
def test_garbage_is_no_acknowledgement_and_no_accident(data: bytes) -> None:
    try:
        end, seqno = read_ack(data, 0, 1)
        if end == INCOMPLETE:
            return
        ack = decode_ack(data, 0, end)
    except BadAck:
        return
    assert seqno in (UNUSUAL, ack.seqno)
    assert seqno == UNUSUAL or ack.is_success(1)


def test_a_length_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadAck):
        read_ack(varint(ACK_BYTES_MAX + 1), 0, 1)
    with pytest.raises(BadAck):
        read_ack(b"\xff" * 12, 0, 1)


@pytest.mark.parametrize(
    ("statuses", "index"), [((0, 0, 0), None), ((0, 1, 0), 1), ((1,), 0), ((1, 1, 0), 1), ((), None)]
)
def test_the_last_bad_status_of_a_chain_is_its_cause(statuses: tuple[int, ...], index: int | None) -> None:
    body = PipelineAck(seqno=-2, reply=[TransferStatus.Name(status) for status in statuses]).SerializeToString()
    wire = varint(len(body)) + body
    assert decode_ack(wire, 0, len(wire)).bad_index() == index


def test_a_status_nobody_knows_is_no_success() -> None:
    body = bytes.fromhex("0810100010631000")
    wire = varint(len(body)) + body
    end, seqno = read_ack(wire, 0, 3)
    assert (end, seqno) == (len(wire), UNUSUAL)
    assert not decode_ack(wire, 0, end).is_success(3)


def test_fields_of_a_later_version_do_not_make_a_success_a_failure() -> None:
    body = bytes.fromhex("081010002a0100")
    wire = varint(len(body)) + body
    assert read_ack(wire, 0, 1) == (len(wire), UNUSUAL)
    ack = decode_ack(wire, 0, len(wire))
    assert ack.is_success(1)
    assert ack.seqno == 8


@given(st.integers(0, 2**63))
def test_varints(value: int) -> None:
    assert read_varint(b"?" + varint(value), 1) == (value, 1 + len(varint(value)))


def test_the_last_packet_may_ask_for_everything_to_be_on_disk() -> None:
    for is_sync in (False, True):
        encoder = PacketEncoder(chunk_bytes=512, packet_bytes_max=4096)
        (wire,) = encoder.encode_last(is_sync=is_sync).pieces
        header = PacketHeader.FromString(bytes(wire)[6:])
        assert (header.last_packet_in_block, header.sync_block, header.data_len) == (True, is_sync, 0)
