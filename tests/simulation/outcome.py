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
    elections: int = 0
    controller_losses: int = 0
    cuts: int = 0
    zookeeper_outages: int = 0
    moves: int = 0  # owners that followed others, as the metadata tells
    remote_tails: int = 0  # looks at a node that followed another's partitions just then
    deletions: int = 0
    topics_made: int = 0
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
            f"{self.node_losses} nodes lost ({self.shortages} refused for it), {self.resets} resets, "
            f"{self.elections} elections, {self.controller_losses} controllers lost, {self.moves} moves, {self.cuts} cuts, "
            f"{self.zookeeper_outages} ZooKeeper outages, {self.remote_tails} remote tails, {self.deletions} deletions, "
            f"{self.topics_made} topics made, {self.acknowledged_batches} batches acknowledged, {self.records} records, "
            f"{self.commits} commits, {self.answers} look-ups, {self.callbacks} callbacks, "
            f"{self.simulated_s:.3f} s simulated: {verdict}"
        )
