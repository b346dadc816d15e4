"""How many bytes may be on their way into the log at once, over all partitions of the process. Pure.

Connections limit their own bytes in flight (proxy.limits); this is the second bound: an append that would exceed twice
the budget is refused, so nothing grows without bound and nothing is dropped silently.
"""

from __future__ import annotations


class AppendBudget:
    """`bytes_max`: the target for bytes on their way. `refuse_bytes_max`: an append that would exceed it is refused."""

    def __init__(self, bytes_max: int, refuse_bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self.refuse_bytes_max = 2 * bytes_max if refuse_bytes_max is None else refuse_bytes_max
        self.bytes_used = 0

    def take(self, size_bytes: int) -> bool:
        """Count the bytes in; False, and nothing counted, when they must be refused. A lone append always fits."""
        if self.bytes_used and self.bytes_used + size_bytes > self.refuse_bytes_max:
            return False
        self.bytes_used += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        self.bytes_used -= size_bytes
