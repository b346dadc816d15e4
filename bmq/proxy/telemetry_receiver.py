"""Where clients' metrics go: a port, and the receiver that only counts them (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.protocol.compression import Compression


@dataclass(frozen=True, slots=True)
class PushedMetrics:
    """One client's push: OpenTelemetry's MetricsData, compressed. `attributes`: who the client is, by name."""

    attributes: Mapping[str, str]
    compression: Compression
    data: bytes


class TelemetryReceiver(Protocol):
    """Takes what clients push; for plug-ins. Called from the event loop, for every push that a subscription asked for."""

    def receive(self, pushed: PushedMetrics) -> None:
        """Take it, at once: the client is answered after this. Raises BmqError for what cannot be read."""

    async def close(self) -> None:
        """Nothing is received any more."""


class TelemetryStats(Collector):
    """Counts since the start."""

    def __init__(self) -> None:
        self.pushes = 0
        self.pushed_bytes = 0
        self.dropped = 0
        self.forwarded = 0

    def collect(self) -> Iterable[Metric]:
        for name, text, value in (
            ("bmq_client_metrics_pushes", "Pushes of clients' metrics that were taken.", self.pushes),
            ("bmq_client_metrics_bytes", "Their bytes, compressed.", self.pushed_bytes),
            ("bmq_client_metrics_dropped", "Of them, dropped: no receiver, or it did not keep up.", self.dropped),
            ("bmq_client_metrics_forwarded", "Of them, taken by the OTLP endpoint.", self.forwarded),
        ):
            yield CounterMetricFamily(name, text, value=value)


class CountingReceiver:
    """Drops what it gets, counted."""

    def __init__(self, stats: TelemetryStats) -> None:
        self._stats = stats

    def receive(self, pushed: PushedMetrics) -> None:
        self._stats.dropped += 1

    async def close(self) -> None:
        pass
