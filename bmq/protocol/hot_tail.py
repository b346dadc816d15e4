"""TailFetch responses encoded by hand: all tail reads away from the owner go through them.

Tests compare the bytes with the codec's. The owner sends its batches as the views it keeps, and the receiver's records
are views into the frame: nothing is copied on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple
from uuid import UUID

from bmq.protocol.codec import RESPONSE_ELEMENTS_MAX
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.internal_messages import EpochStart, TailFetchResponse, TailPart
from bmq.protocol.wire import Buffer, read_unsigned_varint, skip_tagged_fields, unsigned_varint

TAIL_FETCH_VERSION: Final = 0

_HEAD: Final = Struct(">iBhB")  # correlation id, header tags, error code, no message
_CODE: Final = Struct(">h")
_OFFSET: Final = Struct(">q")
# topic id, partition, error code, leader epoch, four offsets, base offset
_PART: Final = Struct(">16sihi5q")
_EPOCH: Final = Struct(">iqB")  # and no tagged fields
_NONE_BUT_TAGS: Final = b"\1\0"  # neither epochs nor tagged fields
_ABORTED_TAG: Final = 0
_ABORTED_FROM_TAG: Final = 1
_COMPACTED_TAG: Final = 2
_TAGGED_OFFSET: Final = Struct(">BBq")  # tag, size, offset


class _Tags(NamedTuple):
    """The tagged fields of a part that are known here; those of newer releases are skipped."""

    aborted: Buffer = b""
    aborted_from_offset: int = -1
    compacted_offset: int = -1


_NO_TAGS: Final = _Tags()


def encode_tail_response(correlation_id: int, parts: Sequence[tuple[TailPart, Sequence[Buffer]]]) -> list[Buffer]:
    """A whole TailFetch response frame (0), header included, without its length prefix, as buffers to be joined.

    The records of each part are passed beside it, in any number of buffers; those in the part itself are ignored.
    """
    out = bytearray(_HEAD.pack(correlation_id, 0, 0, 0))
    out += unsigned_varint(len(parts) + 1)
    buffers: list[Buffer] = []
    for part, records in parts:
        out += _PART.pack(
            part.topic_id.bytes,
            part.partition,
            part.error_code,
            part.leader_epoch,
            part.log_start_offset,
            part.high_watermark,
            part.last_stable_offset,
            part.log_end_offset,
            part.base_offset,
        )
        if records:
            out += unsigned_varint(sum(map(len, records)) + 1)
            buffers.append(out)
            buffers += records
            out = bytearray()
        else:
            out.append(1)
        if part.epochs or part.aborted or part.aborted_from_offset != -1 or part.compacted_offset != -1:
            out += unsigned_varint(len(part.epochs) + 1)
            for epoch in part.epochs:
                out += _EPOCH.pack(epoch.leader_epoch, epoch.start_offset, 0)
            _append_tags(out, part)
        else:
            out += _NONE_BUT_TAGS
    out.append(0)
    buffers.append(out)
    return buffers


def _append_tags(out: bytearray, part: TailPart) -> None:
    offsets = [
        (tag, offset)
        for tag, offset in ((_ABORTED_FROM_TAG, part.aborted_from_offset), (_COMPACTED_TAG, part.compacted_offset))
        if offset != -1
    ]
    out.append(bool(part.aborted) + len(offsets))
    if part.aborted:
        length = unsigned_varint(len(part.aborted) + 1)
        out.append(_ABORTED_TAG)
        out += unsigned_varint(len(length) + len(part.aborted)) + length
        out += part.aborted
    for tag, offset in offsets:
        out += _TAGGED_OFFSET.pack(tag, _OFFSET.size, offset)


def parse_tail_response(frame: Buffer) -> TailFetchResponse:
    """A whole TailFetch response frame (0), header included; `records` are views into it. Raises MalformedMessage."""
    view = memoryview(frame)
    try:
        return _parse(view, skip_tagged_fields(view, 4))
    except (IndexError, struct_error) as error:
        raise MalformedMessage("the TailFetch response ends before its last field") from error
    except UnicodeDecodeError as error:
        raise MalformedMessage("a string of the TailFetch response is not UTF-8") from error


def _parse(view: memoryview, at: int) -> TailFetchResponse:
    end = len(view)
    (error_code,) = _CODE.unpack_from(view, at)
    length, at = read_unsigned_varint(view, at + _CODE.size)
    error_message = None
    if length:
        stop = at + length - 1
        if stop > end:
            raise MalformedMessage("a string of the TailFetch response runs past its end")
        error_message = str(view[at:stop], "utf-8")
        at = stop
    count, at = _count(view, at)
    parts = []
    for _ in range(count):
        topic_id, partition, code, leader_epoch, *offsets, base_offset = _PART.unpack_from(view, at)
        length, at = read_unsigned_varint(view, at + _PART.size)
        stop = at + length - 1
        if not length or stop > end:
            raise MalformedMessage(f"records of {length - 1} bytes run past the end of the TailFetch response")
        records = view[at:stop]
        epoch_count, at = _count(view, stop)
        epochs = []
        for _ in range(epoch_count):
            epoch, start_offset, others = _EPOCH.unpack_from(view, at)
            at = at + _EPOCH.size if not others else skip_tagged_fields(view, at + _EPOCH.size - 1)
            epochs.append(EpochStart(leader_epoch=epoch, start_offset=start_offset))
        tags = _tags(view, at) if view[at] else _NO_TAGS
        at = skip_tagged_fields(view, at)
        parts.append(
            TailPart(
                topic_id=_uuid(topic_id),
                partition=partition,
                error_code=code,
                leader_epoch=leader_epoch,
                log_start_offset=offsets[0],
                high_watermark=offsets[1],
                last_stable_offset=offsets[2],
                log_end_offset=offsets[3],
                base_offset=base_offset,
                records=records,
                epochs=tuple(epochs),
                aborted=tags.aborted,
                aborted_from_offset=tags.aborted_from_offset,
                compacted_offset=tags.compacted_offset,
            )
        )
    skip_tagged_fields(view, at)
    return TailFetchResponse(error_code=error_code, error_message=error_message, partitions=tuple(parts))


def _tags(view: memoryview, at: int) -> _Tags:
    skip_tagged_fields(view, at)  # checks that the section is whole
    aborted: Buffer = b""
    offsets = {_ABORTED_FROM_TAG: -1, _COMPACTED_TAG: -1}
    count, at = read_unsigned_varint(view, at)
    for _ in range(count):
        tag, at = read_unsigned_varint(view, at)
        size, at = read_unsigned_varint(view, at)
        if tag == _ABORTED_TAG:
            length, start = read_unsigned_varint(view, at)
            if not length or start + length - 1 != at + size:
                raise MalformedMessage("aborted transactions of the TailFetch response run past their field")
            aborted = bytes(view[start : at + size])
        elif tag in offsets:
            if size != _OFFSET.size:
                raise MalformedMessage(f"an offset of {size} bytes in the TailFetch response")
            (offsets[tag],) = _OFFSET.unpack_from(view, at)
        at += size
    return _Tags(aborted, offsets[_ABORTED_FROM_TAG], offsets[_COMPACTED_TAG])


def _count(view: memoryview, at: int) -> tuple[int, int]:
    count, at = read_unsigned_varint(view, at)
    if not 0 < count <= min(len(view) - at, RESPONSE_ELEMENTS_MAX) + 1:
        raise MalformedMessage(f"a TailFetch response with an array of {count - 1} elements")
    return count - 1, at


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=raw)
