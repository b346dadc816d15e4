"""What a soak found, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.soak.memory import figures
from tests.soak.stalls import Stall, Trouble, by_cause


@dataclass(slots=True)
class Report:
    """`violations`: sentences; with none of them the soak has passed. `failed_starts`: what the server said each time it
    gave its start up, to be started again. `queued_count`: records acknowledged to the producer of the share groups' topic;
    `share_groups`: figures of each group. `memory_mib`, `own_memory_mib`: resident size of the server over time, as it is and
    without its caches.
    """

    seed: int
    minutes: float
    began_s: float = 0.0
    troubles: list[Trouble] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    sent_count: int = 0
    acknowledged_count: int = 0
    read_count: int = 0
    group_again_count: int = 0
    group_commit_count: int = 0
    queued_count: int = 0
    share_groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    start_s: list[float] = field(default_factory=list)
    failed_starts: list[str] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    late_calls: Counter[str] = field(default_factory=Counter)
    memory_mib: list[float] = field(default_factory=list)
    own_memory_mib: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def has_passed(self) -> bool:
        return not self.violations

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "minutes": self.minutes,
            "passed": self.has_passed,
            "violations": self.violations,
            "records": {
                "sent": self.sent_count,
                "acknowledged": self.acknowledged_count,
                "read": self.read_count,
                "group_again": self.group_again_count,
                "group_commits": self.group_commit_count,
            },
            "queued": self.queued_count,
            "share_groups": {name: dict(figures) for name, figures in self.share_groups.items()},
            "stalls": by_cause(self.stalls, self.troubles, self.began_s),
            "longest_stall_s": round(max((stall.seconds for stall in self.stalls), default=0.0), 3),
            "faults": [self._from_begin(trouble) for trouble in self.troubles],
            "server_start_s": [round(seconds, 3) for seconds in self.start_s],
            "server_failed_starts": self.failed_starts,
            "counters": self.counters,
            "late_calls": dict(self.late_calls),
            "memory_mib": figures(self.memory_mib),
            "own_memory_mib": figures(self.own_memory_mib),
        }

    def _from_begin(self, trouble: Trouble) -> dict[str, Any]:
        begin_s, end_s = trouble.begin_s - self.began_s, trouble.end_s - self.began_s
        return {"kind": trouble.kind, "begin_s": round(begin_s, 2), "end_s": round(end_s, 2)}

    def text(self) -> str:
        kinds = sorted({trouble.kind for trouble in self.troubles})
        faults = ", ".join(f"{sum(trouble.kind == kind for trouble in self.troubles)} {kind}" for kind in kinds)
        counters = ", ".join(f"{name.removeprefix('bmq_')} {count}" for name, count in self.counters.items())
        lines = [
            f"soak of {self.minutes:g} minutes, seed {self.seed}: {'passed' if self.has_passed else 'FAILED'}",
            f"  records: {self.sent_count} sent, {self.acknowledged_count} acknowledged, {self.read_count} read",
            f"  group: {self.group_commit_count} commits, {self.group_again_count} records came again",
            *share_group_lines(self.queued_count, self.share_groups),
            f"  faults: {faults or 'none'}",
            f"  server: {counters}",
            f"  starts: {', '.join(f'{seconds:.1f}' for seconds in self.start_s)} s",
            f"  memory (RSS): {_memory_text(self.memory_mib)}",
            f"  memory without caches: {_memory_text(self.own_memory_mib)}",
            "  longest pause between acknowledgements of a partition, by what was under way:",
        ]
        if self.late_calls:
            lines.insert(-1, f"  late calls: {', '.join(f'{count} {name}' for name, count in self.late_calls.items())}")
        lines[-1:-1] = [f"  start given up: {reason}" for reason in self.failed_starts]
        lines += stall_lines(self.stalls, self.troubles, self.began_s)
        lines += [f"  VIOLATION: {violation}" for violation in self.violations]
        return "\n".join(lines)


def _memory_text(samples_mib: Sequence[float]) -> str:
    return ", ".join(f"{name} {mib:g} MiB" for name, mib in figures(samples_mib).items()) or "not seen"


def share_group_lines(queued_count: int, groups: Mapping[str, Mapping[str, int]]) -> list[str]:
    """One line for each group."""
    return [
        f"  share group {name}: of {queued_count} records "
        + ", ".join(f"{what.replace('_', ' ')} {count}" for what, count in figures.items())
        for name, figures in groups.items()
    ]


def stall_lines(stalls: Sequence[Stall], troubles: Sequence[Trouble], began_s: float) -> list[str]:
    """One line for each cause, the worst first."""
    return [
        f"    {figures['longest_s']:8.2f} s  {cause} ({figures['count']} pauses, "
        f"the longest at {figures['at_s']:g} s, of partition {figures['partition']} at {figures['client']})"
        for cause, figures in by_cause(stalls, troubles, began_s).items()
    ]
