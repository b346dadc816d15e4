"""How much opening of batches may be done here and now. Pure: the performer resets and supplies the memory."""

from __future__ import annotations

from typing import Final, Protocol

TURN_NS: Final = 10_000_000
"""Of opening and reading batches in one turn of the event loop, over all partitions; what is beyond goes to a thread."""
TURN_SCRATCH_BYTES: Final = 256 * 1024
"""The longest body that is decompressed in a turn of the event loop."""


class TooMuchWork(Exception):
    """The batch takes more time or memory than there is here. It is neither refused nor admitted."""


class Room(Protocol):
    """`scratch`: where bodies are decompressed. `left_ns`: estimated time that may still be used; None: any.

    `is_last`: there is no larger room, so what does not fit is refused.
    """

    scratch: memoryview
    left_ns: int | None
    is_last: bool

    def take(self, cost_ns: int) -> None:
        """Raises TooMuchWork. A negative cost gives back."""


class OpeningRoom:
    """A Room that is made for one batch."""

    __slots__ = ("is_last", "left_ns", "scratch")

    def __init__(self, scratch: memoryview, left_ns: int | None = None, *, is_last: bool = False) -> None:
        self.scratch = scratch
        self.left_ns = left_ns
        self.is_last = is_last

    def take(self, cost_ns: int) -> None:
        if self.left_ns is None:
            return
        if cost_ns > self.left_ns:
            raise TooMuchWork
        self.left_ns -= cost_ns
