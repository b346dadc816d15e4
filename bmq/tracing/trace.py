"""One sampled request in one process: what was done for it, and when. Pure.

A trace is noted on the event loop in the loop's time, and is given away when it ends. Then it does not change any more: spans that
end later are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

Attribute = str | int | tuple[str, ...]

SPANS_MAX: Final = 64
"""Most spans of a trace in one process; a request may name thousands of partitions."""
_CONTEXT: Final = Struct(">QQQB")
_HALF: Final = 64
_SAMPLED: Final = 1
UNFINISHED: Final = "it had not ended when the request was answered"


class Kind(IntEnum):
    """The kind of a span, with OpenTelemetry's numbers."""

    INTERNAL = 0
    SERVER = 1
    CLIENT = 2


class TraceContext(NamedTuple):
    """A span of another process that goes on here."""

    trace_id: int
    span_id: int

    def encode(self) -> bytes:
        """Trace id, span id, and the flag `sampled`, as in W3C's traceparent. Its last byte is 1."""
        return _CONTEXT.pack(self.trace_id >> _HALF, self.trace_id & (1 << _HALF) - 1, self.span_id, _SAMPLED)


CONTEXT_BYTES: Final = _CONTEXT.size


def decode_context(data: bytes) -> TraceContext | None:
    """The context in these bytes; None if an id is 0, which OpenTelemetry calls invalid."""
    high, low, span_id, _ = _CONTEXT.unpack(data)
    trace_id = high << _HALF | low
    return TraceContext(trace_id, span_id) if trace_id and span_id else None


class Span:
    """Something that was done for a request. `parent_id`: 0 for none. `error`: why it failed, or None. Times: of the event loop."""

    __slots__ = ("attributes", "begun_s", "ended_s", "error", "kind", "name", "parent_id", "span_id", "trace")

    def __init__(
        self, trace: Trace, name: str, parent_id: int, begun_s: float, kind: Kind, attributes: dict[str, Attribute]
    ) -> None:
        self.trace = trace
        self.name = name
        self.span_id = trace.new_id()
        self.parent_id = parent_id
        self.begun_s = begun_s
        self.ended_s: float | None = None
        self.kind = kind
        self.attributes = attributes
        self.error: str | None = None

    @property
    def context(self) -> TraceContext:
        """Goes to the node that continues this span."""
        return TraceContext(self.trace.trace_id, self.span_id)

    def begin(
        self,
        name: str,
        begun_s: float,
        attributes: dict[str, Attribute] | None = None,
        kind: Kind = Kind.INTERNAL,
    ) -> Span:
        """A part of this span."""
        return self.trace.add(Span(self.trace, name, self.span_id, begun_s, kind, attributes or {}))

    def end(self, now_s: float, *, error: str | None = None, **attributes: Attribute) -> None:
        """The span has ended; the first call counts. `attributes`: added; `__` in a name stands for a dot."""
        if self.ended_s is None:
            self.ended_s = now_s
            self.error = error
            for name, value in attributes.items():
                self.attributes[name.replace("__", ".")] = value


class Trace:
    """`root`: the request itself. `spans`: the root first. `left_out`: spans beyond SPANS_MAX.

    `begun_ns`: the time of day at which the root began, in nanoseconds. `new_id`: draws an id of 64 bits, never 0. `ended`: is given
    the trace when it ends.
    """

    __slots__ = ("_ended", "begun_ns", "is_ended", "left_out", "new_id", "root", "spans", "trace_id")

    def __init__(
        self,
        name: str,
        trace_id: int,
        parent_id: int,
        begun_s: float,
        begun_ns: int,
        attributes: dict[str, Attribute],
        new_id: Callable[[], int],
        ended: Callable[[Trace], None],
    ) -> None:
        self.trace_id = trace_id
        self.new_id = new_id
        self.begun_ns = begun_ns
        self.is_ended = False
        self.left_out = 0
        self._ended = ended
        self.root = Span(self, name, parent_id, begun_s, Kind.SERVER, attributes)
        self.spans = [self.root]

    def add(self, span: Span) -> Span:
        """Add a span, if there is room and the trace has not ended."""
        if not self.is_ended and len(self.spans) < SPANS_MAX:
            self.spans.append(span)
        elif not self.is_ended:
            self.left_out += 1
        return span

    def end(self, now_s: float, error: str | None = None) -> None:
        """The request is answered, and its answer is sent, or cannot be. The first call counts."""
        if self.is_ended:
            return
        self.root.end(now_s, error=error)
        for span in self.spans:
            span.end(now_s, error=UNFINISHED)
        self.is_ended = True
        self._ended(self)

    def ns_of(self, loop_s: float) -> int:
        """The time of day in nanoseconds, of a time of the event loop."""
        return self.begun_ns + round((loop_s - self.root.begun_s) * 1e9)
