"""Metrics of the group coordinator. Counters are plain ints, read when Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry


class GroupMetrics(Collector):
    """Counters of one coordinator; `groups_by_state` and `groups_by_type` are called at each scrape."""

    def __init__(
        self,
        groups_by_state: Callable[[], Mapping[str, int]],
        offset_count: Callable[[], int],
        groups_by_type: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self.rebalances = 0
        self.commits = 0
        self.fetches = 0
        self.expired_members = 0
        self.expired_offsets = 0
        self.loaded_shards = 0
        self.lost_shards = 0
        self._groups_by_state = groups_by_state
        self._groups_by_type = groups_by_type
        self._offset_count = offset_count

    def register(self, registry: CollectorRegistry) -> None:
        """Show these on /metrics."""
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        groups = GaugeMetricFamily("bmq_groups", "Consumer groups by state.", labels=["state"])
        for state, count in self._groups_by_state().items():
            groups.add_metric([state], count)
        yield groups
        types = GaugeMetricFamily("bmq_groups_of_type", "Groups with members or a record, by type.", labels=["type"])
        for kind, count in self._groups_by_type().items():
            types.add_metric([kind], count)
        yield types
        yield GaugeMetricFamily("bmq_group_offsets", "Committed offsets kept.", value=self._offset_count())
        for name, text, value in (
            ("bmq_group_rebalances", "Rebalances completed.", self.rebalances),
            ("bmq_group_offset_commits", "Partition offsets committed.", self.commits),
            ("bmq_group_offset_fetches", "OffsetFetch answers per group.", self.fetches),
            ("bmq_group_members_expired", "Members removed because they were silent.", self.expired_members),
            ("bmq_group_offsets_expired", "Offsets removed after their retention.", self.expired_offsets),
            ("bmq_group_shards_loaded", "Coordinator shards loaded.", self.loaded_shards),
            ("bmq_group_shards_lost", "Coordinator shards lost to another owner or by a failure.", self.lost_shards),
        ):
            yield CounterMetricFamily(name, text, value=value)
