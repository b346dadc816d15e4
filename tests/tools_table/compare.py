"""Where two runs of one step printed different lines. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from tests.tools_table.case import Step


@dataclass(frozen=True, slots=True)
class Difference:
    """Lines in place of which the other side has others, or none."""

    bmq: tuple[str, ...]
    kafka: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparedStep:
    command: str
    options: frozenset[str]
    differences: tuple[Difference, ...]
    bmq: tuple[str, ...] = ()
    """All that was printed on bmq."""


def compared(bmq: Sequence[Step], kafka: Sequence[Step]) -> list[ComparedStep]:
    """Step by step; one that only one side came to differs from nothing."""
    found = []
    for index in range(max(len(bmq), len(kafka))):
        ours, theirs = (side[index] if index < len(side) else None for side in (bmq, kafka))
        either = ours or theirs
        assert either is not None
        sides = (ours.lines if ours else ["not run"], theirs.lines if theirs else ["not run"])
        found.append(ComparedStep(either.command, either.options, differences(*sides), tuple(sides[0])))
    return found


def differences(bmq: Sequence[str], kafka: Sequence[str]) -> tuple[Difference, ...]:
    codes = difflib.SequenceMatcher(None, bmq, kafka, autojunk=False).get_opcodes()
    return tuple(
        Difference(tuple(bmq[low:high]), tuple(kafka[from_:to]))
        for tag, low, high, from_, to in codes
        if tag != "equal"
    )
