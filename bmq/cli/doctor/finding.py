"""What one check found. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from bmq.dataclass import dataclass


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Finding:
    """`check`: the name of the check. `seen`: what it saw. `to_do`: what to do about it; empty if there is nothing to do."""

    check: str
    verdict: Verdict
    seen: str
    to_do: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"check": self.check, "verdict": self.verdict.value, "seen": self.seen, "to_do": self.to_do}


EXIT_OK: Final = 0
EXIT_WARNING: Final = 1
EXIT_ERROR: Final = 2


def ok(check: str, seen: str) -> Finding:
    return Finding(check, Verdict.OK, seen)


def warning(check: str, seen: str, to_do: str) -> Finding:
    return Finding(check, Verdict.WARNING, seen, to_do)


def error(check: str, seen: str, to_do: str) -> Finding:
    return Finding(check, Verdict.ERROR, seen, to_do)


def not_applicable(check: str, seen: str) -> Finding:
    return Finding(check, Verdict.NOT_APPLICABLE, seen)


def exit_code(findings: Iterable[Finding]) -> int:
    """0 without a warning, 1 with one, 2 with an error."""
    verdicts = {finding.verdict for finding in findings}
    if Verdict.ERROR in verdicts:
        return EXIT_ERROR
    return EXIT_WARNING if Verdict.WARNING in verdicts else EXIT_OK


def percent(part: float, whole: float) -> str:
    """`12 %`; `-` of nothing."""
    return f"{part / whole:.0%}".replace("%", " %") if whole else "-"


_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_text(count: float) -> str:
    """1536 as `1.5 KiB`."""
    size = float(count)
    for unit in _UNITS[:-1]:
        if abs(size) < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} {_UNITS[-1]}"
