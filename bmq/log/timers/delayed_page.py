"""A page of the records that wait in one partition. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from bmq.log.timers.announcements import Position

PAGE_MAX: Final = 1_000
"""Records of one page."""


class DelayedPage(NamedTuple):
    """`pending`: all that wait. `next_due_ms`: of the first of them, perhaps in the past; None: none waits.

    `records`: in order of due time and offset.
    """

    pending: int
    next_due_ms: int | None
    records: tuple[Position, ...]
