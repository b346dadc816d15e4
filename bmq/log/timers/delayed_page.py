"""A page of the pending delayed records of one partition. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from bmq.log.timers.announcements import Position

PAGE_MAX: Final = 1_000
"""Most records of one page."""


class DelayedPage(NamedTuple):
    """One page of pending records.

    `pending`: how many records are pending in all. `next_due_ms`: due time of the first one, perhaps in the past; None without
    one. `records`: those of the page, in order of due time and offset.
    """

    pending: int
    next_due_ms: int | None
    records: tuple[Position, ...]
