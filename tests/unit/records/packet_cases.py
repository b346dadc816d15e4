"""Packets of a block, and what a reader takes of them, one by one."""

from __future__ import annotations

from random import Random
from struct import pack, unpack_from

from crc32c import crc32c

from bmq.hdfs.packets import PacketEncoder

HEAD_BYTES = 4
_HEADER = "<BqBqBBBi"


def packet_case(dice: Random) -> bytes:
    """Some packets from byte 0 on, perhaps more than the answer has room for."""
    chunk_bytes = dice.choice((1, 7, 16, 64))
    encoder = PacketEncoder(chunk_bytes=chunk_bytes, packet_bytes_max=chunk_bytes * dice.randrange(1, 9))
    size_bytes = dice.randrange(1, 400)
    packets = encoder.encode([dice.randbytes(size_bytes)], size_bytes)
    wire = b"".join(bytes(piece) for packet in packets for piece in packet.pieces)
    if dice.random() < 0.5:
        wire += b"".join(map(bytes, encoder.encode_last().pieces))
    return pack("<HH", chunk_bytes, max(0, size_bytes + dice.choice((0, 0, 0, -1, 5)))) + wire


def taken_one_by_one(case: bytes) -> str:
    """The line of the driver."""
    chunk_bytes, answer_bytes = unpack_from("<HH", case)
    chunk_bytes = max(chunk_bytes, 1)
    data, at, found = case[HEAD_BYTES:], 0, b""
    while len(data) - at >= 31 and len(found) % chunk_bytes == 0:
        packet_bytes, header_bytes = unpack_from(">iH", data, at)
        tag, offset, seqno_tag, _, last_tag, is_last, data_tag, size_bytes = unpack_from(_HEADER, data, at + 6)
        checksums_bytes = -(-size_bytes // chunk_bytes) * 4
        is_plain = (header_bytes, tag, seqno_tag, last_tag, is_last, data_tag) == (25, 0x09, 0x11, 0x18, 0, 0x25)
        if not is_plain or offset != len(found) or not 0 < size_bytes <= answer_bytes - len(found):
            break
        behind = at + 31 + checksums_bytes + size_bytes
        if packet_bytes != 4 + checksums_bytes + size_bytes or behind > len(data):
            break
        content = data[behind - size_bytes : behind]
        crcs = [crc32c(content[place : place + chunk_bytes]) for place in range(0, size_bytes, chunk_bytes)]
        if pack(f">{len(crcs)}I", *crcs) != data[at + 31 : at + 31 + checksums_bytes]:
            break
        found += content
        at = behind
    return f"{at} {len(found)} {found.hex()}"
