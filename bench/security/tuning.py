"""What is set on either side when security is compared."""

from __future__ import annotations

from typing import Final

from bench.runner import Setting

SETTINGS: Final = (
    Setting(
        "both",
        "TLS",
        "one EC key (P-256) of a test authority, TLS 1.3, no client certificates; the server chooses the cipher",
        "none",
        "it is what is measured",
    ),
    Setting(
        "both",
        "users",
        "one user with SCRAM-SHA-256 credentials of 4,096 iterations",
        "none",
        "it is what is measured",
    ),
    Setting(
        "bmq",
        "connections of one address",
        "max.connections.per.ip = 2147483647, as in Kafka: all clients of a benchmark come from one address",
        "the product's own bound",
        "it would refuse the load",
    ),
    Setting(
        "Apache Kafka",
        "JVM",
        "what kafka-server-start.sh passes: a heap of 1 GiB, G1",
        "the same",
        "`make bench`",
    ),
)
