"""What a seed went through, in one line; floors on these numbers are asserted, so that a quiet run does not pass for a good one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Outcome:
    """Counts of one seed over all its histories. `callbacks`: how often the loops called something, for determinism."""

    seed: int
    kills: int = 0
    pauses: int = 0
    takeovers: int = 0
    hand_overs: int = 0
    power_losses: int = 0
    losses_accepted: int = 0
    node_losses: int = 0
    shortages: int = 0  # produces that heard of too few replicas
    resets: int = 0
    acknowledged_batches: int = 0
    records: int = 0
    commits: int = 0
    answers: int = 0
    simulated_s: float = 0.0
    callbacks: int = 0
    violation: str | None = None

    def line(self) -> str:
        verdict = f"VIOLATION {self.violation}" if self.violation else "ok"
        return (
            f"seed {self.seed}: {self.kills} kills, {self.pauses} pauses, {self.takeovers} takeovers, "
            f"{self.hand_overs} hand-overs, {self.power_losses} power losses ({self.losses_accepted} with loss), "
            f"{self.node_losses} nodes lost ({self.shortages} refused for it), {self.resets} resets, {self.acknowledged_batches} batches acknowledged, {self.records} records, "
            f"{self.commits} commits, {self.answers} look-ups, {self.callbacks} callbacks, "
            f"{self.simulated_s:.3f} s simulated: {verdict}"
        )
