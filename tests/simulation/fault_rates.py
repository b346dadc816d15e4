"""How often the rarer faults happen: drawn for each seed, unless the command line sets a rate for all of them.

rates = FaultRates({"late_calls": 0.5}).draw(dice)      # --fault late_calls=0.5
rates = FaultRates.highest().draw(dice)                 # --faults-at-highest
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from tests.fakes.store import Faults


@dataclass(frozen=True, slots=True)
class FaultKind:
    """`usual`: a seed takes one of these; `highest`: for searches; `chance_of`: what the rate is a chance of."""

    usual: tuple[float, ...]
    highest: float
    chance_of: str


KINDS: Mapping[str, FaultKind] = {
    "late_calls": FaultKind(
        (0, 0, 0.01, 0.05), 0.2, "a change of the store is carried out after it was given up, per call"
    ),
    "stale_reads": FaultKind((0, 0, 0.2), 0.7, "an old NameNode goes on answering some clients, per round of chaos"),
    "unreadable_state": FaultKind((0, 0, 0.1), 0.5, "a file is damaged for a while, per read of a whole file"),
    "unsynced_takeovers": FaultKind(
        (0, 0.5), 1.0, "a takeover that did not ask for it left bytes unsynced, per takeover"
    ),
    "rotten_tails": FaultKind((0, 0.3), 1.0, "replicas differ behind what all of them held, per takeover"),
    "committed_blocks": FaultKind((0, 0.05), 0.2, "a close fixes the length and does not end, per close"),
    "raising_appends": FaultKind((0, 0, 0.005), 0.03, "an append raises, per append"),
    "full_stores": FaultKind((0, 0, 0.1), 0.3, "the store has no space for a while, per round of chaos"),
    "long_pauses": FaultKind((0, 0, 0.2), 0.7, "a process stands still beyond every patience, per pause"),
    "resets": FaultKind((0, 0, 0.001), 0.005, "a connection breaks, per piece of data"),
    "leaving_clients": FaultKind((0, 0.01), 0.05, "a client leaves in the middle of its request, per request"),
    "compacted_logs": FaultKind((0, 0, 0.6), 1.0, "a topic is compacted, per history"),
    "short_retention": FaultKind((0, 0, 0.6), 1.0, "a topic is soon too old or too large, per history"),
    "deleted_records": FaultKind((0, 0, 0.05), 0.2, "the head of a topic is deleted, per step of its writer"),
    "recreated_topics": FaultKind((0, 0, 0.05), 0.2, "a topic is deleted and made again, per step of its writer"),
    "hurt_cleaners": FaultKind((0, 0.2), 0.6, "whoever compacts dies or hangs before it swaps, per segment"),
}


class FaultRates:
    """`fixed`: rates by name that hold for every seed."""

    def __init__(self, fixed: Mapping[str, float] | None = None) -> None:
        self.fixed = dict(fixed or {})
        if unknown := self.fixed.keys() - KINDS.keys():
            raise ValueError(f"no fault named {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")

    @classmethod
    def highest(cls, fixed: Mapping[str, float] | None = None) -> FaultRates:
        return cls({name: kind.highest for name, kind in KINDS.items()} | dict(fixed or {}))

    def draw(self, dice: random.Random) -> dict[str, float]:
        """One seed's rates by name. The same dice give the same rates to those that are not fixed."""
        drawn = {name: float(dice.choice(kind.usual)) for name, kind in KINDS.items()}
        return drawn | self.fixed


def worsen(faults: Faults, rates: Mapping[str, float]) -> None:
    """What of them the store itself does."""
    faults.late_call_rate = rates["late_calls"]
    faults.unreadable_rate = rates["unreadable_state"]
    faults.unsynced_takeover_rate = rates["unsynced_takeovers"]
    faults.rotten_tail_rate = rates["rotten_tails"]
    faults.committed_rate = rates["committed_blocks"]
    faults.append_raises_rate = rates["raising_appends"]
