"""The last lines that this process logged, for a page of the console. Bounded in number and in bytes.

A line is the JSON that the log has anyway, so an event costs no more than a place in a queue. Secrets are blanked when lines are read.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

LINES_MAX: Final = 2_000
BYTES_MAX: Final = 1024 * 1024
LINE_BYTES_MAX: Final = 32 * 1024
"""A longer line is shortened."""
_VALUE_CHARACTERS_MAX: Final = 1_000
_FIELDS_MAX: Final = 20
_NOT_READABLE: Final = "line_not_readable"


class LogLine(NamedTuple):
    """`number` goes up by one with each line, and is larger after a restart than before."""

    number: int
    text: str


class RecentLogs:
    """`now_ms`: wall time. `redact`: blanks the secrets of a text; it may read files when it is first called. Any thread may log and read."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        redact: Callable[[str], str] = str,
        *,
        lines_max: int = LINES_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self.redact = redact
        self._next = now_ms() * 1_000
        self._lines: deque[LogLine] = deque()
        self._bytes = 0
        self._lines_max = lines_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()

    def keep(self, text: str) -> None:
        """Keep a line of JSON, in place of the oldest ones where there is no more room."""
        if len(text) > LINE_BYTES_MAX:
            text = shortened(text)
        with self._lock:
            self._lines.append(LogLine(self._next, text))
            self._next += 1
            self._bytes += len(text)
            while len(self._lines) > self._lines_max or self._bytes > self._bytes_max:
                self._bytes -= len(self._lines.popleft().text)

    def lines(self) -> list[LogLine]:
        """All that are kept, the oldest first."""
        with self._lock:
            return list(self._lines)


def shortened(text: str) -> str:
    """A line with the beginnings of its first fields."""
    try:
        event = json.loads(text)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        return json.dumps({"event": _NOT_READABLE})
    named = ("event", "level", "timestamp")
    first = {**{name: event[name] for name in named if name in event}, **event}
    kept = list(first.items())[:_FIELDS_MAX]
    return json.dumps({str(name)[:100]: _cut(value) for name, value in kept})


def _cut(value: Any) -> Any:
    if isinstance(value, bool | int | float | None):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _VALUE_CHARACTERS_MAX else f"{text[:_VALUE_CHARACTERS_MAX]}…"


def fields_of(text: str) -> Mapping[str, Any]:
    """The fields of a line as they are."""
    return _read(text) or {"event": _NOT_READABLE}


def event_of(text: str, redact: Callable[[str], str]) -> Mapping[str, Any]:
    """The fields of a line, without secrets."""
    whole = _read(redact(text))
    if whole is not None:
        return whole
    # Blanking a secret may take a quote with it and break the line, so look at each field by itself.
    fields = _read(text)
    if fields is None:
        return {"event": _NOT_READABLE}
    event: dict[str, Any] = {}
    for name, value in fields.items():
        event |= _read(redact(json.dumps({name: value}))) or {name: "(hidden)"}
    return event


def _read(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
