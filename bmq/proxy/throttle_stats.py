"""Counts how often and how long clients were throttled, as plain numbers and as Prometheus metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

PRODUCE: Final = "produce"
FETCH: Final = "fetch"
REQUEST: Final = "request"
CONTROLLER_MUTATION: Final = "controller_mutation"
CONNECTION: Final = "connection"


class ThrottleStats(Collector):
    """One server's counts since it began. `levels`: returns (buckets in memory, requests that wait for a bucket)."""

    def __init__(self, levels: Callable[[], tuple[int, int]]) -> None:
        self._levels = levels
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def note(self, quota: str, wait_ms: int) -> None:
        """Count an answer or connection that was delayed by this quota."""
        self.counts[quota] += 1
        self.seconds[quota] += wait_ms / 1_000  # type: ignore[assignment]

    def collect(self) -> Iterable[Metric]:
        counts = CounterMetricFamily("bmq_throttled", "Answers and connections delayed by a quota.", labels=["quota"])
        seconds = CounterMetricFamily(
            "bmq_throttle_seconds", "Total time for which clients were told to wait.", labels=["quota"]
        )
        for quota, count in self.counts.items():
            counts.add_metric([quota], count)
            seconds.add_metric([quota], self.seconds[quota])
        buckets, waiting = self._levels()
        yield from (counts, seconds)
        yield GaugeMetricFamily("bmq_quota_buckets", "Buckets of clients with quotas.", value=buckets)
        yield GaugeMetricFamily(
            "bmq_quota_waiting", "Produces that wait because their bucket is overdrawn.", value=waiting
        )
