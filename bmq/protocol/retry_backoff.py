"""The text of a share group's `bmq.share.retry.backoff`: how long a record waits before it is given again. Pure.

`1s..60s`: 1 s after the first delivery, then twice as long each time, and 60 s at most. `1s,10s,5m`: a list; its last
value counts from then on. No text: at once. Units are ms, s, m and h.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

BACKOFF_MAX_MS: Final = 24 * 3_600_000
"""The longest back-off: a record that waits keeps the start offset of its share partition."""
STEPS_MAX: Final = 25
"""Items of a list; no delivery count limit is higher."""
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION: Final = re.compile(r"(\d{1,9})(ms|s|m|h)", re.ASCII)
_RANGE: Final = ".."


class BadBackoff(ValueError):
    """The message says in one clause what a value has to look like."""


@lru_cache(maxsize=1024)
def backoff_of(text: str) -> tuple[int, ...]:
    """Milliseconds after the first, second, … delivery; the last one counts from then on. () for no text.

    Raises BadBackoff.
    """
    text = text.strip()
    if not text:
        return ()
    if _RANGE in text:
        first, _, last = text.partition(_RANGE)
        return _doubled(_milliseconds(first), _milliseconds(last))
    steps = tuple(map(_milliseconds, text.split(",")))
    if len(steps) > STEPS_MAX:
        raise BadBackoff(f"Must have at most {STEPS_MAX} items")
    return steps


def delay_ms(backoff: tuple[int, ...], delivery_count: int) -> int:
    """How long a record waits that was given so often; 0 without a back-off."""
    return backoff[min(max(delivery_count, 1), len(backoff)) - 1] if backoff else 0


def _doubled(first_ms: int, last_ms: int) -> tuple[int, ...]:
    if not 0 < first_ms <= last_ms:
        raise BadBackoff("The first duration of a range must be above 0 and not above the last one")
    steps = [first_ms]
    while steps[-1] < last_ms:
        steps.append(min(2 * steps[-1], last_ms))
    return tuple(steps)


def _milliseconds(text: str) -> int:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise BadBackoff("Must be a range like 1s..60s, or a list like 1s,10s,5m; units are ms, s, m and h")
    value = int(found[1]) * _UNITS_MS[found[2]]
    if value > BACKOFF_MAX_MS:
        raise BadBackoff("No duration may be longer than 24h")
    return value
