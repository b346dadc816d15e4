"""Produce encoded and parsed by hand, since this runs for every batch. Tests compare the bytes with the codec's.

A parsed request keeps its records as views into the frame: record bytes are never copied. A node that forwards a batch
writes the request and reads the response, in the newest version only.
Sources: ProduceRequest.json, ProduceResponse.json; topic ids KIP-516, leader hints KIP-951.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple
from uuid import UUID

from bmq.protocol.errors import MalformedMessage
from bmq.protocol.hot_parts import (
    INT16,
    INT32,
    ZERO_UUID,
    LeaderHint,
    NodeEndpoint,
    append_compact_string,
    append_endpoints,
    append_string,
    append_topic_flexible,
    append_varint,
)
from bmq.protocol.wire import (
    ELEMENTS_MAX,
    STRING_BYTES_MAX,
    Buffer,
    read_unsigned_varint,
    skip_tagged_fields,
    unsigned_varint,
)

_PRODUCE_FLEXIBLE_FROM: Final = 9
_PRODUCE_LEADERS_FROM: Final = 10
_PRODUCE_TOPIC_IDS_FROM: Final = 13
FORWARDED_PRODUCE_VERSION: Final = 13
_INT32_PAIR: Final = Struct(">ii")
_ACKS_AND_TIMEOUT: Final = Struct(">hi")

# partition, error code, base offset, log append time, log start offset; from 8 on also: no record errors, no message.
_PRODUCED_V3: Final = Struct(">ihqq")
_PRODUCED_V5: Final = Struct(">ihqqq")
_PRODUCED_V8: Final = Struct(">ihqqqih")
_PRODUCED_FLEXIBLE: Final = Struct(">ihqqqBBB")  # both are empty, and so is the section of tagged fields

# no transactional id, acks, timeout, one topic, its id, one partition, its number; then its records; then tagged fields.
_PRODUCE_ONE: Final = Struct(">BhiB16sBi")
_PRODUCE_ONE_END: Final = bytes(3)
CLIENT_VERSION_TAG: Final = 20_000
"""Our own tagged field of a forwarded request: the version in which the client sent it. That version shows what the
client supports of transactions, and nodes forward in one version only."""
_CLIENT_VERSION_HEAD: Final = bytes(2) + b"\1" + unsigned_varint(CLIENT_VERSION_TAG) + b"\1"
TRACE_TAG: Final = 20_001
"""Our own tagged field of a forwarded request that is traced: the encoded context of the span that goes on at the owner. It is the
request's last field. Nodes that do not know it skip it."""
_TRACE_CONTEXT_BYTES: Final = 25
_TRACE_HEAD: Final = unsigned_varint(TRACE_TAG) + unsigned_varint(_TRACE_CONTEXT_BYTES)
_TRACE_SAMPLED: Final = 1


class ProducedData(NamedTuple):
    """One partition of a Produce request. `records` is a view into the frame, writable if the frame is; or None."""

    partition: int
    records: memoryview | None


class ProducedTopic(NamedTuple):
    """One topic of a Produce request: named below version 13, by id from there on (then `name` is None)."""

    name: str | None
    topic_id: UUID | None
    partitions: list[ProducedData]


class Produce(NamedTuple):
    """A Produce request. `acks` as received: the handler checks that it is -1, 0 or 1.

    `client_version`: the version the client sent to the node that forwards the request; -1: not given.
    """

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProducedTopic]
    client_version: int = -1


class RecordError(NamedTuple):
    """A record because of which its whole batch is refused (KIP-467)."""

    batch_index: int
    message: str | None = None


class ProduceResult(NamedTuple):
    """One partition's part of a Produce response. Fields a version lacks are left out."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[RecordError] = ()
    current_leader: LeaderHint | None = None


class ProduceTopicResult(NamedTuple):
    """One topic's part of a Produce response: `name` is used below version 13, `topic_id` from there on."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[ProduceResult]


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID | None:
    # Making a UUID costs as much as the rest of a partition's parsing, and there are few topics.
    return None if raw == ZERO_UUID else UUID(bytes=raw)


def parse_produce(frame: Buffer, position: int, version: int) -> Produce:
    """The Produce request (3 … 13) whose body starts at `position` of a frame. Raises MalformedMessage.

    Every length is checked against the frame; the records' content is not read. Bytes behind the body are ignored.
    """
    view = frame if isinstance(frame, memoryview) else memoryview(frame)
    try:
        if version < _PRODUCE_FLEXIBLE_FROM:
            return _parse_produce_plain(view, position)
        return _parse_produce_flexible(view, position, version >= _PRODUCE_TOPIC_IDS_FROM)
    except (IndexError, struct_error) as error:
        raise MalformedMessage("the Produce request ends before its last field") from error
    except UnicodeDecodeError as error:
        raise MalformedMessage("a string of the Produce request is not UTF-8") from error


