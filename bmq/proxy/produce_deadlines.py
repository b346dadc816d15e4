"""Deadlines of produces, at which they are answered even if their batches are not durable yet."""

from __future__ import annotations

from typing import Protocol


class Expiring(Protocol):
    """A produce that must be answered by `deadline_s`."""

    deadline_s: float

    def expire(self) -> None: ...


class ProduceDeadlines:
    """The deadlines of one listener's produces. `add` and `discard` run once per request; `expire` reads all."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Expiring, None] = {}  # ordered, so that runs are reproducible

    def add(self, produce: Expiring) -> None:
        self._waiting[produce] = None

    def discard(self, produce: Expiring) -> None:
        self._waiting.pop(produce, None)

    def expire(self, now_s: float) -> None:
        """Answer the produces whose deadline has passed."""
        for produce in [produce for produce in self._waiting if produce.deadline_s <= now_s]:
            produce.expire()
