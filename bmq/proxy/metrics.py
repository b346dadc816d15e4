"""What the proxy counts. Plain ints on the hot path; prometheus reads them when it is asked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from bmq.proxy.data_plane import DataPlane

LATENCY_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class LatencyHistogram:
    """Counts by upper bound, seconds."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as prometheus wants them."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, LATENCY_BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


class RequestCounts:
    """All connections together. `by_api_and_error`: finished requests by (API key, error code)."""

    def __init__(self) -> None:
        self.by_api_and_error: dict[tuple[int, int], int] = {}
        self.request_bytes = 0
        self.response_bytes = 0
        self.connections_opened = 0
        self.connections_refused = 0
        self.produced_bytes = 0
        self.fetched_bytes = 0
        self.latency: dict[int, LatencyHistogram] = {
            ApiKey.PRODUCE: LatencyHistogram(),
            ApiKey.FETCH: LatencyHistogram(),
        }
        self.other_latency = LatencyHistogram()

    def finished(self, api_key: int, error_code: int, seconds: float) -> None:
        key = (api_key, error_code)
        counts = self.by_api_and_error
        counts[key] = counts.get(key, 0) + 1
        self.latency.get(api_key, self.other_latency).observe(seconds)


class ProxyCollector(Collector):
    """Exports a DataPlane's counts: `REGISTRY.register(ProxyCollector(server.plane))`."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        plane = self._plane
        counts = plane.counts
        requests = CounterMetricFamily("bmq_requests", "Requests answered.", labels=("api", "error"))
        for (api_key, error_code), count in sorted(counts.by_api_and_error.items()):
            requests.add_metric((_api_name(api_key), _error_name(error_code)), count)
        yield requests
        yield CounterMetricFamily("bmq_request_bytes", "Bytes of requests.", value=counts.request_bytes)
        yield CounterMetricFamily("bmq_response_bytes", "Bytes of responses.", value=counts.response_bytes)
        yield CounterMetricFamily("bmq_produced_bytes", "Bytes of records that came in.", value=counts.produced_bytes)
        yield CounterMetricFamily("bmq_fetched_bytes", "Bytes of records that went out.", value=counts.fetched_bytes)
        latency = HistogramMetricFamily(
            "bmq_request_latency_seconds", "From a request's last byte to its answer.", labels=("api",)
        )
        for name, histogram in (
            ("produce", counts.latency[ApiKey.PRODUCE]),
            ("fetch", counts.latency[ApiKey.FETCH]),
            ("other", counts.other_latency),
        ):
            latency.add_metric((name,), histogram.buckets(), histogram.total_s)
        yield latency
        yield from self._connections()
        yield from self._caches()

    def _connections(self) -> Iterable[Metric]:
        plane = self._plane
        counts = plane.counts
        yield GaugeMetricFamily("bmq_connections", "Open connections.", value=plane.connection_count)
        yield CounterMetricFamily("bmq_connections_opened", "Connections accepted.", value=counts.connections_opened)
        yield CounterMetricFamily(
            "bmq_connections_refused", "Connections closed at once.", value=counts.connections_refused
        )
        trouble = CounterMetricFamily("bmq_client_trouble", "Clients that misbehaved.", labels=("event",))
        for event, count in sorted(plane.trouble.counts.items()):
            trouble.add_metric((event,), count)
        yield trouble
        used = GaugeMetricFamily("bmq_proxy_budget_used_bytes", "Bytes taken of a budget.", labels=("budget",))
        bound = GaugeMetricFamily("bmq_proxy_budget_max_bytes", "Size of a budget.", labels=("budget",))
        for name, budget in (("requests", plane.request_budget), ("fetch_responses", plane.fetch_budget)):
            used.add_metric((name,), budget.bytes_used)
            bound.add_metric((name,), budget.bytes_max)
        used.add_metric(("read_cache",), plane.read_cache.bytes_used)
        bound.add_metric(("read_cache",), plane.read_cache.bytes_max)
        yield used
        yield bound

    def _caches(self) -> Iterable[Metric]:
        plane = self._plane
        cache = plane.read_cache
        yield CounterMetricFamily("bmq_read_cache_hits", "Chunks found in the read cache.", value=cache.hits)
        yield CounterMetricFamily("bmq_read_cache_misses", "Chunks read from the store.", value=cache.misses)
        yield CounterMetricFamily(
            "bmq_read_cache_shared_misses", "Misses that waited for another's read.", value=cache.shared_misses
        )
        yield CounterMetricFamily("bmq_read_ahead_chunks", "Chunks read ahead.", value=cache.read_ahead_chunks)
        yield CounterMetricFamily("bmq_store_read_bytes", "Bytes read by catch-up reads.", value=cache.read_bytes)
        yield GaugeMetricFamily("bmq_fetch_sessions", "Incremental fetch sessions.", value=len(plane.sessions))
        yield CounterMetricFamily(
            "bmq_fetch_sessions_evicted", "Sessions that made room for others.", value=plane.sessions.evicted
        )
        yield GaugeMetricFamily("bmq_waiting_fetches", "Fetches that wait for data.", value=len(plane.fetch_waits))


def _api_name(api_key: int) -> str:
    return ApiKey(api_key).name.lower() if api_key in ApiKey.__members__.values() else str(api_key)


def _error_name(error_code: int) -> str:
    return ErrorCode(error_code).name if error_code in ErrorCode.__members__.values() else str(error_code)
