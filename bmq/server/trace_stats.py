"""Counts of traces, for /metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class TraceStats(Collector):
    """Counts since the process began. Each number has one writer: the event loop or the thread."""

    def __init__(self, sampled: Callable[[], int] = int) -> None:
        self.count_sampled = sampled
        self.queued_spans = 0  # ever
        self.taken_spans = 0  # of these, out of the queue
        self.exported_spans = 0
        self.dropped_for_want_of_room = 0
        self.dropped_by_the_endpoint = 0
        self.left_out_spans = 0

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily("bmq_traces_sampled", "Requests that are traced.", value=self.count_sampled())
        yield CounterMetricFamily(
            "bmq_trace_spans_exported", "Spans that the OTLP endpoint accepted.", value=self.exported_spans
        )
        dropped = CounterMetricFamily("bmq_trace_spans_dropped", "Spans dropped, by the reason.", labels=("reason",))
        dropped.add_metric(("queue_full",), self.dropped_for_want_of_room)
        dropped.add_metric(("not_accepted",), self.dropped_by_the_endpoint)
        dropped.add_metric(("trace_too_long",), self.left_out_spans)
        yield dropped
