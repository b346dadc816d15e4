"""How much opening of batches may be done in a turn of the event loop, and elsewhere. Pure: the performer resets and supplies memory."""

from __future__ import annotations

from typing import Final, Protocol

TURN_NS: Final = 10_000_000
"""Of opening and reading batches in one turn of the event loop, over all partitions; what is beyond goes to a thread."""
TURN_SCRATCH_BYTES: Final = 256 * 1024
"""The longest body that is decompressed in a turn of the event loop."""
PART_COST_BYTES: Final = 16 * 1024
"""What each part of a body costs beside its bytes, so that a body of millions of tiny parts has an end."""


class TooMuchWork(Exception):
    """The batch takes more time or memory than there is here. It is neither refused nor accepted."""


class Room(Protocol):
    """`scratch`: where bodies are decompressed. `left_ns`: estimated time that may still be used; None: any."""

    scratch: memoryview
    left_ns: int | None

    def take(self, cost_ns: int) -> None:
        """Raises TooMuchWork. A negative cost gives back."""


class OpeningBudget:
    """What a batch that is opened in parts may take: bytes of its body, and PART_COST_BYTES for each part."""

    __slots__ = ("body_bytes", "left_bytes")

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes
        self.body_bytes = 0

    def take(self, part_bytes: int) -> None:
        """Raises TooMuchWork."""
        self.body_bytes += part_bytes
        self.left_bytes -= part_bytes + PART_COST_BYTES
        if self.left_bytes < 0:
            raise TooMuchWork