def without_duplicates(topics: list[ProducedTopic]) -> list[ProducedTopic]:
    """The request's topics with the last batch of each partition only, and with topics of the same name joined.

    As in Kafka. The usual request, which repeats nothing, is returned unchanged; no known client sends another one.
    """
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return topics
    kept: dict[tuple[str | None, UUID | None], dict[int, ProducedData]] = {}
    count = 0
    for name, topic_id, partitions in topics:
        of_topic = kept.setdefault((name, topic_id), {})
        for data in partitions:
            of_topic[data.partition] = data
            count += 1
    if len(kept) == len(topics) and sum(map(len, kept.values())) == count:
        return topics
    return [ProducedTopic(name, topic_id, list(of_topic.values())) for (name, topic_id), of_topic in kept.items()]


def _parse_produce_plain(view: memoryview, at: int) -> Produce:
    end = len(view)
    (length,) = INT16.unpack_from(view, at)
    at += 2
    transactional_id = None
    if length >= 0:
        stop = at + length
        transactional_id = str(view[at:stop], "utf-8")
        at = stop
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(view, at)
    (topic_count,) = INT32.unpack_from(view, at + 6)
    at += 10
    left = ELEMENTS_MAX - topic_count
    if topic_count < 0 or left < 0:
        raise MalformedMessage(f"a Produce request of {topic_count} topics")
    topics = []
    for _ in range(topic_count):
        (length,) = INT16.unpack_from(view, at)
        at += 2
        stop = at + length
        if length < 0:
            raise MalformedMessage("a Produce request with a topic without a name")
        name = str(view[at:stop], "utf-8")
        (partition_count,) = INT32.unpack_from(view, stop)
        at = stop + 4
        left -= partition_count
        if partition_count < 0 or left < 0:
            raise MalformedMessage(f"a Produce request of {partition_count} partitions in one topic")
        partitions = []
        for _ in range(partition_count):
            partition, length = _INT32_PAIR.unpack_from(view, at)
            at += 8
            if length < 0:
                partitions.append(ProducedData(partition, None))
                continue
            stop = at + length
            if stop > end:
                raise MalformedMessage(f"records of {length} bytes run past the end of the Produce request")
            partitions.append(ProducedData(partition, view[at:stop]))
            at = stop
        topics.append(ProducedTopic(name, None, partitions))
    return Produce(transactional_id, acks, timeout_ms, topics)


def _long_string(view: memoryview, at: int) -> tuple[int, int]:
    """(length and one, position behind it) of a compact string. Raises MalformedMessage."""
    length, at = read_unsigned_varint(view, at)
    if length > STRING_BYTES_MAX + 1:
        raise MalformedMessage(f"a string of {length - 1} bytes in a Produce request, {STRING_BYTES_MAX} are allowed")
    return length, at


def _parse_produce_flexible(view: memoryview, at: int, has_topic_ids: bool) -> Produce:
    end = len(view)
    length = view[at]
    at += 1
    if length > 127:
        length, at = _long_string(view, at - 1)
    transactional_id = None
    if length:
        stop = at + length - 1
        transactional_id = str(view[at:stop], "utf-8")
        at = stop
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(view, at)
    at += 6
    topic_count, at = _compact_count(view, at)
    left = ELEMENTS_MAX - topic_count
    topics = []
    for _ in range(topic_count):
        name = topic_id = None
        if has_topic_ids:
            stop = at + 16
            topic_id = _uuid(bytes(view[at:stop])) if stop <= end else None
        else:
            length = view[at]
            at += 1
            if length > 127:
                length, at = _long_string(view, at - 1)
            if not length:
                raise MalformedMessage("a Produce request with a topic without a name")
            stop = at + length - 1
            name = str(view[at:stop], "utf-8")
        partition_count, at = _compact_count(view, stop)
        left -= partition_count
        if left < 0:
            raise MalformedMessage(f"a Produce request of more than {ELEMENTS_MAX} partitions")
        partitions = []
        for _ in range(partition_count):
            (partition,) = INT32.unpack_from(view, at)
            length, at = read_unsigned_varint(view, at + 4)
            records = None
            if length:
                stop = at + length - 1
                if stop > end:
                    raise MalformedMessage(f"records of {length - 1} bytes run past the end of the Produce request")
                records = view[at:stop]
                at = stop
            partitions.append(ProducedData(partition, records))
            if view[at]:
                at, left = _skip_tags(view, at, left)
            else:
                at += 1
        topics.append(ProducedTopic(name, topic_id, partitions))
        if view[at]:
            at, left = _skip_tags(view, at, left)
        else:
            at += 1
    _skip_tags(view, at, left)
    return Produce(transactional_id, acks, timeout_ms, topics, _client_version(view, at) if view[at] else -1)


