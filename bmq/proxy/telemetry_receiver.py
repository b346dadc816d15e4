"""The port for clients' metrics, and the receiver that only counts them (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.dataclass import dataclass
from bmq.protocol.compression import Compression


@dataclass(frozen=True, slots=True)
class PushedMetrics:
    """One push of a client: OpenTelemetry's MetricsData, compressed. `attributes`: the client's properties by name."""

    attributes: Mapping[str, str]
    compression: Compression
    data: bytes


class TelemetryReceiver(Protocol):
    """Receives clients' pushes; for plug-ins. It is called on the event loop, for every push that a subscription asked for."""

    def receive(self, pushed: PushedMetrics) -> None:
        """Take a push without waiting: the client is answered after this. Raises BmqError if it cannot be read."""

    async def close(self) -> None:
        """Release resources; no push follows."""


class TelemetryStats(Collector):
    """Counts of pushes since the process began."""

    def __init__(self) -> None:
        self.pushes = 0
        self.pushed_bytes = 0
        self.dropped = 0
        self.forwarded = 0

    def collect(self) -> Iterable[Metric]:
        for name, text, value in (
            ("bmq_client_metrics_pushes", "Pushes of clients' metrics that were accepted.", self.pushes),
            ("bmq_client_metrics_bytes", "Bytes of pushes of clients' metrics, compressed.", self.pushed_bytes),
            ("bmq_client_metrics_dropped", "Pushes dropped: there is no receiver, or it is too slow.", self.dropped),
            ("bmq_client_metrics_forwarded", "Pushes that the OTLP endpoint accepted.", self.forwarded),
        ):
            yield CounterMetricFamily(name, text, value=value)


class CountingReceiver:
    """Counts pushes and drops them."""

    def __init__(self, stats: TelemetryStats) -> None:
        self._stats = stats

    def receive(self, pushed: PushedMetrics) -> None:
        self._stats.dropped += 1

    async def close(self) -> None:
        pass
