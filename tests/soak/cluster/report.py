"""What a soak of a cluster found, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.soak.cluster.memory import NodeMemory
from tests.soak.cluster.plan import Kind
from tests.soak.report import stall_lines
from tests.soak.stalls import Stall, Trouble, by_cause


@dataclass(slots=True)
class ClusterReport:
    """`violations`: sentences; with none of them the soak has passed. `order_failures`: of operators, beside faults.

    `patient_stalls`: nothing was acknowledged to the producer that waits long for a node that hangs; `impatient_stalls`:
    to the one that soon asks others; `read_stalls`: the stock reader got nothing. `refusals`: by Kafka error code, of
    Fetches by hand.
    """

    seed: int
    minutes: float
    began_s: float = 0.0
    troubles: list[Trouble] = field(default_factory=list)
    kinds: Counter[Kind] = field(default_factory=Counter)
    patient_stalls: list[Stall] = field(default_factory=list)
    impatient_stalls: list[Stall] = field(default_factory=list)
    read_stalls: list[Stall] = field(default_factory=list)
    sent_count: int = 0
    acknowledged_count: int = 0
    read_count: int = 0
    group_again_count: int = 0
    group_commit_count: int = 0
    committed_answer_count: int = 0
    late_commit_count: int = 0
    reading_passes: int = 0
    reading_visits: int = 0
    refusals: Mapping[int, int] = field(default_factory=dict)
    owner_changes: int = 0
    moved_count: int = 0
    drained_count: int = 0
    order_failures: list[str] = field(default_factory=list)
    start_s: list[float] = field(default_factory=list)
    counters: Mapping[str, int] = field(default_factory=dict)
    late_calls: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[int, NodeMemory] = field(default_factory=dict)
    log_events: Mapping[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @property
    def has_passed(self) -> bool:
        return not self.violations

    def counts(self) -> dict[str, int]:
        """Everything that is counted, under one name each."""
        return {
            "records_sent": self.sent_count,
            "records_acknowledged": self.acknowledged_count,
            "records_read": self.read_count,
            "group_records_again": self.group_again_count,
            "group_commits": self.group_commit_count,
            "committed_answers": self.committed_answer_count,
            "late_commits_seen": self.late_commit_count,
            "reading_passes": self.reading_passes,
            "reading_visits": self.reading_visits,
            "owner_changes": self.owner_changes,
            "moves": self.moved_count,
            "drains": self.drained_count,
            "node_starts": len(self.start_s),
            **{name.removeprefix("bmq_"): count for name, count in self.counters.items()},
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "minutes": self.minutes,
            "passed": self.has_passed,
            "violations": self.violations,
            "counts": self.counts(),
            "faults": {kind.value: self.kinds[kind] for kind in Kind},
            "late_calls": dict(self.late_calls),
            "stalls": {name: by_cause(stalls, self.troubles, self.began_s) for name, stalls in self._stalls().items()},
            "timeline": [self._from_begin(trouble) for trouble in self.troubles],
            "node_start_s": [round(seconds, 3) for seconds in self.start_s],
            "memory": {str(node_id): self._memory(memory) for node_id, memory in self.memory.items()},
            "order_failures": self.order_failures,
            "refusals": {str(code): count for code, count in self.refusals.items()},
            "log_events": dict(self.log_events),
        }

    def _stalls(self) -> dict[str, list[Stall]]:
        return {
            "patient producer": self.patient_stalls,
            "impatient producer": self.impatient_stalls,
            "reader": self.read_stalls,
        }

    def _stall_lines(self) -> Iterator[str]:
        for name, stalls in self._stalls().items():
            yield f"  longest time in which the {name} heard nothing of a partition, by what was under way:"
            yield from stall_lines(stalls, self.troubles, self.began_s)

    def _from_begin(self, trouble: Trouble) -> dict[str, Any]:
        begin_s, end_s = trouble.begin_s - self.began_s, trouble.end_s - self.began_s
        return {"kind": trouble.kind, "begin_s": round(begin_s, 2), "end_s": round(end_s, 2)}

    @staticmethod
    def _memory(memory: NodeMemory) -> dict[str, Any]:
        """`processes`: of each one, (age in seconds, MiB) about every half minute."""
        return {
            "max_mib": round(memory.max_mib, 1),
            "warm_observed_s": round(memory.observed_s, 1),
            "growth_mib_per_minute": round(memory.growth_mib_per_minute(), 2),
            "processes": [
                [[round(age_s), round(mib, 1)] for age_s, mib in each.samples[:: max(1, len(each.samples) // 20)]]
                for each in memory.incarnations
            ],
        }

    def text(self) -> str:
        memory = ", ".join(
            f"node {node_id} max {each.max_mib:.0f} MiB, {each.growth_text()}" for node_id, each in self.memory.items()
        )
        events = sorted(self.log_events.items(), key=lambda event: -event[1])
        return "\n".join(
            [
                f"soak of a cluster of {self.minutes:g} minutes, seed {self.seed}: "
                f"{'passed' if self.has_passed else 'FAILED'}",
                f"  {_listed(self.counts())}",
                f"  faults: {_listed({kind.value: count for kind, count in self.kinds.items()})}",
                f"  starts: {', '.join(f'{seconds:.1f}' for seconds in self.start_s) or 'none'} s",
                f"  memory (RSS): {memory}",
                f"  fetches refused, by error code: {_listed({str(c): n for c, n in self.refusals.items()}) or 'none'}",
                f"  logged by the nodes: {_listed(dict(events)) or 'nothing of note'}",
                *(f"  order not carried out: {failure}" for failure in self.order_failures),
                *self._stall_lines(),
                *(f"  VIOLATION: {violation}" for violation in self.violations),
            ]
        )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