def _client_version(view: memoryview, at: int) -> int:
    """The client version in a section of tagged fields that was already checked."""
    count, at = read_unsigned_varint(view, at)
    for _ in range(count):
        tag, at = read_unsigned_varint(view, at)
        size, at = read_unsigned_varint(view, at)
        if tag == CLIENT_VERSION_TAG and size == 1:
            return view[at]
        at += size
    return -1


def _skip_tags(view: memoryview, at: int, left: int) -> tuple[int, int]:
    left -= read_unsigned_varint(view, at)[0]
    if left < 0:
        raise MalformedMessage(f"a Produce request of more than {ELEMENTS_MAX} partitions and tagged fields")
    return skip_tagged_fields(view, at), left


def _compact_count(view: Buffer, at: int, what: str = "Produce request") -> tuple[int, int]:
    count = view[at]
    at += 1
    if count > 127:
        count, at = read_unsigned_varint(view, at - 1)
    if not 0 < count <= ELEMENTS_MAX + 1:
        raise MalformedMessage(f"a {what} with an array of {count - 1} elements")
    return count - 1, at


def encode_produce_request(
    topic_id: UUID,
    partition: int,
    records: Buffer,
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
    client_version: int = FORWARDED_PRODUCE_VERSION,
) -> tuple[bytes, Buffer, bytes]:
    """The body of a Produce request (13) for one partition, in pieces: `records` is one of them, as it is."""
    head = _PRODUCE_ONE.pack(0, acks, timeout_ms, 2, topic_id.bytes, 2, partition) + unsigned_varint(len(records) + 1)
    if transactional_id is None:
        return head, records, _PRODUCE_ONE_END
    name = transactional_id.encode()
    head = unsigned_varint(len(name) + 1) + name + head[1:]
    return head, records, _CLIENT_VERSION_HEAD + bytes((client_version,))


def with_trace(body: Sequence[Buffer], context: bytes) -> tuple[Buffer, ...]:
    """The body of a request of `encode_produce_request` with the context of a span (25 bytes, the last one is 1)."""
    end = bytes(body[-1])
    tags_at = len(_PRODUCE_ONE_END) - 1  # behind the sections of the partition and of the topic, which are empty
    tags = bytes((end[tags_at] + 1,)) + end[tags_at + 1 :] + _TRACE_HEAD + context
    return *body[:-1], end[:tags_at] + tags


def trace_in(frame: Buffer) -> bytes | None:
    """The context of a span in a forwarded request; None without one. `frame`: the whole request."""
    if frame[-1] != _TRACE_SAMPLED or len(frame) < _TRACE_CONTEXT_BYTES + len(_TRACE_HEAD):
        return None
    at = len(frame) - _TRACE_CONTEXT_BYTES
    return bytes(frame[at:]) if frame[at - len(_TRACE_HEAD) : at] == _TRACE_HEAD else None


def parse_produce_response(frame: Buffer) -> list[ProduceTopicResult]:
    """The results in a whole Produce response frame (13), header included. Raises MalformedMessage.

    The throttle time and the endpoints of leaders are skipped.
    """
    try:
        at = skip_tagged_fields(frame, 4)
        count, at = _compact_count(frame, at, "Produce response")
        topics = []
        for _ in range(count):
            stop = at + 16
            topic_id = _uuid(bytes(frame[at:stop])) if stop <= len(frame) else None
            partition_count, at = _compact_count(frame, stop, "Produce response")
            results = []
            for _ in range(partition_count):
                result, at = _parse_produced(frame, at)
                results.append(result)
            at = skip_tagged_fields(frame, at)
            topics.append(ProduceTopicResult(None, topic_id, results))
        skip_tagged_fields(frame, at + 4)
    except (IndexError, struct_error) as error:
        raise MalformedMessage("the Produce response ends before its last field") from error
    except UnicodeDecodeError as error:
        raise MalformedMessage("a string of the Produce response is not UTF-8") from error
    return topics


