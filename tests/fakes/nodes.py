"""The DataNodes of the fake store: which of them answer, and which one a new file gets."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum, auto
from random import Random

DATA_PORT = 9866


class NodeState(StrEnum):
    """A lost node resets its connections; a hung one goes on holding them and answers nothing. Both keep their bytes."""

    UP = auto()
    LOST = auto()
    HUNG = auto()


class Nodes:
    """`wanted`: on how many of them a file should lie."""

    def __init__(self, count: int, wanted: int) -> None:
        self.wanted = min(count, wanted)
        self.states = {f"node-{number}:{DATA_PORT}": NodeState.UP for number in range(count)}

    def is_up(self, name: str) -> bool:
        return self.states[name] is NodeState.UP

    def up(self, names: Iterable[str] | None = None) -> list[str]:
        """Those that answer, of `names` or of all."""
        return [name for name in (self.states if names is None else names) if self.is_up(name)]

    def choose(self, random: Random, count: int) -> list[str]:
        """Nodes for a new file: at most `count`, fewer when fewer are up."""
        up = self.up()
        return up if len(up) <= count else sorted(random.sample(up, count))
