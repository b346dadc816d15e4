"""A compaction between two processes: the plan one way, events the other, as frames of a pipe. Pure.

A frame: a byte for its kind, four for the length of what follows, least first.
"""

from __future__ import annotations

import json
from dataclasses import fields
from enum import IntEnum
from struct import Struct
from typing import Final

from bmq.dataclass import dataclass
from bmq.log.aborted_transactions import AbortedEntry
from bmq.log.compaction import CleanedBytes, CleanedGroup, CleaningEnd, CleaningEvent, CleaningPlan
from bmq.log.manifest import Extent
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


_HEAD_LENGTH: Final = Struct("<I")
_PLAN_FIELDS: Final = tuple(one.name for one in fields(CleaningPlan))
_EXTENT_FIELDS: Final = tuple(one.name for one in fields(Extent))
_END_FIELDS: Final = tuple(one.name for one in fields(CleaningEnd))
_LIST_OF_PLAN: Final = ("groups", "paths", "aborted", "last_records")


def encode_plan(plan: CleaningPlan) -> bytes:
    document = {name: getattr(plan, name) for name in _PLAN_FIELDS}
    if not plan.is_merge:
        del document["is_merge"]  # a job of an older release does not know it
    document["groups"] = [[[getattr(extent, name) for name in _EXTENT_FIELDS] for extent in of] for of in plan.groups]
    return _json(document)


def decode_plan(data: Buffer) -> CleaningPlan:
    """Raises ValueError."""
    try:
        document = json.loads(bytes(data))
        groups, paths, aborted, last_records = (document.pop(name) for name in _LIST_OF_PLAN)
        return CleaningPlan(
            groups=tuple(tuple(Extent(*extent) for extent in group) for group in groups),
            paths=tuple(map(tuple, paths)),
            aborted=tuple(AbortedEntry(*entry) for entry in aborted),
            last_records=tuple((producer_id, offset, epoch) for producer_id, offset, epoch in last_records),
            **document,
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no plan of a cleaning: {error}") from error


def _numbers(data: Buffer, count: int | None = None) -> list[int]:
    """Raises ValueError for anything but a list of so many whole numbers, at least one."""
    found = json.loads(bytes(data))
    if not isinstance(found, list) or not found or any(type(one) is not int for one in found):
        raise ValueError("no list of numbers")
    if count is not None and len(found) != count:
        raise ValueError(f"{len(found)} numbers, {count} were due")
    return found


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def encode_event(event: CleaningEvent | Failure) -> list[Buffer]:
    """The frame, as buffers to be written one after the other."""
    match event:
        case CleanedBytes(data):
            return [HEAD.pack(Kind.BYTES, len(data)), data]
        case CleanedGroup(count, index, dropped_aborts):
            head = _json([count, *dropped_aborts])
            body = _HEAD_LENGTH.pack(len(head)) + head + index.encode()
            return [HEAD.pack(Kind.GROUP, len(body)), body]
        case CleaningEnd():
            body = _json([getattr(event, name) for name in _END_FIELDS])
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
            count, *dropped_aborts = _numbers(view[_HEAD_LENGTH.size : begins])
            return CleanedGroup(count, SegmentIndex.decode(view[begins:]), tuple(dropped_aborts))
        case Kind.END:
            return CleaningEnd(*_numbers(body, len(_END_FIELDS)))
        case Kind.INTERRUPTED:
            return Failure(bytes(body).decode(errors="replace"), is_final=False)
        case Kind.UNCLEANABLE:
            return Failure(bytes(body).decode(errors="replace"), is_final=True)
