"""Produces that wait for their batches, and are answered in time whether these are durable or not."""

from __future__ import annotations

from typing import Protocol


class Expiring(Protocol):
    """A produce that must be answered by `deadline_s`."""

    deadline_s: float

    def expire(self) -> None: ...


class ProduceDeadlines:
    """Of all produces of one listener. `add` and `discard` are once per request, `expire` looks at all that wait."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Expiring, None] = {}  # in order: what follows is the same each time

    def add(self, produce: Expiring) -> None:
        self._waiting[produce] = None

    def discard(self, produce: Expiring) -> None:
        self._waiting.pop(produce, None)

    def expire(self, now_s: float) -> None:
        """Answer what waited too long."""
        for produce in [produce for produce in self._waiting if produce.deadline_s <= now_s]:
            produce.expire()
