"""A share of time in memory that two processes see: one says it, the other looks whenever it likes, however busy it is."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Final

WHOLE: Final = 100
"""A byte's worth: hundredths. One byte is never half written."""


class SharedShare:
    """Of the time, in hundredths. Who says it passes the file's descriptor on; both close it."""

    def __init__(self, descriptor: int) -> None:
        """Takes the descriptor over. Raises OSError."""
        self.descriptor = descriptor
        try:
            self._memory = mmap.mmap(descriptor, 1)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def made(cls, share: float) -> SharedShare:
        """A new one. Raises OSError."""
        with tempfile.TemporaryFile() as file:
            file.truncate(1)
            made = cls(os.dup(file.fileno()))
        made.say(share)
        return made

    def say(self, share: float) -> None:
        """More than 0, at most 1; less than a hundredth is a hundredth."""
        self._memory[0] = max(1, round(share * WHOLE))

    def look(self) -> float:
        """What was said last."""
        return self._memory[0] / WHOLE

    def close(self) -> None:
        """It is not said or looked at any more."""
        self._memory.close()
        os.close(self.descriptor)
