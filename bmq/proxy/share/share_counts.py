"""Counters of share groups' requests at a proxy: plain ints, read when Prometheus scrapes. Pure."""

from __future__ import annotations


class ShareCounts:
    """Counters of all share groups of the process.

    `acknowledged`: acknowledged records by type, in the order of AckType. `partitions`: partitions that fetches looked at,
    counted at each fetch. `given_partitions`: those of them with records. `acquire_s`: total duration of calls to shards.
    """

    __slots__ = (
        "acknowledged",
        "acquire_s",
        "acquired_ranges",
        "acquired_records",
        "acquires",
        "fetches",
        "given_partitions",
        "partitions",
        "redelivered",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self.fetches = 0
        self.partitions = 0
        self.given_partitions = 0
        self.acquires = 0
        self.acquire_s = 0.0
        self.acquired_ranges = 0
        self.acquired_records = 0
        self.redelivered = 0
        self.sent_bytes = 0
        self.acknowledged = [0] * 5
