"""What a seed went through, in one line; floors on these numbers are asserted, so that a quiet run does not pass for a good one."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    long_pauses: int = 0  # beyond every patience
    clients_left: int = 0  # in the middle of a request
    late_calls: int = 0  # of the store, carried out after they were given up
    stale_answers: int = 0  # of an old NameNode
    damaged_reads: int = 0
    rotten_tails: int = 0
    committed_files: int = 0
    raised_appends: int = 0
    full_appends: int = 0
    acknowledged_batches: int = 0
    plain_batches: int = 0  # of producers without numbers
    records: int = 0
    commits: int = 0
    answers: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0
    transactions_unknown: int = 0  # whose client never heard of their end
    committed_by_check: int = 0  # whose client never heard of it, and whose application was asked
    transactions_asked: int = 0  # questions to applications about open transactions
    deserted: int = 0  # transactions whose client died while all else was calm
    deserted_committed: int = 0
    deserted_asked: int = 0  # aborted after the application was asked
    deserted_not_askable: int = 0  # aborted unasked, because no post found room in time
    zombies: int = 0  # clients that went on after another one had taken their place
    producers_refused: int = 0  # told that they are not their id's producer any more
    rotations: int = 0  # of producer ids whose epochs were used up
    late_requests: int = 0  # that came after they were given up
    copies: int = 0  # records that were copied exactly once
    assignments: int = 0  # that members were told of
    members_lost: int = 0  # told that they are none any more
    migrations: int = 0  # of a group from one protocol to the other, as it was described
    cleanings: int = 0  # of a log, to their end
    cleanings_interrupted: int = 0
    groups_cleaned: int = 0  # of segments, each to be swapped in
    markers_dropped: int = 0  # of aborted transactions
    delegations: int = 0  # of a cleaning to a job, whose files were swapped in
    delegations_lost: int = 0  # refused, late, or broken off
    records_gone: int = 0  # that somebody knew of and a reader did not find later
    tombstones_gone: int = 0
    aged_batches: int = 0  # of topics that are compacted, shortened or made again beside the others
    aged_answers: int = 0
    starts_raised: int = 0  # logs that were found to begin higher, by retention
    deliveries: int = 0  # of records to members of share groups
    redeliveries: int = 0
    accepts: int = 0
    refusals: int = 0  # of acknowledgements of single records
    locks_run_out: int = 0  # of records that somebody else was given then
    waits: int = 0  # deliveries after a back-off
    dead_letters: int = 0  # records that have one
    states_loaded: int = 0  # shards of share partitions, by one node after the other
    timers_delivered: int = 0  # records that were delayed, when they were due
    timers_plain: int = 0  # records at their own offsets on a topic with delay
    timers_cancelled: int = 0
    timers_too_late: int = 0  # cancellations that were refused
    lane_stays: int = 0  # of a lane's consumer
    lane_records: int = 0  # done by lanes' groups
    base_records: int = 0  # seen by the base group at their own offsets
    lane_copies: int = 0  # of what a lane left over
    halves_delivered: int = 0  # half messages that were committed
    halves_rolled_back: int = 0
    halves_given_up: int = 0
    halves_checked: int = 0  # checks that were read
    halves_refused: int = 0  # messages with a decision that was refused
    views_shown: int = 0  # records that readers of a view were given
    views_left_out: int = 0  # offsets that they passed without one
    cleaners_hurt: int = 0  # dead or hanging between what they wrote and its swap
    simulated_s: float = 0.0
    callbacks: int = 0
    violation: str | None = None
    by_history: dict[str, Outcome] = field(default_factory=dict)

    def add(self, name: str, outcome: Outcome) -> None:
        """What one of the seed's histories went through."""
        self.by_history[name] = outcome
        for count in COUNTS:
            setattr(self, count, getattr(self, count) + getattr(outcome, count))

    def line(self) -> str:
        verdict = f"VIOLATION {self.violation}" if self.violation else "ok"
        return (
            f"seed {self.seed}: {self.kills} kills, {self.pauses} pauses, {self.takeovers} takeovers, "
            f"{self.hand_overs} hand-overs, {self.power_losses} power losses ({self.losses_accepted} with loss), "
            f"{self.node_losses} nodes lost ({self.shortages} refused for it), {self.resets} resets, "
            f"{self.elections} elections, {self.controller_losses} controllers lost, {self.moves} moves, {self.cuts} cuts, "
            f"{self.zookeeper_outages} ZooKeeper outages, {self.remote_tails} remote tails, {self.deletions} deletions, "
            f"{self.topics_made} topics made, {self.long_pauses} long pauses, {self.clients_left} clients left, "
            f"{self.late_calls} late calls, {self.stale_answers} stale answers, {self.damaged_reads} damaged reads, "
            f"{self.rotten_tails} rotten tails, {self.committed_files} files left committed, "
            f"{self.raised_appends} raised appends, {self.full_appends} appends to a full store, "
            f"{self.plain_batches} plain batches, {self.acknowledged_batches} batches acknowledged, {self.records} records, "
            f"{self.commits} commits, {self.answers} look-ups, {self.transactions_committed} transactions committed, "
            f"{self.transactions_aborted} aborted, {self.transactions_unknown} unknown, "
            f"{self.committed_by_check} of them committed by a check, {self.transactions_asked} questions, "
            f"{self.deserted} deserted ({self.deserted_committed} committed, {self.deserted_asked} aborted after a question, "
            f"{self.deserted_not_askable} without one), {self.copies} copies, "
            f"{self.zombies} zombies, {self.producers_refused} producers refused, "
            f"{self.rotations} producer ids used up, {self.late_requests} late requests, "
            f"{self.assignments} assignments, {self.members_lost} members lost, "
            f"{self.migrations} migrations, {self.cleanings} cleanings, {self.cleanings_interrupted} interrupted, "
            f"{self.groups_cleaned} groups cleaned, {self.markers_dropped} markers dropped, {self.records_gone} records gone, "
            f"{self.tombstones_gone} of them tombstones, {self.delegations} delegations, {self.delegations_lost} lost, "
            f"{self.aged_batches} aged batches, {self.aged_answers} reads of them, "
            f"{self.starts_raised} starts raised, {self.cleaners_hurt} cleaners hurt, {self.deliveries} deliveries, "
            f"{self.redeliveries} of them again, {self.accepts} accepted, {self.refusals} acknowledgements refused, "
            f"{self.locks_run_out} locks run out, {self.waits} back-offs, {self.dead_letters} dead letters, "
            f"{self.states_loaded} states loaded, {self.timers_delivered} timers delivered, "
            f"{self.timers_plain} plain beside them, {self.timers_cancelled} cancelled, "
            f"{self.timers_too_late} cancelled too late, {self.lane_stays} stays in lanes, {self.lane_records} records of lanes, "
            f"{self.base_records} of the base group, {self.lane_copies} copied for it, "
            f"{self.halves_delivered} half messages delivered, "
            f"{self.halves_rolled_back} rolled back, {self.halves_given_up} given up, {self.halves_checked} checks, "
            f"{self.halves_refused} decisions refused, {self.views_shown} records shown by views, "
            f"{self.views_left_out} left out, {self.callbacks} callbacks, "
            f"{self.simulated_s:.3f} s simulated: {verdict}"
        )


COUNTS = tuple(name for name in Outcome.__slots__ if name not in ("seed", "violation", "by_history"))
