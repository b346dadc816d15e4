"""A record's due time, by its headers: `bmq-deliver-at` in ms since 1970, `bmq-deliver-after` in ms or as a level.

Pure. Levels 1 to 18 are RocketMQ's (messageDelayLevel), so a delay of less than 19 ms cannot be asked for in ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bmq.records import delay_layout

DELIVER_AT: Final = delay_layout.DELIVER_AT
DELIVER_AFTER: Final = delay_layout.DELIVER_AFTER
COMMON_PREFIX: Final = b"bmq-deliver-a"
"""Bytes that occur in every batch with one of these headers."""

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
LEVELS_MS: Final = (
    *(seconds * _SECOND_MS for seconds in (1, 5, 10, 30)),
    *(minutes * _MINUTE_MS for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(hours * _HOUR_MS for hours in (1, 2)),
)
"""Delays of the levels 1, 2, …"""
_NUMBER: Final = re.compile(rb"[0-9]{1,19}")
TIME_MS_MAX: Final = 2**42
"""The latest due time, in the year 2109: a due time and a log's offset together are one number in memory."""


class DueRefused(ValueError):
    """A record whose headers ask for a time that is not allowed. The message tells the producer why."""


def due_ms_of(headers: Iterable[tuple[bytes, bytes | None]], now_ms: int, delay_max_ms: int) -> int | None:
    """The record's due time in ms, perhaps in the past; None without such a header. `now_ms`: the time that delays count from.

    With both headers `bmq-deliver-at` counts. Raises DueRefused.
    """
    at: bytes | None = None
    after: bytes | None = None
    for name, value in headers:
        if name == DELIVER_AT:
            if at is not None:
                raise DueRefused(f"the header {DELIVER_AT.decode()} is in the record more than once")
            at = _digits(DELIVER_AT, value)
        elif name == DELIVER_AFTER:
            if after is not None:
                raise DueRefused(f"the header {DELIVER_AFTER.decode()} is in the record more than once")
            after = _digits(DELIVER_AFTER, value)
    if at is not None:
        due_ms = int(at)
    elif after is not None:
        due_ms = now_ms + _delay_ms(int(after))
    else:
        return None
    if due_ms - now_ms > delay_max_ms or due_ms > TIME_MS_MAX:
        raise DueRefused(f"it asks for a delay of {due_ms - now_ms} ms, bmq.delay.max.ms allows {delay_max_ms}")
    return due_ms


def _digits(name: bytes, value: bytes | None) -> bytes:
    if value is None or _NUMBER.fullmatch(value) is None:
        raise DueRefused(f"the header {name.decode()} is not a number of 1 to 19 ASCII digits")
    return value


def _delay_ms(number: int) -> int:
    return LEVELS_MS[number - 1] if 1 <= number <= len(LEVELS_MS) else number
