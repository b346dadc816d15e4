"""Prometheus metrics of partitions that other nodes own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.broker.append_budget import AppendBudget
from bmq.broker.tail_cache import TailCache


class RouterCounts:
    """Counted since the process started."""

    __slots__ = ("detached", "moved", "opened")

    def __init__(self) -> None:
        self.opened = 0
        self.detached = 0
        self.moved = 0


class RouterCollector(Collector):
    """Register it with the process's registry. `logs`: the number of remote logs by state."""

    def __init__(
        self,
        counts: RouterCounts,
        tail_cache: TailCache,
        budget: AppendBudget,
        logs: Callable[[], Mapping[str, int]],
    ) -> None:
        self._counts = counts
        self._tail_cache = tail_cache
        self._budget = budget
        self._logs = logs

    def collect(self) -> Iterator[Metric]:
        logs = GaugeMetricFamily("bmq_remote_partitions", "Partitions reached at other nodes.", labels=["state"])
        for state, count in sorted(self._logs().items()):
            logs.add_metric([state], float(count))
        yield logs
        cache, counts = self._tail_cache, self._counts
        for name, documentation, value in (
            ("bmq_remote_partitions_opened", "Times a partition's owner was reached.", counts.opened),
            (
                "bmq_remote_partitions_detached",
                "Times the connection to a partition's owner was lost, or the owner refused.",
                counts.detached,
            ),
            ("bmq_remote_partitions_moved", "Partitions that got another owner or epoch.", counts.moved),
            ("bmq_remote_tail_hits", "Tail reads of other nodes' partitions served from memory.", cache.hits),
            ("bmq_remote_tail_misses", "Tail reads of other nodes' partitions not served from memory.", cache.misses),
            (
                "bmq_remote_tail_evicted_bytes",
                "Bytes of other nodes' batches dropped to make room.",
                cache.evicted_bytes,
            ),
        ):
            yield CounterMetricFamily(name, documentation, value=float(value))
        for name, documentation, value in (
            ("bmq_remote_tail_bytes", "Bytes of other nodes' newest batches in memory.", cache.bytes_used),
            ("bmq_remote_tail_max_bytes", "Budget of bytes of other nodes' newest batches.", cache.bytes_max),
            ("bmq_forward_in_flight_bytes", "Bytes that are being forwarded to other owners.", self._budget.bytes_used),
            ("bmq_forward_in_flight_max_bytes", "Budget of bytes that are being forwarded.", self._budget.bytes_max),
        ):
            yield GaugeMetricFamily(name, documentation, value=float(value))
