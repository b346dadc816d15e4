"""What the identifier of a block token says: until when it counts. Pure.

Hadoop writes it as a Writable, or as a protobuf message where dfs.block.access.token.protobuf.enable is set; the first byte
tells which (BlockTokenIdentifier.readFields). Everything else in it is the servers' business.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from bmq.hdfs.proto.hdfs_pb2 import BlockTokenSecret, Token


def expiry_ms(token: Token) -> int | None:
    """When it expires, in milliseconds since 1970, by the servers' clock; None: it does not say."""
    identifier = token.identifier
    if not identifier:
        return None
    if 0 < identifier[0] < 0x80:
        try:
            return BlockTokenSecret.FromString(identifier).expiry_date or None
        except DecodeError:
            return None
    return _vlong(identifier)


def _vlong(data: bytes) -> int | None:
    """WritableUtils.readVLong, of a positive number."""
    first = data[0] - 256 if data[0] > 127 else data[0]
    if first >= -112:
        return None  # one byte: no time of our days
    size_bytes = -first - 112
    if size_bytes > 8 or len(data) < 1 + size_bytes:
        return None  # a negative number, or cut off
    return int.from_bytes(data[1 : 1 + size_bytes], "big")
