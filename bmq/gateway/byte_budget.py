"""How many bytes several holders may have in memory together. Pure."""

from __future__ import annotations


class ByteBudget:
    """Counts bytes. Nothing waits here: a holder asks for the room, and gives back what it took."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used_bytes = 0

    @property
    def free_bytes(self) -> int:
        return max(0, self._bytes_max - self.used_bytes)

    def has_room(self, count_bytes: int) -> bool:
        """Whether so many bytes fit. Anything fits while nothing is held, so that one large message always passes."""
        return self.used_bytes == 0 or self.used_bytes + count_bytes <= self._bytes_max

    def take(self, count_bytes: int) -> None:
        self.used_bytes += count_bytes

    def give_back(self, count_bytes: int) -> None:
        self.used_bytes -= count_bytes
        if self.used_bytes < 0:
            raise ValueError(f"{-self.used_bytes} bytes were given back that were not taken")
