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
    ("bmq_share_fetch_records", "acquired_records", "Records sent to members of share groups, each time."),
    ("bmq_share_fetch_redelivered", "redelivered", "Those that were delivered before."),
    ("bmq_share_fetch_batches", "acquired_ranges", "Ranges of records in these answers."),
    ("bmq_share_fetch_bytes", "sent_bytes", "Bytes of records in these answers."),
    ("bmq_share_fetch_partitions", "partitions", "Partitions that fetches asked for, each time."),
    ("bmq_share_fetch_partitions_given", "given_partitions", "Those of which they got records."),
    ("bmq_share_acquires", "acquires", "Calls to the shards that lock records."),
    ("bmq_share_acquire_seconds", "acquire_s", "How long they took, added up."),
)


class ShareCollector(Collector):
    """Register it with the process's registry."""

    def __init__(self, consumers: ShareConsumers) -> None:
        self._consumers = consumers

    def collect(self) -> Iterator[Metric]:
        consumers, counts = self._consumers, self._consumers.counts
        sessions = consumers.sessions
        yield GaugeMetricFamily("bmq_share_sessions", "Share sessions.", value=len(sessions))
        yield GaugeMetricFamily(
            "bmq_share_session_partitions", "Partitions they remember.", value=sessions.partition_count
        )
        yield GaugeMetricFamily(
            "bmq_share_waiting_partitions",
            "Share partitions whose shards are asked for news.",
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
