"""The headers by which a record is a half message, or decides one. Pure.

`bmq-half` makes the record a half message: it stays hidden until it is decided; the header's value is its check id.
`bmq-half-commit` and `bmq-half-rollback` decide the half message whose offset is their value, in the record's own partition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

HALF: Final = b"bmq-half"
COMMIT: Final = b"bmq-half-commit"
ROLLBACK: Final = b"bmq-half-rollback"
OFFSET: Final = b"bmq-half-offset"
"""Header of a delivered record: the offset that the produce response gave to its half message."""
COMMON_PREFIX: Final = HALF
"""Bytes that occur in every batch with one of these headers."""
CHECK_ID_BYTES_MAX: Final = 128
_NUMBER: Final = re.compile(rb"[0-9]{1,19}")
_OFFSET_MAX: Final = 2**63 - 1


class Outcome(IntEnum):
    """A decision about a half message.

    GIVING_UP: the checks brought no decision, and the message is being copied to the topic for those; GIVEN_UP: it was copied.
    """

    COMMIT = 0
    ROLLBACK = 1
    GIVING_UP = 2
    GIVEN_UP = 3


class AskedDecision(NamedTuple):
    """A decision about the half message `offset` that is asked for."""

    outcome: Outcome
    offset: int


class HalfRefused(ValueError):
    """A record whose half-message headers are refused. The message tells the producer why."""


_MEANINGS: Final = frozenset((HALF, COMMIT, ROLLBACK))


def asked_by(headers: Iterable[tuple[bytes, bytes | None]]) -> str | AskedDecision | None:
    """The check id of a half message, the decision of a record that decides one, or None for others. Raises HalfRefused."""
    found: tuple[bytes, bytes | None] | None = None
    for name, value in headers:
        if name not in _MEANINGS:
            continue
        if found is not None:
            both = "more than once" if found[0] == name else f"beside {found[0].decode()}"
            raise HalfRefused(f"the header {name.decode()} is in the record {both}")
        found = name, value
    if found is None:
        return None
    name, value = found
    if name == HALF:
        return _check_id(value)
    if value is None or _NUMBER.fullmatch(value) is None or int(value) > _OFFSET_MAX:
        raise HalfRefused(f"the header {name.decode()} is no offset: a number of 1 to 19 ASCII digits")
    return AskedDecision(Outcome.COMMIT if name == COMMIT else Outcome.ROLLBACK, int(value))


def _check_id(value: bytes | None) -> str:
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        text = ""
    if not text or len(value or b"") > CHECK_ID_BYTES_MAX or not text.isprintable():
        raise HalfRefused(
            f"the header {HALF.decode()} is no check id: 1 to {CHECK_ID_BYTES_MAX} bytes of printable UTF-8"
        )
    return text
