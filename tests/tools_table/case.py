"""What a case is: a few runs of one tool, each compared, on states that it sets up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.tools_table.world import World

Play = Callable[["World"], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One run as it is compared: the command as the document shows it, the exit code and the printed lines."""

    command: str
    options: frozenset[str]
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Case:
    tool: str
    name: str
    play: Play


@dataclass(slots=True)
class Cases:
    """In the order they were declared."""

    found: list[Case] = field(default_factory=list)

    def of(self, tool: str, name: str) -> Callable[[Play], Play]:
        """Decorates the function that plays the case on one side."""

        def declare(play: Play) -> Play:
            self.found.append(Case(tool, name, play))
            return play

        return declare
