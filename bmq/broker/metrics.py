"""Counters of the broker's partitions. Plain ints on the hot path; read when Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.broker.append_budget import AppendBudget
from bmq.broker.tail_cache import TailCache
from bmq.log.clock import Clock
from bmq.log.latency import LatencyHistogram

LATENCY_BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class PartitionCounts:
    """All partitions of the process together."""

    __slots__ = (
        "appended_batches",
        "appended_bytes",
        "appends",
        "backlog_evicted_bytes",
        "backlog_refused_batches",
        "cleaner_failures",
        "compacted_bytes",
        "compactions",
        "delayed_cancelled",
        "delayed_delivered",
        "duplicates",
        "fenced",
        "half_checks",
        "half_checks_failed",
        "half_committed",
        "half_given_up",
        "half_rolled_back",
        "mends",
        "merged_bytes",
        "merged_segments",
        "merges",
        "offline",
        "producers_forgotten",
        "producers_refused_batches",
        "refused_batches",
        "rolls",
        "starts",
        "store_latency",
        "takeovers",
        "uncleanable",
    )

    def __init__(self) -> None:
        self.appended_batches = 0
        self.appended_bytes = 0
        self.appends = 0
        self.duplicates = 0
        self.refused_batches = 0
        self.backlog_refused_batches = 0
        self.backlog_evicted_bytes = 0
        self.producers_forgotten = 0
        self.producers_refused_batches = 0
        self.starts = 0
        self.takeovers = 0
        self.mends = 0
        self.rolls = 0
        self.fenced = 0
        self.offline = 0
        self.delayed_delivered = 0
        self.delayed_cancelled = 0
        self.compactions = 0
        self.compacted_bytes = 0
        self.merges = 0
        self.merged_segments = 0
        self.merged_bytes = 0
        self.uncleanable = 0
        self.cleaner_failures = 0
        self.half_checks = 0
        self.half_checks_failed = 0
        self.half_committed = 0
        self.half_rolled_back = 0
        self.half_given_up = 0
        self.store_latency = LatencyHistogram(LATENCY_BOUNDS_S)


_COUNTERS: Final = (
    ("bmq_half_checks", "half_checks", "Checks of half messages that were sent."),
    (
        "bmq_half_checks_failed",
        "half_checks_failed",
        "Checks of half messages that got no answer, or could not be sent.",
    ),
    ("bmq_half_committed", "half_committed", "Half messages that were committed."),
    ("bmq_half_rolled_back", "half_rolled_back", "Half messages that were rolled back."),
    ("bmq_half_given_up", "half_given_up", "Half messages that stayed undecided and were copied into a topic."),
    ("bmq_appended_bytes", "appended_bytes", "Bytes of record batches that became durable."),
    ("bmq_appended_batches", "appended_batches", "Record batches that became durable."),
    ("bmq_store_appends", "appends", "Appends to segment files; one carries all batches of a loop iteration."),
    ("bmq_duplicate_batches", "duplicates", "Batches that an idempotent producer sent again."),
    ("bmq_refused_batches", "refused_batches", "Batches answered with an error."),
    (
        "bmq_backlog_refused_batches",
        "backlog_refused_batches",
        "Batches refused because a group of the topic is too far behind.",
    ),
    (
        "bmq_backlog_evicted_bytes",
        "backlog_evicted_bytes",
        "Bytes deleted before a group that is too far behind had consumed them.",
    ),
    (
        "bmq_producers_forgotten",
        "producers_forgotten",
        "Idempotent producers forgotten before producer.id.expiration.ms because their partition has too many.",
    ),
    (
        "bmq_producers_refused_batches",
        "producers_refused_batches",
        "Batches of new producers refused because their partition has too many that wrote a short time ago.",
    ),
    ("bmq_partition_starts", "starts", "Partitions started: claimed, recovered and opened."),
    ("bmq_file_takeovers", "takeovers", "Files of earlier owners that had to be closed."),
    ("bmq_segment_mends", "mends", "Segments closed early because their writer broke."),
    ("bmq_segment_rolls", "rolls", "Segments opened."),
    ("bmq_partitions_fenced", "fenced", "Partitions lost to a newer owner."),
    (
        "bmq_partitions_lost_data",
        "offline",
        "Partitions taken offline: acknowledged data is missing, or an effect failed.",
    ),
    ("bmq_delayed_records_delivered", "delayed_delivered", "Delayed records appended when they were due."),
    ("bmq_delayed_records_cancelled", "delayed_cancelled", "Delayed records cancelled before they were due."),
    ("bmq_compactions", "compactions", "Logs compacted."),
    ("bmq_compacted_bytes", "compacted_bytes", "Bytes of segments that compaction went through."),
    ("bmq_segment_merges", "merges", "Segments that were made of several small ones."),
    ("bmq_merged_segments", "merged_segments", "Small segments that were replaced by merged ones."),
    ("bmq_merged_bytes", "merged_bytes", "Bytes of merged segments."),
    (
        "bmq_compaction_failures",
        "cleaner_failures",
        "Failed processes of compaction: not started, or ended early.",
    ),
    ("bmq_partitions_uncleanable", "uncleanable", "Partitions that cannot be compacted: a batch cannot be decoded."),
)


class BrokerCollector(Collector):
    """Register it with the process's registry. `states`: the number of partitions in each state.
    `under_replicated`: how many have records on fewer nodes than wanted.

    `delayed`: of each owned partition with delayed records, how many wait, and when the first one is due (None: none).
    """

    def __init__(
        self,
        counts: PartitionCounts,
        tail_cache: TailCache,
        budget: AppendBudget,
        states: Callable[[], Mapping[str, int]],
        under_replicated: Callable[[], int],
        delayed: Callable[[], Iterable[tuple[int, int | None]]],
        clock: Clock,
    ) -> None:
        self._counts = counts
        self._tail_cache = tail_cache
        self._budget = budget
        self._states = states
        self._under_replicated = under_replicated
        self._delayed = delayed
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        for name, attribute, documentation in _COUNTERS:
            yield CounterMetricFamily(name, documentation, value=float(getattr(self._counts, attribute)))
        partitions = GaugeMetricFamily("bmq_partitions", "Partitions by state.", labels=["state"])
        for state, count in sorted(self._states().items()):
            partitions.add_metric([state], float(count))
        yield partitions
        yield GaugeMetricFamily(
            "bmq_under_replicated_partitions",
            "Partitions whose open segment has records on fewer DataNodes than hdfs.replication.",
            value=self._under_replicated(),
        )
        yield from self._waiting()
        latency = self._counts.store_latency
        yield HistogramMetricFamily(
            "bmq_store_append_seconds",
            "Time from an append until it is durable.",
            buckets=latency.buckets(),
            sum_value=latency.sum_s,
        )
        cache = self._tail_cache
        yield GaugeMetricFamily("bmq_tail_cache_bytes", "Bytes of batches kept in memory.", value=cache.bytes_used)
        yield GaugeMetricFamily("bmq_tail_cache_max_bytes", "Budget of the tail cache.", value=cache.bytes_max)
        yield CounterMetricFamily("bmq_tail_cache_hits", "Tail reads served from memory.", value=cache.hits)
        yield CounterMetricFamily("bmq_tail_cache_misses", "Tail reads not served from memory.", value=cache.misses)
        yield CounterMetricFamily(
            "bmq_tail_cache_evicted_bytes", "Bytes dropped from the tail cache to make room.", value=cache.evicted_bytes
        )
        yield GaugeMetricFamily(
            "bmq_append_in_flight_bytes", "Bytes of batches that are being appended.", value=self._budget.bytes_used
        )
        yield GaugeMetricFamily(
            "bmq_append_in_flight_max_bytes",
            "Budget of bytes of batches that are being appended.",
            value=self._budget.bytes_max,
        )

    def _waiting(self) -> Iterator[Metric]:
        count, first_due_ms = 0, -1
        for waiting, due_ms in self._delayed():
            count += waiting
            if due_ms is not None:
                first_due_ms = due_ms if first_due_ms < 0 else min(first_due_ms, due_ms)
        overdue_s = max(0.0, (self._clock.now_ms() - first_due_ms) / 1000) if first_due_ms >= 0 else 0.0
        yield GaugeMetricFamily("bmq_delayed_records", "Records that wait for their due time.", value=count)
        yield GaugeMetricFamily(
            "bmq_delayed_overdue_seconds",
            "How long the first delayed record has been due; 0: no record is.",
            value=overdue_s,
        )
        next_due = GaugeMetricFamily("bmq_delayed_next_due_timestamp_seconds", "When the first delayed record is due.")
        if first_due_ms >= 0:
            next_due.add_metric([], first_due_ms / 1000)
        yield next_due
