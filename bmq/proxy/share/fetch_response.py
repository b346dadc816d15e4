"""Encodes the body of a ShareFetch response (1-2) in pieces; records are pieces as they were read, not copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from bmq.protocol.hot_parts import INT32, LeaderHint, NodeEndpoint, append_compact_string, append_varint
from bmq.protocol.share_state_messages import AcquiredRange
from bmq.protocol.turns import Pace, at_once
from bmq.protocol.wire import Buffer
from bmq.protocol.wire_turns import InTurns

_HEAD: Final = Struct(">ih")  # throttle time, error code
_PARTITION: Final = Struct(">ih")  # index, error code
_INT16: Final = Struct(">h")
_LEADER: Final = Struct(">iix")  # node, epoch, no tagged fields
_ACQUIRED: Final = Struct(">qqhx")
_EMPTY_ANSWERS_MAX: Final = 64
_NO_LEADER: Final = LeaderHint(0, 0)


class ShareResult(NamedTuple):
    """A partition of the answer. `views`: whole batches; none if no records were acquired."""

    topic_id: UUID
    partition: int
    error_code: int = 0
    acknowledge_error_code: int = 0
    leader: LeaderHint = _NO_LEADER
    views: Sequence[Buffer] = ()
    acquired: Sequence[AcquiredRange] = ()
    message: str | None = None
    acknowledge_message: str | None = None


def encode_share_fetch(
    results: Sequence[ShareResult],
    *,
    error_code: int = 0,
    message: str | None = None,
    throttle_time_ms: int = 0,
    lock_timeout_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> InTurns[list[Buffer]]:
    """The response's body in pieces; made in turns, because there may be many partitions."""
    out = bytearray(_HEAD.pack(throttle_time_ms, error_code))
    append_compact_string(out, message)
    out += INT32.pack(lock_timeout_ms)
    pieces: list[Buffer] = []
    pace = Pace()
    topics: dict[UUID, list[ShareResult]] = {}
    for result in results:
        topics.setdefault(result.topic_id, []).append(result)
        if pace.is_over():
            yield
    append_varint(out, len(topics) + 1)
    for topic_id, partitions in topics.items():
        out += topic_id.bytes
        append_varint(out, len(partitions) + 1)
        for result in partitions:
            out = _append(pieces, out, result)
            if pace.is_over():
                yield
        out.append(0)
    append_varint(out, len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        out += INT32.pack(node_id)
        append_compact_string(out, host)
        out += INT32.pack(port)
        append_compact_string(out, rack)
        out.append(0)
    out.append(0)
    pieces.append(out)
    return pieces


@lru_cache(_EMPTY_ANSWERS_MAX)
def empty_share_fetch(throttle_time_ms: int, lock_timeout_ms: int) -> bytes:
    """The body of a response without partitions, which an idle member gets at each poll."""
    work = encode_share_fetch((), throttle_time_ms=throttle_time_ms, lock_timeout_ms=lock_timeout_ms)
    return b"".join(at_once(work))


def _append(pieces: list[Buffer], out: bytearray, result: ShareResult) -> bytearray:
    """Append one partition. Returns the buffer to append to next, which is a new one behind records."""
    out += _PARTITION.pack(result.partition, result.error_code)
    append_compact_string(out, result.message)
    out += _INT16.pack(result.acknowledge_error_code)
    append_compact_string(out, result.acknowledge_message)
    out += _LEADER.pack(*result.leader)
    views = result.views
    append_varint(out, sum(map(len, views)) + 1)
    if views:
        pieces.append(out)
        pieces += views
        out = bytearray()
    append_varint(out, len(result.acquired) + 1)
    for one in result.acquired:
        out += _ACQUIRED.pack(one.first, one.last, one.delivery_count)
    out.append(0)
    return out
