"""Exports traces to an OTLP endpoint, by OpenTelemetry's SDK in a thread. The event loop never waits for it.

Imported only where traces are on. A trace that does not fit into the queue, or that the endpoint does not take, is dropped and
counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from bmq.server.trace_stats import TraceStats
from bmq.server.tracing_settings import TracingSettings
from bmq.tracing.trace import Kind, Span, Trace

SPANS_PER_POST_MAX: Final = 256
GATHER_S: Final = 1.0
"""How long more traces are waited for before some are sent. The thread sleeps meanwhile: each time that it runs, the event loop may
have to wait for the interpreter's lock."""
CLOSE_S_MAX: Final = 2.0
"""How long a stop waits until the queue is sent."""

_KINDS: Final = {Kind.INTERNAL: SpanKind.INTERNAL, Kind.SERVER: SpanKind.SERVER, Kind.CLIENT: SpanKind.CLIENT}
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_log = structlog.get_logger("bmq.cli")


class _GivenIds(IdGenerator):
    """Gives the SDK the ids that the spans have already."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 1

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class _Ended(SpanProcessor):
    """Collects the spans of the SDK that have ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class SpanMaker:
    """Makes the SDK's spans of traces. `attributes`: of this process."""

    def __init__(self, attributes: dict[str, str]) -> None:
        self._ids = _GivenIds()
        self._ended = _Ended()
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create(dict(attributes)),
            shutdown_on_exit=False,
            id_generator=self._ids,
        )
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer("bmq", attributes["service.version"])

    def spans_of(self, trace: Trace) -> list[ReadableSpan]:
        """The spans of one trace, the root first."""
        self._ids.trace_id = trace.trace_id
        for span in trace.spans:
            self._make(trace, span)
        made, self._ended.spans = self._ended.spans, []
        return made

    def _make(self, trace: Trace, span: Span) -> None:
        self._ids.span_id = span.span_id
        parent = Context()
        if span.parent_id:
            is_remote = span is trace.root
            context = SpanContext(trace.trace_id, span.parent_id, is_remote, _SAMPLED)
            parent = set_span_in_context(NonRecordingSpan(context), parent)
        made = self._tracer.start_span(
            span.name,
            context=parent,
            kind=_KINDS[span.kind],
            attributes=span.attributes,
            start_time=trace.ns_of(span.begun_s),
        )
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        assert span.ended_s is not None  # the trace has ended
        made.end(trace.ns_of(span.ended_s))


def otlp_exporter(settings: TracingSettings) -> SpanExporter:
    """Sends to the endpoint. OpenTelemetry's own variables may add headers, certificates and compression."""
    # What it logs, `_note_failure` says in our words.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    return OTLPSpanExporter(endpoint=settings.endpoint, timeout=settings.timeout_s)


class TraceExport:
    """Implements TraceSink. `exporter` is called in the thread alone. `attributes`: see SpanMaker."""

    def __init__(self, settings: TracingSettings, exporter: SpanExporter, attributes: dict[str, str]) -> None:
        self.stats = TraceStats()
        self._settings = settings
        self._exporter = exporter
        self._maker = SpanMaker(attributes)
        self._queue: SimpleQueue[Trace | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._is_failing = False
        self._is_behind = False  # of the thread: more traces wait than go into one request
        self._is_closing = Event()
        self._thread = Thread(target=self._run, name="bmq-traces", daemon=True)
        self._thread.start()

    def take(self, trace: Trace) -> None:
        """Implements TraceSink.take."""
        stats, count = self.stats, len(trace.spans)
        stats.left_out_spans += trace.left_out
        if stats.queued_spans - stats.taken_spans + count > self._settings.queue_spans_max:
            stats.dropped_for_want_of_room += count
            return
        stats.queued_spans += count
        self._queue.put(trace)

    async def close(self) -> None:
        """Send what waits, for CLOSE_S_MAX at most."""
        self._is_closing.set()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, CLOSE_S_MAX)
        self._exporter.shutdown()  # ends a retry; a thread that hangs in a request ends with the process

    # --- in the thread

    def _run(self) -> None:
        is_open = True
        while is_open:
            traces, is_open = self._next()
            spans: list[ReadableSpan] = []
            for trace in traces:
                spans += self._maker.spans_of(trace)
                time.sleep(0)  # the event loop may go on
            if spans:
                self._export(spans)

    def _next(self) -> tuple[Sequence[Trace], bool]:
        """(the next traces to send, whether more may come)."""
        traces: list[Trace] = []
        count = 0
        trace = self._queue.get()
        if not self._is_behind:
            self._is_closing.wait(GATHER_S)
        self._is_behind = False
        while trace is not None:
            traces.append(trace)
            count += len(trace.spans)
            self.stats.taken_spans += len(trace.spans)
            if count >= SPANS_PER_POST_MAX:
                self._is_behind = True
                return traces, True
            try:
                trace = self._queue.get_nowait()
            except Empty:
                return traces, True
        return traces, False

    def _export(self, spans: Sequence[ReadableSpan]) -> None:
        try:
            is_taken = self._exporter.export(spans) is SpanExportResult.SUCCESS
            why = "it does not take them"
        except Exception as error:  # noqa: BLE001 any failure is one of the endpoint, and counted
            is_taken, why = False, str(error)
        if is_taken:
            self.stats.exported_spans += len(spans)
        else:
            self.stats.dropped_by_the_endpoint += len(spans)
            if not self._is_failing and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._note_failure, why)
        self._is_failing = not is_taken

    def _note_failure(self, why: str) -> None:
        """Log the first of failures in a row; the counter has the others."""
        _log.warning("traces_dropped", endpoint=self._settings.endpoint, why=why)
