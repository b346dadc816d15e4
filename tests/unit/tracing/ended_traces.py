"""Traces that a test keeps in place of an endpoint."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bmq.tracing.trace import Span, Trace
from bmq.tracing.traces import Traces

NOON_NS = 43_200_000_000_000


class EndedTraces:
    """Implements TraceSink."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []

    def take(self, trace: Trace) -> None:
        self.traces.append(trace)

    def named(self, name: str) -> Trace:
        """The only trace whose root has this name."""
        (trace,) = [one for one in self.traces if one.root.name == name]
        return trace


def all_of(now_s: Callable[[], float], sink: EndedTraces, *, seed: int = 1, ratio: float = 1.0) -> Traces:
    """Samples every request."""
    return Traces(ratio, 1_000_000, Random(seed), now_s, lambda: NOON_NS, sink)


def names(trace: Trace) -> list[str]:
    """Of its spans, as they began."""
    return [span.name for span in trace.spans]


def span_of(trace: Trace, name: str) -> Span:
    """The only span with this name."""
    (span,) = [one for one in trace.spans if one.name == name]
    return span
