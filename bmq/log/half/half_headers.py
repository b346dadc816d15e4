"""What a record says about half messages, by its headers. Pure.

`bmq-half` has the check id of a message that stays hidden until it is decided. `bmq-half-commit` and `bmq-half-rollback` decide
the half message with this offset, in the partition that the record is produced to.
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
"""Of a delivered record: the offset that the producer of the half message was told."""
COMMON_PREFIX: Final = HALF
"""Bytes that every batch with one of these headers has."""
CHECK_ID_BYTES_MAX: Final = 128
_NUMBER: Final = re.compile(rb"[0-9]{1,19}")
_OFFSET_MAX: Final = 2**63 - 1


class Outcome(IntEnum):
    """What was decided. GIVING_UP: nobody decides any more, and its copy is written; GIVEN_UP: the copy is written."""

    COMMIT = 0
    ROLLBACK = 1
    GIVING_UP = 2
    GIVEN_UP = 3


class AskedDecision(NamedTuple):
    """A record that decides the half message `offset`."""

    outcome: Outcome
    offset: int


class HalfRefused(ValueError):
    """A record whose headers say nothing that can be done. The message says why, for the producer."""


_MEANINGS: Final = frozenset((HALF, COMMIT, ROLLBACK))


def asked_by(headers: Iterable[tuple[bytes, bytes | None]]) -> str | AskedDecision | None:
    """The check id of a half message, or a decision; None: an ordinary record. Raises HalfRefused."""
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
