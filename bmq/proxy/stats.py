"""The proxy's counters as plain numbers, and the Prometheus metrics made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.log.latency import LatencyHistogram
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.proxy.catch_up_throttle import BOUNDS_S

_BOUNDS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class ProxyStats(Collector):
    """One server's numbers since its start."""

    def __init__(self) -> None:
        self.connections = 0
        self.connections_refused = 0
        self.connections_closed_bad = 0
        self.authentications = 0
        self.authentications_failed = 0
        self.sessions_expired = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.in_flight_bytes = 0
        self.reads_paused = 0
        self.requests: Counter[int] = Counter()
        self.errors: Counter[tuple[int, int]] = Counter()
        self.produce_latency = LatencyHistogram(_BOUNDS_S)
        self.produce_times = LatencyHistogram(BOUNDS_S)  # with the finer bounds of the catch-up throttle
        self.fetch_latency = LatencyHistogram(_BOUNDS_S)

    def note_error(self, api_key: int, code: int) -> None:
        self.errors[api_key, code] += 1

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily("bmq_requests", "Requests answered or begun.", labels=["api"])
        for key, count in self.requests.items():
            requests.add_metric([ApiKey(key).name.lower()], count)
        errors = CounterMetricFamily("bmq_errors", "Error codes answered.", labels=["api", "error"])
        for (key, code), count in self.errors.items():
            errors.add_metric([ApiKey(key).name.lower(), ErrorCode(code).name], count)
        latency = HistogramMetricFamily(
            "bmq_request_seconds", "Time from a request's last byte to its answer.", labels=["api"]
        )
        for name, histogram in (("produce", self.produce_latency), ("fetch", self.fetch_latency)):
            latency.add_metric([name], histogram.buckets(), histogram.sum_s)
        yield from (requests, errors, latency)
        for name, text, value in (
            ("bmq_received_bytes", "Bytes of requests.", self.received_bytes),
            ("bmq_sent_bytes", "Bytes of answers.", self.sent_bytes),
            ("bmq_connections_refused", "Connections refused because of connections_max.", self.connections_refused),
            (
                "bmq_connections_closed_bad",
                "Connections closed because of a bad request, or unread answers.",
                self.connections_closed_bad,
            ),
            ("bmq_authentications", "Logins that succeeded, including renewed sessions.", self.authentications),
            ("bmq_authentications_failed", "Logins with wrong credentials.", self.authentications_failed),
            ("bmq_sessions_expired", "Connections closed because their session ended.", self.sessions_expired),
            ("bmq_reads_paused", "Times a socket was no longer read because of a limit.", self.reads_paused),
        ):
            yield CounterMetricFamily(name, text, value=value)
        for name, text, value in (
            ("bmq_connections", "Connections of clients.", self.connections),
            ("bmq_in_flight_bytes", "Bytes of requests that are not answered yet.", self.in_flight_bytes),
        ):
            yield GaugeMetricFamily(name, text, value=value)