def _parse_produced(frame: Buffer, at: int) -> tuple[ProduceResult, int]:
    partition, code, base_offset, append_time_ms, start_offset, errors, message_length, tags = (
        _PRODUCED_FLEXIBLE.unpack_from(frame, at)
    )
    if errors == 1 and message_length == 0 and tags == 0:
        return ProduceResult(partition, code, base_offset, append_time_ms, start_offset), at + _PRODUCED_FLEXIBLE.size
    error_count, at = _compact_count(frame, at + _PRODUCED_V5.size, "Produce response")
    record_errors = []
    for _ in range(error_count):
        (index,) = INT32.unpack_from(frame, at)
        message, at = _compact_string(frame, at + 4)
        at = skip_tagged_fields(frame, at)
        record_errors.append(RecordError(index, message))
    message, at = _compact_string(frame, at)
    leader, at = _parse_leader(frame, at)
    return (
        ProduceResult(
            partition, code, base_offset, append_time_ms, start_offset, message, tuple(record_errors), leader
        ),
        at,
    )


def _parse_leader(frame: Buffer, at: int) -> tuple[LeaderHint | None, int]:
    """The leader hint (tag 0) in a section of tagged fields, and where the section ends."""
    end = skip_tagged_fields(frame, at)
    count, at = read_unsigned_varint(frame, at)
    leader = None
    for _ in range(count):
        tag, at = read_unsigned_varint(frame, at)
        size, at = read_unsigned_varint(frame, at)
        if tag == 0:
            leader = LeaderHint._make(_INT32_PAIR.unpack_from(frame, at))
        at += size
    return leader, end


def _compact_string(frame: Buffer, at: int) -> tuple[str | None, int]:
    length, at = read_unsigned_varint(frame, at)
    if not length:
        return None, at
    stop = at + length - 1
    if stop > len(frame):
        raise MalformedMessage(f"a string of {length - 1} bytes runs past the end of the Produce response")
    return str(frame[at:stop], "utf-8"), stop


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[ProduceTopicResult],
    *,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytearray:
    """A whole Produce response frame (3 … 13), header included, without its length prefix."""
    out = bytearray(INT32.pack(correlation_id))
    if version >= _PRODUCE_FLEXIBLE_FROM:
        out.append(0)
        append_varint(out, len(topics) + 1)
    else:
        out += INT32.pack(len(topics))
    for topic in topics:
        if version >= _PRODUCE_FLEXIBLE_FROM:
            append_topic_flexible(out, topic[0], topic[1], version >= _PRODUCE_TOPIC_IDS_FROM)
            append_varint(out, len(topic[2]) + 1)
            for result in topic[2]:
                _append_produced_flexible(out, result, version >= _PRODUCE_LEADERS_FROM)
            out.append(0)
        else:
            append_string(out, topic[0] or "")
            out += INT32.pack(len(topic[2]))
            for result in topic[2]:
                _append_produced_plain(out, result, version)
    out += INT32.pack(throttle_time_ms)
    if version >= _PRODUCE_FLEXIBLE_FROM:
        append_endpoints(out, node_endpoints if version >= _PRODUCE_LEADERS_FROM else ())
    return out


def _append_produced_plain(out: bytearray, result: ProduceResult, version: int) -> None:
    partition, error_code, base_offset, append_time_ms, start_offset, message, record_errors, _ = result
    if version < 5:
        out += _PRODUCED_V3.pack(partition, error_code, base_offset, append_time_ms)
    elif version < 8:
        out += _PRODUCED_V5.pack(partition, error_code, base_offset, append_time_ms, start_offset)
    elif message is None and not record_errors:
        out += _PRODUCED_V8.pack(partition, error_code, base_offset, append_time_ms, start_offset, 0, -1)
    else:
        out += _PRODUCED_V5.pack(partition, error_code, base_offset, append_time_ms, start_offset)
        out += INT32.pack(len(record_errors))
        for record_error in record_errors:
            out += INT32.pack(record_error.batch_index)
            append_string(out, record_error.message)
        append_string(out, message)


def _append_produced_flexible(out: bytearray, result: ProduceResult, has_leaders: bool) -> None:
    partition, error_code, base_offset, append_time_ms, start_offset, message, record_errors, leader = result
    if message is None and not record_errors and leader is None:
        out += _PRODUCED_FLEXIBLE.pack(partition, error_code, base_offset, append_time_ms, start_offset, 1, 0, 0)
        return
    out += _PRODUCED_V5.pack(partition, error_code, base_offset, append_time_ms, start_offset)
    append_varint(out, len(record_errors) + 1)
    for record_error in record_errors:
        out += INT32.pack(record_error.batch_index)
        append_compact_string(out, record_error.message)
        out.append(0)
    append_compact_string(out, message)
    if has_leaders and leader is not None and leader != (-1, -1):
        out += b"\x01\x00\x09"  # one tagged field: number 0 of 9 bytes
        out += _INT32_PAIR.pack(*leader)
    out.append(0)
