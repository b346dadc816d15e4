"""Metrics of the transaction coordinator. Counters are plain ints, read when Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry


class TransactionMetrics(Collector):
    """Counters of one coordinator; `ids_by_state` and `markers_waiting` are called at each scrape."""

    def __init__(self, ids_by_state: Callable[[], Mapping[str, int]], markers_waiting: Callable[[], int]) -> None:
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        self.checks = 0
        self.checks_failed = 0
        self.committed_by_check = 0
        self.aborted_by_check = 0
        self.expired_ids = 0
        self.verifications = 0
        self.loaded_shards = 0
        self.lost_shards = 0
        self._ids_by_state = ids_by_state
        self._markers_waiting = markers_waiting

    def register(self, registry: CollectorRegistry) -> None:
        """Show these on /metrics."""
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        ids = GaugeMetricFamily("bmq_transactional_ids", "Transactional ids by state.", labels=["state"])
        for state, count in self._ids_by_state().items():
            ids.add_metric([state], count)
        yield ids
        yield GaugeMetricFamily(
            "bmq_transaction_markers_waiting", "Markers that are not written yet.", value=self._markers_waiting()
        )
        for name, text, value in (
            ("bmq_transactions_committed", "Transactions whose commit was settled.", self.committed),
            ("bmq_transactions_aborted", "Transactions whose abort was settled, for any reason.", self.aborted),
            ("bmq_transactions_timed_out", "Transactions aborted because their time was over.", self.timed_out),
            ("bmq_transaction_checks", "Checks of open transactions that were asked.", self.checks),
            ("bmq_transaction_checks_failed", "Those that could not be asked, or got no answer.", self.checks_failed),
            ("bmq_transactions_committed_by_check", "Transactions that a check committed.", self.committed_by_check),
            ("bmq_transactions_aborted_by_check", "Transactions that a check rolled back.", self.aborted_by_check),
            ("bmq_transactional_ids_expired", "Transactional ids forgotten after their expiration.", self.expired_ids),
            ("bmq_transaction_verifications", "Partitions verified or added for their owners.", self.verifications),
            ("bmq_transaction_shards_loaded", "Coordinator shards loaded.", self.loaded_shards),
            ("bmq_transaction_shards_lost", "Coordinator shards given up.", self.lost_shards),
        ):
            yield CounterMetricFamily(name, text, value=value)
