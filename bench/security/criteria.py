"""What security may cost beside Apache Kafka, and beside bmq without it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Final

from bench.criteria import BMQ, KAFKA, Absolute, Criterion, Evidence, Ratio, Samples, evaluate, parts_by_id

TLS: Final = "tls"
LOGINS: Final = "logins"
ACLS: Final = "acls"
QUOTAS: Final = "quotas"
CLUSTER_QUOTAS: Final = "cluster-quotas"
STRANGERS: Final = "strangers"
FLOOD: Final = "flood"
"""Strangers who come back at once when the server closes them."""
PLAIN: Final = "plain"
OLD: Final = "before"
"""The revision before there was any security, beside bmq in the part PLAIN."""

GB: Final = 1e9
QUOTA_BYTES_PER_S: Final = 1_000_000


def _produce_rate(raw: Samples) -> float:
    return float(raw["produce"]["value_bytes"]) / float(raw["produce"]["seconds"]) / 1e6


def _consume_rate(raw: Samples) -> float:
    return float(raw["consume"]["mb_per_s"])


def _cpu_s_per_gb(raw: Samples) -> float:
    """Of both directions: a GB in and a GB out."""
    produce, consume = raw["produce"], raw["consume"]
    into = float(produce["server_cpu_s"]) / (float(produce["value_bytes"]) / GB)
    return into + float(consume["server_cpu_s"]) / float(consume["gb"])


def _overhead_percent(raw: Samples) -> float:
    """Median over the rounds of: processor time a request with ACLs, to the same without, minus one."""
    found = [
        100 * (one["with"][load]["cpu_us_per_request"] / one["without"][load]["cpu_us_per_request"] - 1)
        for one in raw["rounds"]
        for load in ("produce", "fetch")
    ]
    return statistics.median(found)


def _quota_error_percent(raw: Samples) -> float:
    """The worst of all rounds and clients, on either side of the quota."""
    return max(100 * abs(rate / QUOTA_BYTES_PER_S - 1) for one in raw["rounds"] for rate in one["bytes_per_s"].values())


def _strangers_factor(raw: Samples) -> float:
    return statistics.median(one["with"]["latency_p99_us"] / one["without"]["latency_p99_us"] for one in raw["rounds"])


def _rate(load: str) -> Callable[[Samples], float]:
    return lambda raw: float(raw[load]["answers"]) / float(raw[load]["seconds"])


def _plain(criterion_id: str, what: str, load: str) -> Ratio:
    return Ratio(criterion_id, PLAIN, what, "1/s", ">=", 0.99, _rate(load), (BMQ,), (OLD,), rival="bmq before security")


RATIOS: Final = (
    Ratio("tls_produce_ratio", TLS, "produce 1 KiB by librdkafka over TLS", "MB/s", ">=", 1.0, _produce_rate),
    Ratio("tls_consume_ratio", TLS, "consume it by librdkafka over TLS", "MB/s", ">=", 0.9, _consume_rate),
    Ratio("tls_cpu_ratio", TLS, "server CPU for a GB in and a GB out", "s", "<=", 0.9, _cpu_s_per_gb),
    Ratio("handshakes_per_s_ratio", LOGINS, "full TLS 1.3 handshakes", "1/s", ">=", 1.0,
          lambda raw: float(raw["handshakes_per_s"])),
    Ratio("scram_logins_per_s_ratio", LOGINS, "SCRAM-SHA-256 logins without TLS", "1/s", ">=", 2.0,
          lambda raw: float(raw["logins_per_s"])),
    _plain("plain_produce", "produces of 1 KiB without any security", "produce"),
    _plain("plain_fetch", "fetches without any security", "fetch"),
    _plain("plain_small", "produces of one record without any security", "small"),
)  # fmt: skip
ABSOLUTES: Final = (
    Absolute("acl_overhead_percent", ACLS, "processor time of small requests, 10,000 ACLs to none", "%", 2,
             _overhead_percent, no_rival="bmq without an authorizer"),
    Absolute("quota_error_percent", QUOTAS, "a quota of 1 MB/s, from 30 s to 90 s, worst client", "%", 10,
             _quota_error_percent),
    Absolute("cluster_quota_error_percent", CLUSTER_QUOTAS,
             "a quota of 1 MB/s for three proxies together, from 30 s to 90 s, worst client", "%", 15,
             _quota_error_percent, no_rival="Kafka's quotas hold for each broker"),
    Absolute("unauthenticated_5000", STRANGERS, "p99 of others beside 5,000 half-made connections", "x", 1.3,
             _strangers_factor),
    Absolute("flood_5000", FLOOD, "p99 of others beside 5,000 that come back at once", "x", 0, _strangers_factor, op=""),
)  # fmt: skip
PART_OF: Final = parts_by_id(RATIOS, ABSOLUTES)


def judge(evidence: Evidence) -> list[Criterion]:
    return evaluate(evidence, RATIOS, ABSOLUTES)


SIDES: Final = (BMQ, KAFKA)
