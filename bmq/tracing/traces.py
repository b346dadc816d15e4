"""The traces of a process: which requests are sampled, and whose batches are on their way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final, Protocol

from bmq.tracing.trace import Attribute, Span, Trace, TraceContext

OPEN_MAX: Final = 1_000
"""Most traces of requests that are not answered yet; beyond it no request is sampled."""
_TRACE_ID_BITS: Final = 128
_SPAN_ID_BITS: Final = 64

Appends = Mapping[object, Span]
"""Spans of appends, by the request that their batches carry (AppendRequest). It is empty almost always, and is asked only if not."""
NO_APPENDS: Final[Appends] = MappingProxyType({})


class TraceSink(Protocol):
    """Takes traces that have ended."""

    def take(self, trace: Trace) -> None:
        """Take a trace without waiting, or drop it."""


class Traces:
    """Samples requests. `now_s`: the event loop's time. `now_ns`: the time of day. `appends`: those on their way.

    `per_s_max`: most traces that begin here in a second, whatever the ratio says.
    """

    def __init__(
        self,
        sample_ratio: float,
        per_s_max: int,
        random: Random,
        now_s: Callable[[], float],
        now_ns: Callable[[], int],
        sink: TraceSink,
    ) -> None:
        self._sample_ratio = sample_ratio
        self._per_s_max = per_s_max
        self._random = random
        self._dice = random.random
        self._now_ns = now_ns
        self._sink = sink
        self._second = -1
        self._left = 0
        self.now_s = now_s
        self.open = 0
        self.sampled = 0
        self.appends: dict[object, Span] = {}

    def is_sampled(self) -> bool:
        """Whether the request that has just been received begins a trace."""
        if self._dice() >= self._sample_ratio or self.open >= OPEN_MAX:
            return False
        second = int(self.now_s())
        if second != self._second:
            self._second, self._left = second, self._per_s_max
        self._left -= 1
        return self._left >= 0

    def begin(self, name: str, attributes: dict[str, Attribute], parent: TraceContext | None = None) -> Trace | None:
        """A trace of a request; None if too many are open. `parent`: the span of another node that it continues."""
        if self.open >= OPEN_MAX:
            return None
        self.open += 1
        self.sampled += 1
        trace_id = self._new_id(_TRACE_ID_BITS) if parent is None else parent.trace_id
        parent_id = 0 if parent is None else parent.span_id
        return Trace(name, trace_id, parent_id, self.now_s(), self._now_ns(), attributes, self._new_id, self._ended)

    def _new_id(self, bits: int = _SPAN_ID_BITS) -> int:
        return self._random.getrandbits(bits) or 1

    def _ended(self, trace: Trace) -> None:
        self.open -= 1
        self._sink.take(trace)
