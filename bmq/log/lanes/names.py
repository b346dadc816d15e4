"""Names of lanes and of the groups that read them, and the mark in a consumer's client id. Pure.

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
    """A name that a lane or a group with lanes may not have. The message is one sentence that says why."""


class LaneGroup(NamedTuple):
    """A group's id in two parts: the base group's id, and the lane that the group reads (empty for the base group itself)."""

    base: str
    lane: str

    @property
    def group_id(self) -> str:
        return f"{self.base}{_LANE_SEPARATOR}{self.lane}" if self.lane else self.base


def check_lane(name: str) -> str:
    """Return the name if a lane may have it. Raises LaneRefused."""
    if not _LANE.fullmatch(name):
        raise LaneRefused(
            f"{_quoted(name)} is no lane: a lane has 1 to {LANE_LENGTH_MAX} ASCII letters, digits, dots, hyphens and underscores"
        )
    return name


def check_base(group_id: str) -> str:
    """Return the id if a group with this id may have lanes. Raises LaneRefused."""
    if not group_id or _FORBIDDEN_IN_GROUPS.search(group_id):
        raise LaneRefused(f"the group {_quoted(group_id)} cannot have lanes: its id must have none of @ / #")
    return group_id


def lane_group_of(group_id: str) -> LaneGroup:
    """The base group and the lane that a group's id names. Raises LaneRefused."""
    base, separator, lane = group_id.partition(_LANE_SEPARATOR)
    return LaneGroup(check_base(base), check_lane(lane) if separator else "")


def marked_group_of(client_id: str | None) -> str | None:
    """The group id in a client id's mark, unchecked (see `lane_group_of`); None without a mark."""
    if client_id is None or not client_id.startswith(MARK):
        return None
    return client_id[len(MARK) :].partition(_MARK_END)[0]


def refusal_of(group_id: str, client_id: str, has_lanes: Callable[[str], bool]) -> str | None:
    """One sentence that says why a client with this id may not be a member of this group; None if it may.

    `has_lanes`: whether the group with this id has lanes. The check makes a member and its fetches belong to the same group, so
    that both see the same records.
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
    """The topic of copies: records that lanes of the group `base` left over are copied to it."""
    return f"{topic}.retry.{base}"


def client_id_of(group_id: str) -> str:
    """The shortest client id with the mark of this group."""
    return MARK + group_id


def _quoted(name: str) -> str:
    """The name in quotes, cut for a message: a client may send a name of any length."""
    return repr(name if len(name) <= LANE_LENGTH_MAX else name[:LANE_LENGTH_MAX] + "…")
