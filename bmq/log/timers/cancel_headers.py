"""Which delayed record a record cancels, by its header `bmq-cancel`: `<offset>,<due time in ms>`. Pure.

The offset is that of the produce response, the due time the one the record asked for (`bmq topic timers` shows both). The due
time is required so that a wrong offset cancels no other record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bmq.log.timers.announcements import Position
from bmq.log.timers.due_headers import DELIVER_AFTER, DELIVER_AT, TIME_MS_MAX

CANCEL: Final = b"bmq-cancel"
_PAIR: Final = re.compile(rb"([0-9]{1,19}),([0-9]{1,19})")
_OFFSET_MAX: Final = 2**63 - 1


class CancelRefused(ValueError):
    """A record whose cancellation is refused. The message tells the producer why."""


def cancelled_by(headers: Iterable[tuple[bytes, bytes | None]]) -> Position | None:
    """The record to cancel; None without the header `bmq-cancel`. Raises CancelRefused."""
    found: Position | None = None
    has_delay = False
    for name, value in headers:
        if name == CANCEL:
            if found is not None:
                raise CancelRefused(f"the header {CANCEL.decode()} is in the record more than once")
            found = _target(value)
        elif name in (DELIVER_AT, DELIVER_AFTER):
            has_delay = True
    if found is not None and has_delay:
        raise CancelRefused(f"a record with the header {CANCEL.decode()} cannot be delayed itself")
    return found


def _target(value: bytes | None) -> Position:
    pair = None if value is None else _PAIR.fullmatch(value)
    if pair is None:
        raise CancelRefused(f"the header {CANCEL.decode()} is not <offset>,<due time in ms> in ASCII digits")
    offset, due_ms = int(pair[1]), int(pair[2])
    if offset > _OFFSET_MAX or due_ms > TIME_MS_MAX:
        raise CancelRefused(f"the header {CANCEL.decode()} names an offset or a time that no record can have")
    return Position(due_ms, offset)
