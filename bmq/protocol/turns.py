"""Turns of the event loop: long work on a request does a bounded part at a time, and others are served in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Sequence
from typing import Final, Protocol, TypeVar

ELEMENTS_PER_TURN_MAX: Final = 500
"""Array elements of a message that are handled in one turn of the loop. One takes 1 to 20 microseconds."""

T = TypeVar("T")


class Turns(Protocol):
    """Gives the event loop to others; bmq.aio.loop_turns implements it."""

    async def next(self) -> None:
        """Return in a later turn of the loop, which no other long work shares."""


class NoTurns:
    """For requests that are not long, or that nobody else waits for: nothing is interrupted."""

    async def next(self) -> None:
        pass


NO_TURNS: Final[Turns] = NoTurns()


def at_once(work: Generator[None, None, T]) -> T:
    """The result of a generator that yields where others may have their turn, without one for anybody."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


class Pace:
    """Counts the elements that were handled in this turn.

    After each: `if pace.is_over(): await turns.next()`, or `yield` in a generator that is run in turns.
    """

    __slots__ = ("_elements_max", "_left")

    def __init__(self, elements_max: int = ELEMENTS_PER_TURN_MAX) -> None:
        self._left = self._elements_max = elements_max

    def is_over(self, elements: int = 1) -> bool:
        """Count elements that were handled; whether others should have a turn now. Then counting begins anew."""
        self._left -= elements
        if self._left > 0:
            return False
        self._left = self._elements_max
        return True


async def in_turns(
    items: Sequence[T], turns: Turns, elements_max: int = ELEMENTS_PER_TURN_MAX
) -> AsyncIterator[Sequence[T]]:
    """The items in parts, each in a turn of its own; all at once if they are few."""
    if len(items) <= elements_max:
        yield items
        return
    for start in range(0, len(items), elements_max):
        if start:
            await turns.next()
        yield items[start : start + elements_max]
