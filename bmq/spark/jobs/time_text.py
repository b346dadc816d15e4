"""Times as users write them on a command line. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from bmq.spark.jobs.outcome import JobFailed

_AGO: Final = re.compile(r"-(\d+)(s|m|h|d)", re.ASCII)
_SHOWN_MAX: Final = 40
_MS_MAX: Final = (1 << 63) - 1
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str, *, now_ms: int) -> int:
    """Parse `1700000000000`, `2026-11-24T10:00` (UTC unless it has a zone) or `-2h` (ago) to milliseconds since 1970.

    Raises JobFailed with one sentence.
    """
    try:
        found_ms = _parsed(text, now_ms)
    except ValueError:
        found_ms = -1
    # A cluster does not look for other times: to it negative ones mean something else.
    if not 0 <= found_ms <= _MS_MAX:
        raise JobFailed(
            f"{text[:_SHOWN_MAX]!r} is no time: write milliseconds since 1970, 2026-11-24T10:00, or -2h for two hours ago"
        )
    return found_ms


def _parsed(text: str, now_ms: int) -> int:
    """Raises ValueError."""
    if match := _AGO.fullmatch(text):
        return now_ms - int(match[1]) * _UNIT_MS[match[2]]
    if text.isascii() and text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def text_of(timestamp_ms: int | None) -> str:
    """UTC, to the millisecond; "-" for None, the number itself if it is outside the calendar."""
    if timestamp_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03}Z"
