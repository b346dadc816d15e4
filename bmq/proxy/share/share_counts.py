"""Counters of share groups' requests at a proxy. Plain ints, read when Prometheus scrapes. Pure."""

from __future__ import annotations


class ShareCounts:
    """For all share groups of the process. `acknowledged`: records by type, in the order of AckType."""

    __slots__ = ("acknowledged", "acquired_ranges", "acquired_records", "fetches", "redelivered", "sent_bytes")

    def __init__(self) -> None:
        self.fetches = 0
        self.acquired_ranges = 0
        self.acquired_records = 0
        self.redelivered = 0
        self.sent_bytes = 0
        self.acknowledged = [0] * 5
