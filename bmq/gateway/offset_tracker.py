"""Which offset of a partition a consumer group may commit while its records are settled in any order. Pure."""

from __future__ import annotations

from collections import deque


class OffsetTracker:
    """Records are received in the order of their offsets. An offset is committed when all before it are settled."""

    def __init__(self) -> None:
        self._received: deque[int] = deque()
        self._settled: set[int] = set()
        self._position: int | None = None
        self._committed: int | None = None

    def receive(self, offset: int) -> None:
        self._received.append(offset)

    def settle(self, offset: int) -> None:
        """Raises ValueError for an offset that was not received, or is committed already."""
        if not self._received or not self._received[0] <= offset <= self._received[-1]:
            raise ValueError(f"offset {offset} was not received")
        self._settled.add(offset)
        while self._received and self._received[0] in self._settled:
            self._settled.discard(self._received[0])
            self._position = self._received.popleft() + 1

    @property
    def unsettled_count(self) -> int:
        return len(self._received) - len(self._settled)

    @property
    def to_commit(self) -> int | None:
        """The offset to commit; None while there is no newer one than `committed` was told."""
        return None if self._position == self._committed else self._position

    def committed(self, offset: int) -> None:
        self._committed = offset
