"""What is set on either side when share groups are compared, and where the default is measured."""

from __future__ import annotations

from typing import Final

from bench.runner import Setting

SETTINGS: Final = (
    Setting(
        "both",
        "share.auto.offset.reset",
        "earliest, of each group: it reads what was produced before it began",
        "latest",
        "not measured: a group would find nothing",
    ),
    Setting(
        "both, the part acks",
        "share.acquire.mode, max.poll.records",
        "record_limit and 1: a fetch gives one record",
        "batch_optimized and 500",
        "the part consume",
    ),
    Setting(
        "both, the part acks",
        "batch.num.messages of librdkafka, which fills the topic",
        "10",
        "10,000",
        "not measured: both servers would send up to 1 MB with each record",
    ),
    Setting(
        "bmq, the part idle",
        "group.share.max.size, group.share.max.share.sessions, max.connections",
        "1,000 members in each of ten groups, 20,000 sessions, 20,000 connections",
        "200, 2,000 and 10,000",
        "not measured: 10,000 members of one node are more than the defaults allow",
    ),
    Setting(
        "bmq",
        "max.connections.per.ip",
        "2147483647, as in Kafka: all clients of a benchmark come from one address",
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
