"""Names of swimlanes: of lanes, of the groups that read them, and the mark in a consumer's client id. Pure.

A lane of the base group `orders` is read by the group `orders@blue`. A fetch names no group, so consumers of both carry a
mark in their client id: `lanes:orders` and `lanes:orders@blue`, followed by `#` and anything else where an application or
framework adds to it. A client sends the same client id with each of its requests, on each connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

MARK: Final = "lanes:"
_MARK_END: Final = "#"
_LANE_SEPARATOR: Final = "@"
LANE_LENGTH_MAX: Final = 64
_LANE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_FORBIDDEN_IN_GROUPS: Final = re.compile(r"[@/#]")


class LaneRefused(ValueError):
    """A name that no lane or no group with lanes may have. The message is one sentence that says why."""


class LaneGroup(NamedTuple):
    """A group of a set of lanes. `lane`: empty for the base group."""

    base: str
    lane: str

    @property
    def group_id(self) -> str:
        return f"{self.base}{_LANE_SEPARATOR}{self.lane}" if self.lane else self.base


def check_lane(name: str) -> str:
    """The name itself. Raises LaneRefused."""
    if not _LANE.fullmatch(name):
        raise LaneRefused(
            f"{_quoted(name)} is no lane: a lane has 1 to {LANE_LENGTH_MAX} ASCII letters, digits, dots, hyphens and underscores"
        )
    return name


def check_base(group_id: str) -> str:
    """The id of a group that is to have lanes. Raises LaneRefused."""
    if not group_id or _FORBIDDEN_IN_GROUPS.search(group_id):
        raise LaneRefused(f"the group {_quoted(group_id)} cannot have lanes: its id must have none of @ / #")
    return group_id


def lane_group_of(group_id: str) -> LaneGroup:
    """The base group and the lane of a group's id. Raises LaneRefused."""
    base, separator, lane = group_id.partition(_LANE_SEPARATOR)
    return LaneGroup(check_base(base), check_lane(lane) if separator else "")


def marked_group_of(client_id: str | None) -> str | None:
    """The id of the group that a client id names; None: it has no mark. Not checked: see `lane_group_of`."""
    if client_id is None or not client_id.startswith(MARK):
        return None
    return client_id[len(MARK) :].partition(_MARK_END)[0]


def refusal_of(group_id: str, client_id: str, has_lanes: Callable[[str], bool]) -> str | None:
    """Why a client with this id may not be a member of this group, in a sentence; None: it may.

    `has_lanes`: whether a group has lanes, by its id. A member and its fetches then belong to one group, and have one view.
    """
    marked = marked_group_of(client_id)
    if marked is not None:
        if marked == group_id:
            return None
        return f"the client id names the group {_quoted(marked)}, and cannot be a member of {_quoted(group_id)}"
    if has_lanes(group_id.partition(_LANE_SEPARATOR)[0]):
        return f"the group {_quoted(group_id)} has lanes: its consumers need client.id={client_id_of(group_id)[:200]}"
    return None


def copies_topic(topic: str, base: str) -> str:
    """The topic to which records are copied that a lane has left over."""
    return f"{topic}.retry.{base}"


def client_id_of(group_id: str) -> str:
    """The shortest client id with the mark of this group."""
    return MARK + group_id


def _quoted(name: str) -> str:
    """A name for a message: its length comes from a client."""
    return repr(name if len(name) <= LANE_LENGTH_MAX else name[:LANE_LENGTH_MAX] + "…")
