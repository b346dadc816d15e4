"""The expiry time in a block token's identifier. Pure.

Hadoop writes the identifier as a Writable, or as a protobuf message where dfs.block.access.token.protobuf.enable is set. The
first byte tells which (BlockTokenIdentifier.readFields). Its other fields are for servers only.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from bmq.hdfs.proto.hdfs_pb2 import BlockTokenSecret, Token
from bmq.hdfs.writable import read_vlong


def expiry_ms(token: Token) -> int | None:
    """When the token expires, in milliseconds since 1970 by the servers' clock; None if the identifier has no time."""
    identifier = token.identifier
    if not identifier:
        return None
    if 0 < identifier[0] < 0x80:
        try:
            return BlockTokenSecret.FromString(identifier).expiry_date or None
        except DecodeError:
            return None
    found = read_vlong(identifier, 0)
    # A number of one byte is no time of our days.
    return None if found is None or found[1] == 1 else found[0]
