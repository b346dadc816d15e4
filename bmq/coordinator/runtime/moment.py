"""The time that decisions are made at. Decisions only."""

from __future__ import annotations

from typing import Final, NamedTuple

NEVER_MS: Final = float("inf")
"""A deadline that is never due."""


class Moment(NamedTuple):
    """The time now: on the event loop's clock (for deadlines) and by the wall clock (for the log)."""

    loop_ms: float
    wall_ms: int
