"""Counters of share groups' requests at a proxy. Plain ints, read when Prometheus scrapes. Pure."""

from __future__ import annotations


class ShareCounts:
    """For all share groups of the process. `acknowledged`: records by type, in the order of AckType. `partitions`: that
    fetches looked at, each time; `given_partitions`: those of which they got records. `acquire_s`: that the calls to the
    shards took, added up.
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
