"""What one partition does, since it was started here: what a balancer weighs."""

from __future__ import annotations


class PartitionLoad:
    """Counts that only grow. `bytes_out`: read from memory; what is read from the store costs its owner nothing."""

    __slots__ = ("bytes_in", "bytes_out", "requests")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests = 0
