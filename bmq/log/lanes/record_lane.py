"""The lane of a record, by its headers: the lane header (default `x-lane`), or that key of W3C `baggage`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_to_bytes

from bmq.log.lanes.names import LaneRefused, check_lane

DEFAULT_HEADER: Final = "x-lane"
BAGGAGE: Final = b"baggage"
NO_LANE: Final = ""

Headers = Iterable[tuple[bytes, bytes | None]]


def lane_of(headers: Headers, header: bytes) -> str:
    """The record's lane, NO_LANE without one. `header`: the name of the lane header.

    A lane header that is not empty counts before baggage. Raises LaneRefused for a name that is not valid, and for more than one
    lane. Source: W3C Baggage, section 3.2 (list members `key=value;property`, percent-encoded).
    """
    own: list[bytes] = []
    carried: list[bytes] = []
    for name, value in headers:
        if name == header and value:
            own.append(value)
        elif name == BAGGAGE and value:
            carried += _members(value, header)
    if len(own) > 1:
        raise LaneRefused(f"the header {header.decode(errors='replace')} is in the record more than once")
    if own:
        return check_lane(_text(own[0]))
    lanes = dict.fromkeys(carried)
    if len(lanes) > 1:
        raise LaneRefused(f"the header baggage has the key {header.decode(errors='replace')} with more than one lane")
    return check_lane(_text(carried[0])) if carried else NO_LANE


def read_lane_of(headers: Headers, header: bytes) -> str:
    """The lane of a record in the log, as `lane_of` says; NO_LANE if that refuses the record's headers."""
    try:
        return lane_of(headers, header)
    except LaneRefused:
        return NO_LANE


def may_have_lane(body: bytes | bytearray | memoryview, header: bytes) -> bool:
    """Whether any of these decompressed records may have a lane; costs one or two searches of their bytes."""
    searched = body if isinstance(body, bytes | bytearray) else bytes(body)
    return header in searched


def _members(value: bytes, key: bytes) -> list[bytes]:
    found = []
    for member in value.split(b","):
        name, separator, text = member.partition(b";")[0].partition(b"=")
        if separator and name.strip() == key and text.strip():
            found.append(unquote_to_bytes(text.strip()))
    return found


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
