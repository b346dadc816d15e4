"""Metrics of share groups at a proxy: Kafka's ShareSessionCache and ShareGroupMetrics, and redeliveries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.protocol.share_state_messages import AckType

if TYPE_CHECKING:
    from bmq.proxy.share.consumers import ShareConsumers

_COUNTERS: Final = (
    ("bmq_share_fetches", "fetches", "ShareFetch requests begun."),
    (
        "bmq_share_fetch_records",
        "acquired_records",
        "Records sent to members of share groups, counted at each delivery.",
    ),
    ("bmq_share_fetch_redelivered", "redelivered", "Records sent that had been delivered before."),
    ("bmq_share_fetch_batches", "acquired_ranges", "Ranges of records in ShareFetch answers."),
    ("bmq_share_fetch_bytes", "sent_bytes", "Bytes of records in ShareFetch answers."),
    ("bmq_share_fetch_partitions", "partitions", "Partitions of ShareFetch requests, counted at each."),
    ("bmq_share_fetch_partitions_given", "given_partitions", "Partitions of ShareFetch answers that had records."),
    ("bmq_share_acquires", "acquires", "Calls to the shards that lock records."),
    ("bmq_share_acquire_seconds", "acquire_s", "Total duration of calls to the shards that lock records."),
)


class ShareCollector(Collector):
    """The Prometheus collector of share groups at a proxy."""

    def __init__(self, consumers: ShareConsumers) -> None:
        self._consumers = consumers

    def collect(self) -> Iterator[Metric]:
        consumers, counts = self._consumers, self._consumers.counts
        sessions = consumers.sessions
        yield GaugeMetricFamily("bmq_share_sessions", "Share sessions.", value=len(sessions))
        yield GaugeMetricFamily(
            "bmq_share_session_partitions", "Partitions of all share sessions.", value=sessions.partition_count
        )
        yield GaugeMetricFamily(
            "bmq_share_waiting_partitions",
            "Share partitions for which fetches wait.",
            value=len(consumers.waits),
        )
        yield CounterMetricFamily(
            "bmq_share_session_evictions", "Share sessions that ended with their connections.", value=sessions.evicted
        )
        acknowledged = CounterMetricFamily(
            "bmq_share_record_acknowledgements", "Records acknowledged.", labels=["ack_type"]
        )
        for kind in AckType:
            acknowledged.add_metric([kind.name.lower()], counts.acknowledged[kind])
        yield acknowledged
        for name, attribute, text in _COUNTERS:
            yield CounterMetricFamily(name, text, value=float(getattr(counts, attribute)))
