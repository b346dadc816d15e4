"""What the kernel says of delayed records. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

DELIVER_AT: Final = b"bmq-deliver-at"
DELIVER_AFTER: Final = b"bmq-deliver-after"
OUR_PREFIX: Final = b"bmq-"
TIMER_PREFIX: Final = b"bmq-timer-"
"""Delivered records have headers that begin so, and may be produced again."""
OFFSET_HEADER: Final = b"bmq-timer-offset"
DUE_HEADER: Final = b"bmq-timer-due"
CREATED_HEADER: Final = b"bmq-timer-created"
ENTRY_BYTES: Final = 24
"""Length of a held record's entry in an announcement: due time, own time, offset delta, bytes of its body."""
UNUSUAL: Final = 1


class DelayTerms(NamedTuple):
    """What a topic's records may ask for, now. `levels_ms`: delays that are asked for by their number, from 1 on. `time_max_ms`: the
    latest due time. `floor_ms`: a record that is held is not due before. `append_time_ms`: the time of all records; None: it
    is `base_timestamp_ms` and their own delta.
    """

    levels_ms: Sequence[int]
    now_ms: int
    delay_max_ms: int
    time_max_ms: int
    floor_ms: int
    base_timestamp_ms: int
    append_time_ms: int | None


class DelayedSplit(NamedTuple):
    """`entries`: of `held_count` records, ENTRY_BYTES each; `bodies`: theirs, back to back. `kept`: the other records, whole, and
    `newest_ms` the latest of their times, -1 for none.
    """

    held_count: int
    entries: memoryview
    bodies: memoryview
    kept_count: int
    kept: memoryview
    newest_ms: int
