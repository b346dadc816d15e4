"""Frames of the Unix socket: a record to the agent, and its answer. Pure. docs/DATABUS.md describes them for clients.

All numbers are big-endian. A request is u32 length of what follows, u8 version, u8 kind, u32 request id, i64 timestamp in
milliseconds (-1: the agent's clock), u8 length of the channel's name, the name, then key, value and headers as in
record_fields. An answer is u32 length of what follows, u8 version, u8 code, u32 request id, i64 number (-1: none), u32
delay in milliseconds, u16 length of a sentence, the sentence in UTF-8. Answers come in the order of the requests.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from bmq.databus.record_fields import BadFields, Buffer, bytes_at, checked_headers, encoded_bytes

VERSION: Final = 1
RECORD: Final = 1
LENGTH_BYTES: Final = 4
SENTENCE_BYTES_MAX: Final = 1_000
_REQUEST: Final = struct.Struct(">IBBIqB")
_ANSWER: Final = struct.Struct(">IBBIqIH")
_FIXED_BYTES: Final = _REQUEST.size - LENGTH_BYTES
FRAME_BYTES_MIN: Final = _FIXED_BYTES + 4 + 4 + 2
"""The smallest request, without its length."""


class Code(IntEnum):
    """Of an answer. Codes below 10: the record was taken. RETRY: send it again after the delay. Others: it is refused.

    SAMPLED_OUT: the channel's sampling left the record out. DROPPED: the spool is full and the channel drops new records.
    """

    ACCEPTED = 0
    SAMPLED_OUT = 1
    DROPPED = 2
    RETRY = 10
    UNKNOWN_CHANNEL = 20
    CHANNEL_DISABLED = 21
    RECORD_TOO_LARGE = 22
    BAD_VALUE = 23
    TOPIC_REFUSED = 24
    BAD_FRAME = 30
    TOO_MANY_CONNECTIONS = 31


class BadFrame(BadFields):
    """A frame that the agent cannot read. The connection is closed after the answer."""


class Request(NamedTuple):
    """One record. `channel` is the raw name, `headers` the raw headers, which are checked."""

    request_id: int
    timestamp_ms: int
    channel: bytes
    key: bytes | None
    value: bytes | None
    headers: bytes


class Answer(NamedTuple):
    """`number`: of the record in its spool, -1 unless it was accepted."""

    code: Code
    request_id: int
    number: int = -1
    retry_after_ms: int = 0
    sentence: str = ""


def frame_length(data: Buffer, offset: int, frame_bytes_max: int) -> int:
    """The length of the frame that begins at `offset`, with the 4 bytes of the length itself. Raises BadFrame."""
    length: int = struct.unpack_from(">I", data, offset)[0]
    if length > frame_bytes_max:
        raise BadFrame(f"a frame of {length} bytes is too long, {frame_bytes_max} are allowed")
    if length < FRAME_BYTES_MIN:
        raise BadFrame(f"a frame of {length} bytes is too short, the shortest record has {FRAME_BYTES_MIN}")
    return LENGTH_BYTES + length


def request_id_at(data: Buffer, offset: int) -> int:
    """The request id of a frame whose first 10 bytes are there."""
    request_id: int = struct.unpack_from(">I", data, offset + 6)[0]
    return request_id


def parse_request(data: Buffer, offset: int, end: int) -> Request:
    """The whole frame from its length to `end`. Raises BadFrame."""
    _, version, kind, request_id, timestamp_ms, name_length = _REQUEST.unpack_from(data, offset)
    if version != VERSION:
        raise BadFrame(f"frames of version {version} are not known; this agent knows version {VERSION}")
    if kind != RECORD:
        raise BadFrame(f"a request of kind {kind} is not known; kind {RECORD} is a record")
    if timestamp_ms < -1:
        raise BadFrame(f"a timestamp of {timestamp_ms} ms is wrong; -1 is the agent's clock")
    at = offset + _REQUEST.size
    channel = bytes(data[at : at + name_length])
    at += name_length
    try:
        key, at = bytes_at(data, at, end)
        value, at = bytes_at(data, at, end)
        checked_headers(data, at, end)
    except BadFields as error:
        raise BadFrame(str(error)) from None
    return Request(request_id, timestamp_ms, channel, key, value, bytes(data[at:end]))


def encoded_request(request: Request) -> bytes:
    """Raises struct.error for a channel's name of more than 255 bytes."""
    rest = request.channel + encoded_bytes(request.key) + encoded_bytes(request.value) + request.headers
    length = _FIXED_BYTES + len(rest)
    fixed = _REQUEST.pack(length, VERSION, RECORD, request.request_id, request.timestamp_ms, len(request.channel))
    return fixed + rest


_ACCEPTED: Final = struct.Struct(">IBBIqIH").pack


def encoded_accepted(request_id: int, number: int) -> bytes:
    """What `encoded_answer` makes of most answers, with less work."""
    return _ACCEPTED(20, VERSION, 0, request_id, number, 0, 0)


def encoded_answer(answer: Answer) -> bytes:
    """Long sentences are cut."""
    sentence = answer.sentence.encode("utf-8", "replace")[:SENTENCE_BYTES_MAX]
    length = _ANSWER.size - LENGTH_BYTES + len(sentence)
    code, request_id, number, retry_after_ms = answer[:4]
    return _ANSWER.pack(length, VERSION, code, request_id, number, retry_after_ms, len(sentence)) + sentence


def parse_answer(data: Buffer, offset: int = 0) -> tuple[Answer, int]:
    """The answer and the offset behind it. Raises BadFrame."""
    if offset + _ANSWER.size > len(data):
        raise BadFrame("an answer is cut off")
    length, version, code, request_id, number, retry_after_ms, text_length = _ANSWER.unpack_from(data, offset)
    end = offset + LENGTH_BYTES + length
    if version != VERSION or end > len(data) or text_length != end - offset - _ANSWER.size:
        raise BadFrame("these bytes are no answer of an agent")
    sentence = bytes(data[end - text_length : end]).decode("utf-8", "replace")
    return Answer(Code(code), request_id, number, retry_after_ms, sentence), end
