"""One partition's load since it was started here, for a balancer."""

from __future__ import annotations

from typing import NamedTuple


class PartitionLoad:
    """Counts that only grow. `bytes_out`: read from memory; reads from the store cost the owner nothing."""

    __slots__ = ("bytes_in", "bytes_out", "requests")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests = 0


class Figures(NamedTuple):
    """What one partition has counted since it was started here, and its size."""

    bytes_in: int
    records_in: int
    bytes_out: int
    size_bytes: int
