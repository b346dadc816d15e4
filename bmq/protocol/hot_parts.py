"""Parts common to the hand-written Produce and Fetch responses (hot_produce.py, hot_fetch.py)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from bmq.protocol.wire import unsigned_varint

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
ZERO_UUID: Final = bytes(16)


class LeaderHint(NamedTuple):
    """The present leader (KIP-951), in answer to a request that came to the wrong node."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """The address of a node named by a LeaderHint."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def append_topic_flexible(out: bytearray, name: str | None, topic_id: UUID | None, has_topic_ids: bool) -> None:
    if has_topic_ids:
        out += ZERO_UUID if topic_id is None else topic_id.bytes
    else:
        append_compact_string(out, name or "")


def append_endpoints(out: bytearray, node_endpoints: Sequence[NodeEndpoint]) -> None:
    """The tagged fields at the end of a flexible response: where the nodes of the leader hints are."""
    if not node_endpoints:
        out.append(0)
        return
    part = bytearray()
    append_varint(part, len(node_endpoints) + 1)
    for node_id, host, port, rack in node_endpoints:
        part += INT32.pack(node_id)
        append_compact_string(part, host)
        part += INT32.pack(port)
        append_compact_string(part, rack)
        part.append(0)
    out += b"\x01\x00"
    append_varint(out, len(part))
    out += part


def append_string(out: bytearray, text: str | None) -> None:
    if text is None:
        out += b"\xff\xff"
        return
    raw = text.encode()
    out += INT16.pack(len(raw))
    out += raw


def append_compact_string(out: bytearray, text: str | None) -> None:
    if text is None:
        out.append(0)
        return
    raw = text.encode()
    append_varint(out, len(raw) + 1)
    out += raw


def append_varint(out: bytearray, value: int) -> None:
    if value < 128:
        out.append(value)
    else:
        out += unsigned_varint(value)
