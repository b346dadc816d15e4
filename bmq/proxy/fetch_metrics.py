"""Counters of the fetch path: plain ints, read when Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class FetchCounts:
    """Counters of all fetches of the process. (Their durations are measured by the connections.)"""

    __slots__ = (
        "cache_evicted_bytes",
        "cache_hits",
        "cache_misses",
        "catch_up_bytes",
        "fetches",
        "read_ahead_chunks",
        "sent_to_rack",
        "store_bytes",
        "tail_bytes",
    )

    def __init__(self) -> None:
        self.fetches = 0
        self.tail_bytes = 0
        self.catch_up_bytes = 0
        self.store_bytes = 0
        self.cache_hits = 0
        self.cache_misses = 0
        self.cache_evicted_bytes = 0
        self.read_ahead_chunks = 0
        self.sent_to_rack = 0


_COUNTERS: Final = (
    ("bmq_fetches", "fetches", "Fetch requests answered."),
    ("bmq_fetch_tail_bytes", "tail_bytes", "Bytes of records served from the tail cache."),
    ("bmq_fetch_catch_up_bytes", "catch_up_bytes", "Bytes of records served from the read cache, read ahead or not."),
    ("bmq_fetch_store_bytes", "store_bytes", "Bytes read from the store for fetches."),
    ("bmq_read_cache_hits", "cache_hits", "Chunks found in the read cache."),
    ("bmq_read_cache_misses", "cache_misses", "Chunks not found in the read cache."),
    ("bmq_read_cache_evicted_bytes", "cache_evicted_bytes", "Bytes dropped from the read cache to make room."),
    ("bmq_fetch_sent_to_rack", "sent_to_rack", "Times a consumer was sent to a proxy in its own rack (KIP-392)."),
    ("bmq_read_ahead_chunks", "read_ahead_chunks", "Chunks read ahead of a sequential reader."),
)


class FetchCollector(Collector):
    """The Prometheus collector of the fetch path. `levels`: (name, help text) -> function that returns a gauge's value."""

    def __init__(self, counts: FetchCounts, levels: Callable[[], Mapping[tuple[str, str], float]]) -> None:
        self._counts = counts
        self._levels = levels

    def collect(self) -> Iterator[Metric]:
        for name, attribute, documentation in _COUNTERS:
            yield CounterMetricFamily(name, documentation, value=float(getattr(self._counts, attribute)))
        for (name, documentation), value in self._levels().items():
            yield GaugeMetricFamily(name, documentation, value=value)
