"""Fetch responses encoded by hand, since this runs for every batch. Tests compare the bytes with the codec's in all
versions.

An encoded response is a list of buffers with the records' views among them, to be written with one gathering write; records
may also be parts of files.
Sources: FetchResponse.json; topic ids KIP-516, leader hints KIP-951.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from bmq.protocol.hot_parts import (
    INT32,
    LeaderHint,
    NodeEndpoint,
    append_endpoints,
    append_string,
    append_topic_flexible,
    append_varint,
)
from bmq.protocol.parts import Part

_FETCH_SESSIONS_FROM: Final = 7
_FETCH_FLEXIBLE_FROM: Final = 12
_FETCH_TOPIC_IDS_FROM: Final = 13
_FETCH_ENDPOINTS_FROM: Final = 16
_INT32_PAIR: Final = Struct(">ii")
_INT64_PAIR: Final = Struct(">qq")
_EPOCH_END: Final = Struct(">iq")

# partition, error code, high watermark, last stable offset, log start offset
_FETCHED_V4: Final = Struct(">ihqq")
_FETCHED_V5: Final = Struct(">ihqqq")
_FETCH_HEAD_V4: Final = Struct(">iii")  # correlation id, throttle time, topics
_FETCH_HEAD_V7: Final = Struct(">iihii")  # correlation id, throttle time, error code, session id, topics
_FETCH_HEAD_FLEXIBLE: Final = Struct(">iBihi")  # correlation id, header tags, throttle time, error code, session id


class FetchResult(NamedTuple):
    """One partition's part of a Fetch response. `records`: whole batches back to back, in any number of buffers.

    `aborted_transactions`: (producer id, first offset) pairs for read_committed, None otherwise. `diverging_epoch`:
    (epoch, end offset) of KIP-595, for a fetch whose last fetched epoch is not in the log.
    """

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Sequence[Part] | None = ()
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    current_leader: LeaderHint | None = None
    diverging_epoch: tuple[int, int] | None = None


class FetchTopicResult(NamedTuple):
    """One topic's part of a Fetch response: `name` is used below version 13, `topic_id` from there on."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[FetchResult]


def encode_fetch_response(
    version: int,
    correlation_id: int,
    topics: Sequence[FetchTopicResult],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Part]:
    """A whole Fetch response frame (4 … 18), header included, without its length prefix, as buffers to be joined.

    The records' buffers are in it as they are; the caller keeps them unchanged until they are sent.
    """
    is_flexible = version >= _FETCH_FLEXIBLE_FROM
    if is_flexible:
        out = bytearray(_FETCH_HEAD_FLEXIBLE.pack(correlation_id, 0, throttle_time_ms, error_code, session_id))
        append_varint(out, len(topics) + 1)
    elif version >= _FETCH_SESSIONS_FROM:
        out = bytearray(_FETCH_HEAD_V7.pack(correlation_id, throttle_time_ms, error_code, session_id, len(topics)))
    else:
        out = bytearray(_FETCH_HEAD_V4.pack(correlation_id, throttle_time_ms, len(topics)))
    buffers: list[Part] = []
    for topic in topics:
        results = topic[2]
        if is_flexible:
            append_topic_flexible(out, topic[0], topic[1], version >= _FETCH_TOPIC_IDS_FROM)
            append_varint(out, len(results) + 1)
            for result in results:
                out = _append_fetched_flexible(buffers, out, result)
            out.append(0)
        else:
            append_string(out, topic[0] or "")
            out += INT32.pack(len(results))
            for result in results:
                out = _append_fetched_plain(buffers, out, result, version)
    if is_flexible:
        append_endpoints(out, node_endpoints if version >= _FETCH_ENDPOINTS_FROM else ())
    if out:
        buffers.append(out)
    return buffers


def _append_fetched_flexible(buffers: list[Part], out: bytearray, result: FetchResult) -> bytearray:
    """Returns the buffer to append to: after records a fresh one, begun with this partition's tagged fields."""
    partition, error_code, high_watermark, stable_offset, start_offset, records, aborted, replica, leader, diverging = (
        result
    )
    out += _FETCHED_V5.pack(partition, error_code, high_watermark, stable_offset, start_offset)
    if not aborted:
        out.append(0 if aborted is None else 1)
    else:
        append_varint(out, len(aborted) + 1)
        for producer_id, first_offset in aborted:
            out += _INT64_PAIR.pack(producer_id, first_offset)
            out.append(0)
    out += INT32.pack(replica)
    if records:
        size = sum(map(len, records))
        append_varint(out, size + 1)
        buffers.append(out)
        buffers += records
        out = bytearray()
    else:
        out.append(0 if records is None else 1)
    if leader is None and diverging is None:
        out.append(0)
        return out
    tags = bytearray()
    count = 0
    if diverging is not None and diverging != (-1, -1):
        count += 1
        tags += b"\x00\x0d"  # number 0 of 13 bytes
        tags += _EPOCH_END.pack(*diverging)
        tags.append(0)
    if leader is not None and leader != (-1, -1):
        count += 1
        tags += b"\x01\x09"  # number 1 of 9 bytes
        tags += _INT32_PAIR.pack(*leader)
        tags.append(0)
    out.append(count)
    out += tags
    return out


def _append_fetched_plain(buffers: list[Part], out: bytearray, result: FetchResult, version: int) -> bytearray:
    """Returns the buffer to append to: after records a fresh one."""
    partition, error_code, high_watermark, stable_offset, start_offset, records, aborted, replica, _, _ = result
    if version < 5:
        out += _FETCHED_V4.pack(partition, error_code, high_watermark, stable_offset)
    else:
        out += _FETCHED_V5.pack(partition, error_code, high_watermark, stable_offset, start_offset)
    if aborted is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += INT32.pack(len(aborted))
        for producer_id, first_offset in aborted:
            out += _INT64_PAIR.pack(producer_id, first_offset)
    if version >= 11:
        out += INT32.pack(replica)
    if not records:
        out += b"\xff\xff\xff\xff" if records is None else b"\0\0\0\0"
        return out
    out += INT32.pack(sum(map(len, records)))
    buffers.append(out)
    buffers += records
    return bytearray()
