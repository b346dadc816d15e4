"""Metrics of the controller, read from its present state when Prometheus asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from bmq.metadata.image import MetadataImage

_ACTIVE: Final = ("bmq_active_controllers", "1 on the node with the active controller, else 0.")


class ControllerMetrics(Collector):
    """`image` and `is_active` are asked at scrape time."""

    def __init__(self, image: Callable[[], MetadataImage], is_active: Callable[[], bool]) -> None:
        self.records_written = 0
        self.snapshots_written = 0
        self.appends_failed = 0
        self.nodes_fenced = 0
        self.partitions_moved = 0
        self._image = image
        self._is_active = is_active

    def register(self, registry: CollectorRegistry) -> None:
        """Export these on /metrics."""
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        image = self._image()
        for name, text, value in (
            ("bmq_nodes", "Unfenced nodes of the cluster.", len(image.nodes)),
            ("bmq_topics", "Topics, internal ones too.", len(image.topics)),
            ("bmq_topic_partitions", "Partitions of all topics.", image.partition_count),
            ("bmq_metadata_log_offset", "Offset up to which the metadata log is applied.", image.offset),
            (*_ACTIVE, int(self._is_active())),
            (
                "bmq_topic_deletions_pending",
                "Deleted topics whose files are still being removed.",
                len(image.deleted_topics),
            ),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        for name, text, count in (
            ("bmq_metadata_records_written", "Records written to the metadata log.", self.records_written),
            ("bmq_metadata_snapshots_written", "Snapshots of the metadata.", self.snapshots_written),
            ("bmq_metadata_appends_failed", "Writes to the metadata log that failed.", self.appends_failed),
            ("bmq_nodes_fenced", "Nodes that were fenced because they were silent.", self.nodes_fenced),
            ("bmq_partitions_moved", "Partitions that were moved by plan.", self.partitions_moved),
        ):
            yield CounterMetricFamily(name, text, value=count)


class ActiveControllerMetrics(Collector):
    """Metrics of a node that may be the active controller: the controller's while it is, else that it is not.

    `metrics`: those of the active controller, if it is here; asked at scrape time.
    """

    def __init__(self, metrics: Callable[[], ControllerMetrics | None]) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        metrics = self._metrics()
        if metrics is None:
            return (GaugeMetricFamily(*_ACTIVE, value=0),)
        return metrics.collect()
