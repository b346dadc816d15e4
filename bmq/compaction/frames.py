"""A compaction between two processes: the plan one way, events the other, as frames of a pipe. Pure.

A frame: a byte for its kind, four for the length of what follows, least first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from pydantic import TypeAdapter

from bmq.log.compaction import CleanedBytes, CleanedGroup, CleaningEnd, CleaningEvent, CleaningPlan
from bmq.log.segment_index import SegmentIndex
from bmq.log.store import Buffer

HEAD: Final = Struct("<BI")
FRAME_BYTES_MAX: Final = 1 << 30


class Kind(IntEnum):
    BYTES = 1
    GROUP = 2
    END = 3
    INTERRUPTED = 4
    UNCLEANABLE = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """The cleaning failed, for this reason; `is_final`: and will each time."""

    reason: str
    is_final: bool


@dataclass(frozen=True, slots=True)
class _GroupHead:
    count: int
    dropped_aborts: tuple[int, ...]


_PLAN: Final = TypeAdapter(CleaningPlan)
_GROUP_HEAD: Final = TypeAdapter(_GroupHead)
_END: Final = TypeAdapter(CleaningEnd)
_HEAD_LENGTH: Final = Struct("<I")


def encode_plan(plan: CleaningPlan) -> bytes:
    return _PLAN.dump_json(plan)


def decode_plan(data: Buffer) -> CleaningPlan:
    """Raises ValueError."""
    return _PLAN.validate_json(bytes(data))


def encode_event(event: CleaningEvent | Failure) -> list[Buffer]:
    """The frame, as buffers to be written one after the other."""
    match event:
        case CleanedBytes(data):
            return [HEAD.pack(Kind.BYTES, len(data)), data]
        case CleanedGroup(count, index, dropped_aborts):
            head = _GROUP_HEAD.dump_json(_GroupHead(count, dropped_aborts))
            body = _HEAD_LENGTH.pack(len(head)) + head + index.encode()
            return [HEAD.pack(Kind.GROUP, len(body)), body]
        case CleaningEnd():
            body = _END.dump_json(event)
            return [HEAD.pack(Kind.END, len(body)), body]
        case Failure(reason, is_final):
            body = reason.encode()
            return [HEAD.pack(Kind.UNCLEANABLE if is_final else Kind.INTERRUPTED, len(body)), body]


def decode_event(kind: int, body: Buffer) -> CleaningEvent | Failure:
    """Raises ValueError, and CorruptIndex for a group's index."""
    match Kind(kind):
        case Kind.BYTES:
            return CleanedBytes(body)
        case Kind.GROUP:
            view = memoryview(body)
            length = _HEAD_LENGTH.unpack_from(view)[0]
            begins = _HEAD_LENGTH.size + length
            head = _GROUP_HEAD.validate_json(bytes(view[_HEAD_LENGTH.size : begins]))
            return CleanedGroup(head.count, SegmentIndex.decode(view[begins:]), head.dropped_aborts)
        case Kind.END:
            return _END.validate_json(bytes(body))
        case Kind.INTERRUPTED:
            return Failure(bytes(body).decode(errors="replace"), is_final=False)
        case Kind.UNCLEANABLE:
            return Failure(bytes(body).decode(errors="replace"), is_final=True)
