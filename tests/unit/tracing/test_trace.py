"""One trace: what it keeps, its bounds, and what comes too late."""

from __future__ import annotations

import pytest

from bmq.tracing.trace import CONTEXT_BYTES, SPANS_MAX, UNFINISHED, TraceContext, decode_context
from tests.unit.tracing.ended_traces import NOON_NS, EndedTraces, all_of, names

pytestmark = pytest.mark.unit


def test_a_context_goes_to_another_node_and_back() -> None:
    context = TraceContext(2**128 - 2**64 + 5, 2**64 - 1)
    encoded = context.encode()
    assert len(encoded) == CONTEXT_BYTES == 25
    assert encoded[-1] == 1
    assert decode_context(encoded) == context
    assert decode_context(bytes(24) + b"\1") is None


def test_a_trace_ends_once_and_closes_what_is_open() -> None:
    sink = EndedTraces()
    trace = all_of(lambda: 10.0, sink).begin("produce", {"bmq.bytes": 5})
    assert trace is not None
    append = trace.root.begin("append", 10.5, {"a": "b"})
    done = append.begin("group commit", 10.5)
    done.end(10.75, messaging__kafka__offset=7)
    trace.end(11.0)
    trace.end(12.0, error="too late")
    append.end(12.0, error="too late")
    done.end(12.0, other=1)
    assert trace.root.begin("late", 12.0).trace is trace
    assert sink.traces == [trace]
    assert names(trace) == ["produce", "append", "group commit"]
    assert [(span.ended_s, span.error) for span in trace.spans] == [(11.0, None), (11.0, UNFINISHED), (10.75, None)]
    assert done.attributes == {"messaging.kafka.offset": 7}
    assert (done.parent_id, append.parent_id, trace.root.parent_id) == (append.span_id, trace.root.span_id, 0)
    assert trace.ns_of(10.75) == NOON_NS + 750_000_000


def test_a_trace_keeps_a_bounded_number_of_spans() -> None:
    sink = EndedTraces()
    trace = all_of(lambda: 0.0, sink).begin("produce", {})
    assert trace is not None
    for _ in range(SPANS_MAX + 9):
        trace.root.begin("append", 0.0).end(1.0)
    trace.end(1.0)
    assert len(trace.spans) == SPANS_MAX
    assert trace.left_out == 10
