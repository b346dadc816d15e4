"""An OTLP endpoint over HTTP: takes traces, and decodes them by OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpCollector:
    """`spans`: all that came, with the id of the node that sent each."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers["content-encoding"] == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                collector.take(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def environment(self) -> dict[str, str]:
        """Of servers that trace every request."""
        return {
            "BMQ_TRACING__ENDPOINT": self.url,
            "BMQ_TRACING__SAMPLE_RATIO": "1",
            "BMQ_TRACING__TRACES_PER_S_MAX": "1000",
        }

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            node = attributes_of(resource.resource)["service.instance.id"]
            self.spans += [(node, span) for scope in resource.scope_spans for span in scope.spans]

    def traces(self, root: str) -> list[list[tuple[str, Span]]]:
        """The traces that began with a span of this name, each with all its spans of all nodes."""
        came = tuple(self.spans)
        ids = [span.trace_id for _, span in came if span.name == root and not span.parent_span_id]
        return [[one for one in came if one[1].trace_id == trace_id] for trace_id in ids]

    def close(self) -> None:
        """Close its port. May be called twice."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


def attributes_of(thing: Any) -> dict[str, Any]:
    """The attributes of a span or a resource, as values of Python."""
    return {one.key: _value(one.value) for one in thing.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(one) for one in found.values] if kind == "array_value" else found


def named(trace: Sequence[tuple[str, Span]], name: str) -> list[Span]:
    """The spans of a trace with this name."""
    return [span for _, span in trace if span.name == name]
