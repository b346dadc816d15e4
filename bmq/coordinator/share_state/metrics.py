"""Metrics of the state of share partitions. Counters are plain ints, read when Prometheus scrapes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from bmq.coordinator.share_state.group_figures import PartitionFigures, by_group

T = TypeVar("T")
GROUPS_COUNTED_MAX: Final = 1_000
"""Groups with counters of their own; those of further ones are added up under OTHER_GROUPS."""
OTHER_GROUPS: Final = ""


class DeadLetterCounts:
    """Of one process. Kafka's ShareGroupMetrics (KIP-1191), by group. `dropped`: records given up without a dead letter."""

    def __init__(self) -> None:
        self.records: dict[str, int] = {}
        self.requests: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.dropped = 0

    def add_records(self, group_id: str, count: int) -> None:
        _add(self.records, group_id, count)

    def add_request(self, group_id: str) -> None:
        _add(self.requests, group_id, 1)

    def add_failure(self, group_id: str) -> None:
        _add(self.failures, group_id, 1)

    def collect(self) -> Iterable[Metric]:
        for name, text, counts in (
            ("bmq_share_dead_letter_records", "Dead letters written (DeadLetterQueueRecordCount).", self.records),
            (
                "bmq_share_dead_letter_produce_requests",
                "Produce requests of dead letters (DeadLetterQueueTotalProduceRequestsPerSec).",
                self.requests,
            ),
            (
                "bmq_share_dead_letter_failed_produce_requests",
                "Failed produce requests of dead letters (DeadLetterQueueFailedProduceRequestsPerSec).",
                self.failures,
            ),
        ):
            counter = CounterMetricFamily(name, text, labels=["group"])
            for group_id, count in counts.items():
                counter.add_metric([group_id], count)
            yield counter
        yield CounterMetricFamily(
            "bmq_share_dead_letters_dropped", "Records archived without a dead letter.", value=self.dropped
        )


def _add(counts: dict[str, int], group_id: str, count: int) -> None:
    key = group_id if group_id in counts or len(counts) < GROUPS_COUNTED_MAX else OTHER_GROUPS
    counts[key] = counts.get(key, 0) + count


class ShareStateMetrics(Collector):
    """Counters of one process; `partitions` is called at each scrape."""

    def __init__(self, partitions: Callable[[], Sequence[PartitionFigures]]) -> None:
        self.dead_letters = DeadLetterCounts()
        self.acquired = 0
        self.redelivered = 0
        self.writes = 0
        self.failed_writes = 0
        self.write_s = 0.0
        self.expired_locks = 0
        self.loaded_shards = 0
        self.lost_shards = 0
        self._partitions = partitions

    def timed(self, done: asyncio.Future[T]) -> asyncio.Future[T]:
        """Count an append, and how long it took."""
        loop = done.get_loop()
        began_s = loop.time()

        def ended(done: asyncio.Future[T]) -> None:
            self.writes += 1
            self.write_s += loop.time() - began_s
            self.failed_writes += done.cancelled() or done.exception() is not None

        done.add_done_callback(ended)
        return done

    def register(self, registry: CollectorRegistry) -> None:
        """Show these on /metrics."""
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        partitions = self._partitions()
        for name, text, number in (
            ("bmq_share_partitions", "Share partitions with state.", len(partitions)),
            ("bmq_share_locked_records", "Records that members hold.", sum(one.locked for one in partitions)),
            (
                "bmq_share_delayed_records",
                "Records that wait for the end of their back-off; no member holds them.",
                sum(one.delayed for one in partitions),
            ),
            (
                "bmq_share_archiving_records",
                "Records whose dead letters are not written yet.",
                sum(one.archiving for one in partitions),
            ),
            ("bmq_share_locks", "Acquisitions that still hold records.", sum(one.locks for one in partitions)),
        ):
            yield GaugeMetricFamily(name, text, value=number)
        locked = GaugeMetricFamily(
            "bmq_share_group_locked_records", "Records that members of one group hold.", labels=["group"]
        )
        oldest = GaugeMetricFamily(
            "bmq_share_group_oldest_unacknowledged_seconds",
            "How long the oldest delivered record that is not done has held the group's start offset.",
            labels=["group"],
        )
        for group in by_group(partitions):
            locked.add_metric([group.group_id], group.locked)
            oldest.add_metric([group.group_id], group.oldest_s)
        yield locked
        yield oldest
        yield from self.dead_letters.collect()
        for name, text, value in (
            ("bmq_share_records_acquired", "Records delivered to members, counted at each delivery.", self.acquired),
            ("bmq_share_records_redelivered", "Records delivered again, counted at each delivery.", self.redelivered),
            ("bmq_share_state_writes", "Records appended to the state of share partitions.", self.writes),
            ("bmq_share_state_writes_failed", "Failed writes of the state of share partitions.", self.failed_writes),
            (
                "bmq_share_state_write_seconds",
                "Total duration of writes of the state of share partitions.",
                self.write_s,
            ),
            ("bmq_share_locks_expired", "Acquisitions whose lock ran out.", self.expired_locks),
            ("bmq_share_state_shards_loaded", "Shards of share partitions loaded.", self.loaded_shards),
            (
                "bmq_share_state_shards_lost",
                "Shards of share partitions lost to another owner or by a failure.",
                self.lost_shards,
            ),
        ):
            yield CounterMetricFamily(name, text, value=value)
