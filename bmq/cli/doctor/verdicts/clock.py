"""Whether clocks agree, and whether ours jumps. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.cli.doctor.finding import Finding, error, not_applicable, ok, warning
from bmq.dataclass import dataclass

CHECK: Final = "clock"
JUMPS: Final = "clock jumps"
OFF_WARNING_MS: Final = 1_000
OFF_ERROR_MS: Final = 30_000
"""Kerberos refuses a clock that is five minutes off, and topics a timestamp that is an hour ahead."""
JUMP_WARNING_MS: Final = 100
JUMP_ERROR_MS: Final = 1_000
_SYNCHRONIZE: Final = "synchronize the clocks (chrony or systemd-timesyncd): `chronyc tracking`, `timedatectl status`"


@dataclass(frozen=True, slots=True)
class OtherClock:
    """`owner` has a clock that is between `earliest_ms` and `latest_ms` ahead of ours; negative: behind."""

    owner: str
    earliest_ms: float
    latest_ms: float

    @property
    def off_ms(self) -> float:
        """The smallest difference that explains what was seen; 0: the clocks may agree."""
        if self.earliest_ms > 0:
            return self.earliest_ms
        return min(0.0, self.latest_ms)


def clock_findings(others: Sequence[OtherClock]) -> list[Finding]:
    """One finding for each clock that is off, else one for all."""
    if not others:
        return [not_applicable(CHECK, "no other clock could be read: neither a node nor HDFS answered")]
    found = []
    for other in others:
        off_ms = abs(other.off_ms)
        if off_ms < OFF_WARNING_MS:
            continue
        way = "ahead of" if other.off_ms > 0 else "behind"
        make = error if off_ms >= OFF_ERROR_MS else warning
        found.append(make(CHECK, f"the clock of {other.owner} is {off_ms / 1000:.1f} s {way} ours", _SYNCHRONIZE))
    names = ", ".join(other.owner for other in others)
    return found or [ok(CHECK, f"agrees within {OFF_WARNING_MS / 1000:g} s with the clock of {names}")]


def jump_findings(offsets_ms: Sequence[float], *, is_synchronized: bool | None) -> list[Finding]:
    """`offsets_ms`: the time of day less the time since the boot, looked at again and again; only a jump changes it.

    `is_synchronized`: what the kernel says; None: it says nothing.
    """
    jump_ms = max(offsets_ms, default=0.0) - min(offsets_ms, default=0.0)
    if jump_ms >= JUMP_WARNING_MS:
        make = error if jump_ms >= JUMP_ERROR_MS else warning
        return [
            make(
                JUMPS,
                f"the time of day jumped by {jump_ms / 1000:.2f} s while it was watched",
                "let the clock be slewed, not stepped: chrony without `makestep` after the start; and look whether two "
                "programs set it",
            )
        ]
    if is_synchronized is False:
        return [
            warning(JUMPS, "the kernel says that no program keeps the clock synchronized", _SYNCHRONIZE),
        ]
    return [ok(JUMPS, f"no jump of the time of day in {len(offsets_ms)} looks")]
