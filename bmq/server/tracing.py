"""Whether and how a server traces requests, by its settings. Without an endpoint nothing of OpenTelemetry is imported."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from bmq.extras import install_command
from bmq.server.settings import BadSettings, Settings
from bmq.tracing.traces import Traces

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from prometheus_client import CollectorRegistry

    from bmq.server.trace_export import TraceExport

_SWITCH_INTERVAL_S: Final = 0.0005
"""How long the thread that exports keeps the event loop waiting at most; Python's own default is 5 ms."""
_NEEDED: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class Tracing:
    """Traces of one process, while they are on."""

    def __init__(self, traces: Traces, export: TraceExport) -> None:
        self.traces = traces
        self._export = export

    def register_metrics(self, registry: CollectorRegistry) -> None:
        registry.register(self._export.stats)

    async def close(self) -> None:
        """Send what waits, for a moment."""
        await self._export.close()


def check_tracing(settings: Settings) -> None:
    """Raises BadSettings if traces are on and the extra is missing."""
    if not settings.tracing.endpoint:
        return
    for name in _NEEDED:
        if not _is_there(name):
            raise BadSettings(f"tracing.endpoint is set, and {name} is not installed: {install_command('tracing')}")


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def start_tracing(settings: Settings, rng: random.Random, exporter: SpanExporter | None = None) -> Tracing | None:
    """Traces as the settings say; None if they are off. `exporter`: in place of the one that sends to the endpoint."""
    if not settings.tracing.endpoint:
        return None
    from bmq.server.trace_export import TraceExport, otlp_exporter

    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL_S))
    attributes = {
        "service.name": "bmq",
        "service.instance.id": str(settings.node_id),
        "service.version": version("bmq"),
    }
    export = TraceExport(settings.tracing, exporter or otlp_exporter(settings.tracing), attributes)
    traces = Traces(
        settings.tracing.sample_ratio,
        settings.tracing.traces_per_s_max,
        rng,
        asyncio.get_running_loop().time,
        time.time_ns,
        export,
    )
    export.stats.count_sampled = lambda: traces.sampled
    return Tracing(traces, export)
