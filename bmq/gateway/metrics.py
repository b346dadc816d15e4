"""Counts of the gateway for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class GatewayMetrics:
    """Registered at `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter("bmq_gateway_calls", "Calls, by method", ["method"], registry=registry)
        self.open_calls = Gauge("bmq_gateway_open_calls", "Calls in progress, streams among them", registry=registry)
        self.failures = Counter(
            "bmq_gateway_failures",
            "Calls that failed, by method and status code",
            ["method", "code"],
            registry=registry,
        )
        self.published = Counter("bmq_gateway_published_records", "Records that were written", registry=registry)
        self.refused = Counter("bmq_gateway_refused_records", "Records that were not written", registry=registry)
        self.delivered = Counter("bmq_gateway_delivered_records", "Records sent to subscribers", registry=registry)
        self.settled = Counter(
            "bmq_gateway_settled_records", "Records that subscribers settled", ["how"], registry=registry
        )
        self.subscribers = Gauge("bmq_gateway_subscribers", "Open subscriptions", registry=registry)
        self.users = Gauge("bmq_gateway_users", "Users who are connected to the cluster", registry=registry)
        self.held_bytes = Gauge("bmq_gateway_held_bytes", "Records and requests in memory", ["what"], registry=registry)
