"""Traces on their way to an endpoint: what it gets, and what it cannot do to the server."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry, generate_latest

from bmq.server import trace_export
from bmq.server.settings import BadSettings, Settings, load_settings
from bmq.server.trace_export import TraceExport
from bmq.server.tracing import Tracing, check_tracing, start_tracing
from bmq.server.tracing_settings import TracingSettings
from bmq.tracing.trace import Kind, TraceContext

pytestmark = pytest.mark.unit

ENDPOINT = "http://127.0.0.1:4318/v1/traces"


def settings(**tracing: object) -> Settings:
    return load_settings({"tracing": {"endpoint": ENDPOINT, "sample_ratio": 1.0, **tracing}}, None).settings


class Refusing(SpanExporter):
    """An endpoint that takes nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError("away")


class Hanging(SpanExporter):
    """An endpoint that does not answer until the test ends."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.may_end = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.is_asked.set()
        self.may_end.wait()
        return SpanExportResult.SUCCESS


def started(exporter: SpanExporter, **tracing: object) -> Tracing:
    made = start_tracing(settings(**tracing), random.Random(1), exporter)
    assert made is not None
    return made


def end_one(tracing: Tracing, parent: TraceContext | None = None) -> None:
    trace = tracing.traces.begin("produce", {"bmq.bytes": 5}, parent)
    assert trace is not None
    forward = trace.root.begin("forward", trace.root.begun_s + 1, {"bmq.hdfs.datanodes": ("a:1", "b:2")}, Kind.CLIENT)
    forward.end(trace.root.begun_s + 2, error="lost")
    trace.end(trace.root.begun_s + 3)


def counts(tracing: Tracing) -> dict[str, float]:
    registry = CollectorRegistry()
    tracing.register_metrics(registry)
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for line in lines if line[0] != "#" for name, value in [line.rsplit(" ", 1)]}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_export, "GATHER_S", 0.0)


async def test_the_spans_have_the_ids_times_and_attributes_of_the_trace() -> None:
    exporter = InMemorySpanExporter()
    tracing = started(exporter)
    end_one(tracing, TraceContext(2**100, 77))
    await tracing.close()
    root, forward = exporter.get_finished_spans()
    assert (root.name, forward.name) == ("produce", "forward")
    assert root.context.trace_id == forward.context.trace_id == 2**100
    assert root.parent is not None and (root.parent.span_id, root.parent.is_remote) == (77, True)
    assert forward.parent is not None and forward.parent.span_id == root.context.span_id
    assert (root.kind, forward.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert (root.end_time or 0) - (root.start_time or 0) == 3_000_000_000
    assert forward.attributes == {"bmq.hdfs.datanodes": ("a:1", "b:2")}
    assert (root.status.status_code, forward.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert forward.status.description == "lost"
    assert root.resource.attributes["service.name"] == "bmq"
    assert root.resource.attributes["service.instance.id"] == "1"


async def test_a_trace_that_begins_here_has_no_parent() -> None:
    exporter = InMemorySpanExporter()
    tracing = started(exporter)
    end_one(tracing)
    await tracing.close()
    assert exporter.get_finished_spans()[0].parent is None
    assert counts(tracing)["bmq_traces_sampled_total"] == 1
    assert counts(tracing)["bmq_trace_spans_exported_total"] == 2


async def test_an_endpoint_that_is_away_loses_traces_and_nothing_else() -> None:
    tracing = started(Refusing())
    for _ in range(5):
        end_one(tracing)
    await tracing.close()
    assert counts(tracing)['bmq_trace_spans_dropped_total{reason="not_accepted"}'] == 10
    assert counts(tracing)["bmq_trace_spans_exported_total"] == 0


async def test_an_endpoint_that_hangs_fills_a_bounded_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_export, "CLOSE_S_MAX", 0.01)
    monkeypatch.setattr(trace_export, "SPANS_PER_POST_MAX", 1)
    exporter = Hanging()
    tracing = started(exporter, queue_spans_max=6)
    end_one(tracing)
    assert await asyncio.to_thread(exporter.is_asked.wait, 20)
    for _ in range(10):
        end_one(tracing)
    assert counts(tracing)['bmq_trace_spans_dropped_total{reason="queue_full"}'] == 14
    async with asyncio.timeout(20):
        await tracing.close()  # does not wait for it
    exporter.may_end.set()


async def test_without_an_endpoint_there_are_no_traces() -> None:
    assert start_tracing(Settings(), random.Random(1)) is None


@pytest.mark.parametrize(
    "url",
    [
        "collector",
        "collector:4318/v1/traces",
        "ftp://collector/v1/traces",
        "http://",
        "http://collector:x/v1",
        "http://[::/v1",
        "http://collector:4318",
        "http://collector:4318/",
        "http:///v1/traces",
    ],
)
def test_an_endpoint_that_is_no_url_is_refused_by_one_sentence(url: str) -> None:
    with pytest.raises(
        BadSettings, match=r"^setting tracing\.endpoint = .* it is no URL like http://collector"
    ) as error:
        settings(endpoint=url)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ratio", [0, -0.1, 1.5, "nan"])
def test_a_ratio_is_a_share(ratio: object) -> None:
    with pytest.raises(BadSettings, match=r"tracing\.sample_ratio"):
        settings(sample_ratio=ratio)


def test_without_the_extra_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tracing(settings())
    find_spec = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        if name.startswith("opentelemetry.exporter"):
            raise ModuleNotFoundError(name)
        return find_spec(name, package)

    monkeypatch.setattr("bmq.server.tracing.find_spec", without)
    with pytest.raises(
        BadSettings, match=r"opentelemetry\.exporter\.otlp\.proto\.http is not installed: .* pip install "
    ) as error:
        check_tracing(settings())
    assert "\n" not in str(error.value)
    check_tracing(Settings())


def test_the_settings_of_a_file_count(tmp_path: Path) -> None:
    file = tmp_path / "bmq.toml"
    file.write_text(f'[tracing]\nendpoint = "{ENDPOINT}"\nsample_ratio = 0.5\n')
    assert load_settings({}, file).settings.tracing == TracingSettings(ENDPOINT, 0.5)


async def test_the_real_exporter_is_of_the_endpoint() -> None:
    exporter = trace_export.otlp_exporter(settings().tracing)
    export = TraceExport(settings().tracing, exporter, {"service.version": "1"})
    await export.close()
    assert export.stats.exported_spans == 0
