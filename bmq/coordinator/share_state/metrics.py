"""Metrics of the state of share partitions. Counters are plain ints, read when Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry


class ShareStateMetrics(Collector):
    """Counters of one process; `partition_count` and `locked_count` are called at each scrape."""

    def __init__(self, partition_count: Callable[[], int], locked_count: Callable[[], int]) -> None:
        self.acquired = 0
        self.expired_locks = 0
        self.loaded_shards = 0
        self.lost_shards = 0
        self._partition_count = partition_count
        self._locked_count = locked_count

    def register(self, registry: CollectorRegistry) -> None:
        """Show these on /metrics."""
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("bmq_share_partitions", "Share partitions with state.", value=self._partition_count())
        yield GaugeMetricFamily("bmq_share_locked_records", "Records that members hold.", value=self._locked_count())
        for name, text, value in (
            ("bmq_share_records_acquired", "Records given to members, each time.", self.acquired),
            ("bmq_share_locks_expired", "Acquisitions whose lock ran out.", self.expired_locks),
            ("bmq_share_state_shards_loaded", "Shards of share partitions loaded.", self.loaded_shards),
            ("bmq_share_state_shards_lost", "Shards of share partitions given up.", self.lost_shards),
        ):
            yield CounterMetricFamily(name, text, value=value)
