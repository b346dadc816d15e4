"""Length-prefixed protobuf messages, as Hadoop's protocols send nearly everything. Pure."""

from __future__ import annotations

from google.protobuf.message import Message

VARINT_BYTES_MAX = 5  # of a length below 2^35


def varint(value: int) -> bytes:
    """A length as protobuf writes it."""
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def delimited(message: Message) -> bytes:
    """The message behind its length."""
    encoded = message.SerializeToString()
    return varint(len(encoded)) + encoded


def read_delimited(data: bytes, start: int) -> tuple[bytes, int]:
    """The message that begins with its length at `start`, and where it ends. Raises ValueError unless all is there."""
    length = 0
    for index in range(VARINT_BYTES_MAX):
        position = start + index
        if position >= len(data):
            raise ValueError("the data ends within a length")
        byte = data[position]
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            end = position + 1 + length
            if end > len(data):
                raise ValueError(f"a message of {length} bytes in {len(data) - position - 1}")
            return data[position + 1 : end], end
    raise ValueError("a length of more than 5 bytes")
