"""A share of CPU time in memory that two processes have in common. One sets it, the other reads it; neither waits."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Final

HUNDREDTHS: Final = 100
"""It fits into one byte, and one byte is never half written."""


class SharedCpuShare:
    """The share. The process that sets it passes the descriptor to the one that reads it. Each closes its own."""

    def __init__(self, descriptor: int) -> None:
        """Take over the descriptor. Raises OSError."""
        self.descriptor = descriptor
        try:
            self._memory = mmap.mmap(descriptor, 1)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def create(cls, share: float) -> SharedCpuShare:
        """Create one, set to `share`. Raises OSError."""
        with tempfile.TemporaryFile() as file:
            file.truncate(1)
            made = cls(os.dup(file.fileno()))
        made.set(share)
        return made

    def set(self, share: float) -> None:
        """Set the share: more than 0, at most 1. Less than 0.01 counts as 0.01."""
        self._memory[0] = max(1, round(share * HUNDREDTHS))

    def get(self) -> float:
        """The share that was set last, in steps of 0.01."""
        return self._memory[0] / HUNDREDTHS

    def close(self) -> None:
        """Release the memory and the descriptor. The share cannot be set or read afterwards."""
        self._memory.close()
        os.close(self.descriptor)
