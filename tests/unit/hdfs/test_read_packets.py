"""The answer to a read request: taken in whole however it is cut, and never believed against its checksums."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.hdfs.blocks import Block
from bmq.hdfs.packet_taking import take_packets
from bmq.hdfs.packets import packet_head
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.transfer_pb2 import ChecksumType, ClientReadStatus, OpReadBlock, PacketHeader, TransferStatus
from bmq.hdfs.read_packets import (
    CHUNK_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    VERIFIED,
    BlockReceiver,
    ReplicaCorrupt,
    ReplicaError,
    ReplicaMalformed,
    ReplicaRefused,
    ReplicaShort,
    read_request,
)
from tests.unit.hdfs.reading_datanode import answer, delimited, end_packet, packet, refusal, success

pytestmark = pytest.mark.unit

CONTENT = Random(7).randbytes(5000)
TYPES = st.sampled_from([ChecksumType.CHECKSUM_CRC32, ChecksumType.CHECKSUM_CRC32C])


def feed(receiver: BlockReceiver, wire: bytes, cuts: Random | None = None) -> bool:
    """Hand over `wire` in as large pieces as the receiver takes, or cut by `cuts`. Whether it is complete."""
    at = 0
    while at < len(wire):
        buffer = receiver.get_buffer()
        assert len(buffer) > 0
        size_bytes = min(len(buffer), len(wire) - at)
        if cuts is not None:
            size_bytes = min(size_bytes, cuts.choice((1, 2, 7, 100, 5000)))
        buffer[:size_bytes] = wire[at : at + size_bytes]
        at += size_bytes
        if receiver.received(size_bytes):
            return True
    return False


@st.composite
def ranges(draw: st.DrawFn) -> tuple[int, int]:
    position = draw(st.integers(0, len(CONTENT) - 1))
    return position, draw(st.integers(1, len(CONTENT) - position))


@given(
    ranges(),
    st.sampled_from([1, 16, 512, 513, 4096]),
    st.sampled_from([1, 512, 2000, 65536]),
    TYPES,
    st.none() | st.integers(0, 2**32),
)
@example((0, 5000), 512, 65536, ChecksumType.CHECKSUM_CRC32C, None)
@example((4999, 1), 4096, 65536, ChecksumType.CHECKSUM_CRC32, 1)
def test_the_range_arrives_whole(
    wanted: tuple[int, int], chunk_bytes: int, packet_bytes: int, checksum_type: int, cuts: int | None
) -> None:
    position, length_bytes = wanted
    wire = b"".join(
        answer(
            CONTENT,
            position,
            length_bytes,
            chunk_bytes=chunk_bytes,
            packet_bytes=packet_bytes,
            checksum_type=checksum_type,
        )
    )
    receiver = BlockReceiver(position, length_bytes)
    assert feed(receiver, wire, None if cuts is None else Random(cuts))
    assert bytes(receiver.data) == CONTENT[position : position + length_bytes]
    assert receiver.received_bytes == len(wire)


def test_a_range_of_whole_chunks_is_handed_over_as_it_was_received() -> None:
    receiver = BlockReceiver(512, 1024)
    assert feed(receiver, b"".join(answer(CONTENT, 512, 1024, chunk_bytes=512)))
    assert isinstance(receiver.data, bytearray)


def test_checksums_larger_than_the_small_buffer_arrive() -> None:
    content = Random(1).randbytes(30_000)
    receiver = BlockReceiver(0, len(content))
    assert feed(receiver, b"".join(answer(content, 0, len(content), chunk_bytes=4)))
    assert bytes(receiver.data) == content


@given(ranges(), st.data(), st.integers(0, 7), st.sampled_from([64, 512, 4096]), st.integers(0, 2**32))
def test_no_flipped_bit_gives_wrong_bytes(
    wanted: tuple[int, int], data: st.DataObject, bit: int, chunk_bytes: int, cuts: int
) -> None:
    position, length_bytes = wanted
    wire = bytearray(b"".join(answer(CONTENT, position, length_bytes, chunk_bytes=chunk_bytes, packet_bytes=2048)))
    wire[data.draw(st.integers(0, len(wire) - 1))] ^= 1 << bit
    receiver = BlockReceiver(position, length_bytes)
    try:
        is_complete = feed(receiver, bytes(wire), Random(cuts))
    except ReplicaError:
        return
    if is_complete:
        assert bytes(receiver.data) == CONTENT[position : position + length_bytes]


LARGE_CONTENT = Random(9).randbytes(400_000)


def outcome(position: int, length_bytes: int, wire: bytes, cuts: int | None) -> object:
    """The data, False for an answer that is not complete, or why it was refused."""
    receiver = BlockReceiver(position, length_bytes)
    try:
        return feed(receiver, wire, None if cuts is None else Random(cuts)) and bytes(receiver.data)
    except ReplicaError as error:
        return type(error), str(error)


def one_by_one(position: int, length_bytes: int, wire: bytes) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bmq.hdfs.read_packets.IS_THERE", False)
        return outcome(position, length_bytes, wire, None)


def test_small_packets_are_taken_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def counted(data: memoryview, answer: bytearray, **places: int) -> tuple[int, int]:
        found = take_packets(data, answer, **places)
        taken.append(found[0])
        return found

    monkeypatch.setattr("bmq.hdfs.read_packets.take_packets", counted)
    wire = b"".join(answer(LARGE_CONTENT, 100, 390_000, chunk_bytes=512, packet_bytes=4096))
    assert outcome(100, 390_000, wire, None) == LARGE_CONTENT[100:390_100]
    assert len(taken) < 10 and sum(taken) > 380_000


@given(
    st.integers(0, 2_000),
    st.integers(1, 350_000),
    st.sampled_from([1, 512, 1000]),
    st.sampled_from([700, 4096, 16_000, 17_000]),
    st.none() | st.integers(0, 2**32),
    st.data(),
)
def test_many_at_a_time_are_judged_as_one_by_one(
    position: int, length_bytes: int, chunk_bytes: int, packet_bytes: int, cuts: int | None, data: st.DataObject
) -> None:
    """Whole, and with a byte that is wrong somewhere."""
    if chunk_bytes == 1:
        length_bytes = length_bytes % 3_000 + 1
    whole = b"".join(answer(LARGE_CONTENT, position, length_bytes, chunk_bytes=chunk_bytes, packet_bytes=packet_bytes))
    assert outcome(position, length_bytes, whole, cuts) == LARGE_CONTENT[position : position + length_bytes]
    wire = bytearray(whole)
    wire[data.draw(st.integers(0, len(wire) - 1))] ^= data.draw(st.integers(1, 255))
    assert outcome(position, length_bytes, bytes(wire), cuts) == one_by_one(position, length_bytes, bytes(wire))


@given(st.binary(max_size=20_000), st.integers(0, 2**32))
def test_noise_is_refused_or_waited_for(noise: bytes, cuts: int) -> None:
    receiver = BlockReceiver(100, 1000)
    try:
        assert not feed(receiver, noise, Random(cuts))
    except ReplicaError:
        pass


@given(st.binary(min_size=1, max_size=20_000), st.integers(0, 2**32))
def test_noise_after_a_good_response_is_refused_or_waited_for(noise: bytes, cuts: int) -> None:
    receiver = BlockReceiver(0, 1000)
    try:
        assert not feed(receiver, success(0, 512) + noise, Random(cuts))
    except ReplicaError:
        pass


@pytest.mark.parametrize("flipped", ["data", "checksum"])
def test_a_wrong_chunk_is_named(flipped: str) -> None:
    pieces = answer(CONTENT, 1024, 2048, chunk_bytes=512)
    wire = bytearray(pieces[1])
    wire[-600 if flipped == "data" else 31 + 2 * 4] ^= 1  # of four chunks the third
    with pytest.raises(ReplicaCorrupt, match="chunk at byte 2048"):
        feed(BlockReceiver(1024, 2048), pieces[0] + bytes(wire))


@pytest.mark.parametrize("at", [0, 4095])
def test_the_part_of_a_chunk_beside_the_range_is_verified_too(at: int) -> None:
    """The bytes before and behind the range are under the same checksum, so it cannot be checked without them."""
    pieces = answer(CONTENT, 1000, 100)
    wire = bytearray(pieces[1])
    wire[len(wire) - 4096 + at] ^= 1
    with pytest.raises(ReplicaCorrupt):
        feed(BlockReceiver(1000, 100), pieces[0] + bytes(wire) + pieces[2])


def test_a_replica_without_checksums_is_not_believed() -> None:
    with pytest.raises(ReplicaCorrupt, match="no checksums"):
        feed(BlockReceiver(0, 100), success(0, 512, ChecksumType.CHECKSUM_NULL))


@pytest.mark.parametrize(
    "message",
    [
        "opReadBlock blk_7 received exception java.io.IOException: Need 200008 bytes, but only 200007 bytes available",
        "java.io.IOException:  Offset 200000 and length 100 don't match block blk_7_1 ( blockLen 200007 )",
    ],
)
def test_a_replica_that_ends_early_is_short(message: str) -> None:
    with pytest.raises(ReplicaShort):
        feed(BlockReceiver(0, 100), refusal(message))


def test_a_refusal_carries_status_and_first_line() -> None:
    with pytest.raises(ReplicaRefused, match=r"^ERROR_ACCESS_TOKEN expired$"):
        feed(BlockReceiver(0, 100), refusal("expired\n\tat java.lang", TransferStatus.ERROR_ACCESS_TOKEN))


def test_an_answer_that_ends_before_the_range_is_short() -> None:
    pieces = answer(CONTENT, 0, 1024, chunk_bytes=512)
    with pytest.raises(ReplicaShort, match="1024 bytes came, 2048"):
        feed(BlockReceiver(0, 2048), b"".join(pieces))


def head(**changes: int) -> bytes:
    fields = {"offset": 0, "seqno": 0, "data_bytes": 512, "checksum_count": 1} | changes
    return packet_head(**fields) + bytes(600)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("packets", "reason"),
    [
        (head(offset=512), "byte 512 came where 0 was due"),
        (head(data_bytes=4096, checksum_count=8), "beyond the range"),
        (head(data_bytes=-1), "beyond the range"),
        (head(checksum_count=2), "8 bytes of checksums"),
        (head(checksum_count=0), "0 bytes of checksums"),
        (head(data_bytes=0, checksum_count=0), "unexpected packet"),
        (head(is_last=True), "unexpected packet"),
        (b"\x00\x00\x00\x04\xff\xff" + bytes(600), "header has 65535 bytes"),
        (b"\x00\x00\x00\x04\x00\x02\xff\xff" + bytes(600), "cannot be decoded"),
        (packet(bytes(100), offset=0, seqno=0, chunk_bytes=512) + head(offset=100, seqno=1), "inside a chunk"),
        (
            packet(bytes(1024), offset=0, seqno=0, chunk_bytes=512) + end_packet(1024, 1) + b"x",
            "behind the last packet",
        ),
    ],
)
def test_packets_against_the_protocol_are_refused(packets: bytes, reason: str) -> None:
    with pytest.raises(ReplicaMalformed, match=reason):
        feed(BlockReceiver(0, 1024), success(0, 512) + packets)


@pytest.mark.parametrize(
    "response",
    [
        success(0, 0),
        success(0, CHUNK_BYTES_MAX + 1),
        success(1024, 512),
        success(0, 512),
        success(513, 512),
        b"\xff\xff\xff\xff\xff\xff",
        delimited(bytes(RESPONSE_BYTES_MAX + 1)),
        delimited(b"\xff\xff\xff"),
    ],
)
def test_responses_against_the_protocol_are_refused(response: bytes) -> None:
    with pytest.raises(ReplicaMalformed):
        feed(BlockReceiver(1000, 10), response + bytes(10))


def test_a_header_in_an_unusual_order_is_understood() -> None:
    """Only protobuf can read it: field 5 is there, which readers have no use for."""
    header = PacketHeader(offset_in_block=0, seqno=0, last_packet_in_block=False, data_len=512, sync_block=False)
    encoded = header.SerializeToString()
    usual = packet(CONTENT[:512], offset=0, seqno=0, chunk_bytes=512)
    assert len(encoded) == 27
    wire = usual[:4] + len(encoded).to_bytes(2, "big") + encoded + usual[31:]
    receiver = BlockReceiver(0, 512)
    assert feed(receiver, success(0, 512) + wire + end_packet(512, 1))
    assert bytes(receiver.data) == CONTENT[:512]


@given(st.integers(0, 2**40), st.integers(1, 2**31), st.booleans())
def test_requests_say_what_is_wanted(position: int, length_bytes: int, has_token: bool) -> None:
    token = Token(identifier=b"i", password=b"p", kind="k", service="s") if has_token else Token()
    block = Block("pool", 7, 1001, position + length_bytes)
    wire = read_request(block, token, client_name="reader", position=position, length_bytes=length_bytes)
    assert wire[:3] == b"\x00\x1c\x51"
    request = OpReadBlock.FromString(wire[4:] if wire[3] < 0x80 else wire[5:])
    assert Block.of(request.header.base_header.block) == block
    assert request.header.client_name == "reader"
    assert (request.offset, request.len, request.send_checksums) == (position, length_bytes, True)
    assert request.header.base_header.HasField("token") == has_token


def test_the_last_word_says_that_everything_was_verified() -> None:
    assert ClientReadStatus.FromString(VERIFIED[1:]).status == TransferStatus.CHECKSUM_OK
