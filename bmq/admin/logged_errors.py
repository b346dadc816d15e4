"""Counts what this process logs: warnings and errors by event, for /metrics and the health.

Only names of events and loggers are kept, which come from the code; values of fields are not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.admin.health import LoggedEvent

EVENTS_MAX: Final = 1_000
"""Events counted by name; further ones are counted together under OTHER."""
OTHER: Final = "other"
_SEVERITIES: Final = {"warning": "warning", "error": "error", "exception": "error", "critical": "error"}


class LoggedErrors(Collector):
    """A structlog processor, `note`, and the metrics of what it saw. Any thread may log. `now_ms`: wall time."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._found: dict[tuple[str, str], LoggedEvent] = {}
        self._lock = threading.Lock()

    def note(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Count the line, whether or not its logger's level hides it, and pass it on."""
        severity = _SEVERITIES.get(method)
        if severity is not None:
            now_ms = self._now_ms()
            with self._lock:
                key = (str(event.get("event", "")), severity)
                if key not in self._found and len(self._found) >= EVENTS_MAX:
                    key = (OTHER, severity)
                known = self._found.get(key)
                self._found[key] = LoggedEvent(*key, 1 if known is None else known.count + 1, now_ms)
        return event

    def since(self, from_ms: int) -> tuple[LoggedEvent, ...]:
        """Errors logged at or after a wall time, the latest first. Counts are those since the start."""
        with self._lock:
            found = [one for one in self._found.values() if one.severity == "error" and one.last_ms >= from_ms]
        return tuple(sorted(found, key=lambda one: -one.last_ms))

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            found = list(self._found.values())
        counts = CounterMetricFamily(
            "bmq_log_events", "Warnings and errors that were logged, hidden ones too.", labels=["event", "severity"]
        )
        last = GaugeMetricFamily(
            "bmq_log_event_last_timestamp_seconds",
            "When a warning or error was logged last.",
            labels=["event", "severity"],
        )
        for one in found:
            counts.add_metric([one.event, one.severity], one.count)
            last.add_metric([one.event, one.severity], one.last_ms / 1000)
        yield from (counts, last)
