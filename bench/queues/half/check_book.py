"""Which checks of half messages were due, which were asked, and what was wrong. Decisions only.

A check is right if it came once, from its time on and within LATE_MS_MAX of it, and not behind the message's decision. One
whose time lies so far before the decision that it had to come, and that did not come, is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

LATE_MS_MAX: Final = 1_000


class Terms(NamedTuple):
    """Of the topic."""

    first_ms: int
    interval_ms: int
    checks_max: int


class Decided(NamedTuple):
    """Between these times it became known: when the decision was sent, and when it was surely known."""

    sent_ms: int
    known_ms: int


class Asked(NamedTuple):
    """`asked_ms`: when the owner took it as undecided. `came_ms`: when somebody had it who could answer."""

    asked_ms: int
    came_ms: int


@dataclass(slots=True)
class CheckBook:
    """Messages have numbers. `held_ms`: by number, by the owner's clock."""

    terms: Terms
    held_ms: Mapping[int, int]
    decided: dict[int, Decided] = field(default_factory=dict)
    doubled: int = 0
    _asked: dict[tuple[int, int], Asked] = field(default_factory=dict)

    def asked(self, number: int, check: int, asked: Asked) -> None:
        """`check`: 1 and up."""
        self.doubled += (number, check) in self._asked
        self._asked.setdefault((number, check), asked)

    @property
    def asked_count(self) -> int:
        return len(self._asked)

    def found(self, end_ms: int) -> dict[str, Any]:
        """`end_ms`: until when checks were received."""
        wrong = {"early": 0, "late": 0, "after_decision": 0, "unknown": 0}
        errors_ms = []
        for (number, check), asked in self._asked.items():
            if number not in self.held_ms or not 1 <= check <= self.terms.checks_max:
                wrong["unknown"] += 1
                continue
            due_ms = self._due_ms(number, check)
            errors_ms.append(asked.came_ms - due_ms)
            decided = self.decided.get(number)
            if decided is not None and asked.asked_ms > decided.known_ms:
                wrong["after_decision"] += 1
            elif asked.asked_ms < due_ms:
                wrong["early"] += 1
            elif asked.came_ms > due_ms + LATE_MS_MAX:
                wrong["late"] += 1
        missing = sum(1 for key in self._wanted(end_ms) if key not in self._asked)
        errors_ms.sort()
        bad = sum(wrong.values()) + self.doubled + missing
        return {
            "messages": len(self.held_ms),
            "decided": len(self.decided),
            "checks": len(self._asked),
            "right_percent": 100 * max(0, len(self._asked) + missing - bad) / max(1, len(self._asked) + missing),
            "missing": missing,
            "doubled": self.doubled,
            **wrong,
            "p50_ms": errors_ms[len(errors_ms) // 2] if errors_ms else None,
            "p99_ms": errors_ms[int(len(errors_ms) * 0.99)] if errors_ms else None,
            "max_ms": errors_ms[-1] if errors_ms else None,
        }

    def _due_ms(self, number: int, check: int) -> int:
        return self.held_ms[number] + self.terms.first_ms + (check - 1) * self.terms.interval_ms

    def _wanted(self, end_ms: int) -> list[tuple[int, int]]:
        """Checks that had to come."""
        wanted = []
        for number in self.held_ms:
            decided = self.decided.get(number)
            until_ms = end_ms if decided is None else min(end_ms, decided.sent_ms)
            wanted += [
                (number, check)
                for check in range(1, self.terms.checks_max + 1)
                if self._due_ms(number, check) + LATE_MS_MAX < until_ms
            ]
        return wanted
