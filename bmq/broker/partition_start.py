"""One partition's start at its owner: directory, older epochs, recovery, first segment. Decisions only.

A part of partition.py, which says what the states mean.
"""

from __future__ import annotations

from dataclasses import replace

from bmq.broker.in_flight_batches import InFlightBatches
from bmq.broker.partition_events import (
    RECOVERED,
    Abandon,
    ClaimDirectory,
    CloseFile,
    DirectoriesSealed,
    DirectoryClaimed,
    Event,
    FileClosed,
    Limits,
    LogWalked,
    ManifestWritten,
    OpenSegment,
    Outcome,
    ProduceArrived,
    Reject,
    SaveRecoveredIndexes,
    SealDirectories,
    Segment,
    SegmentOpened,
    StopRequested,
    WalkLog,
    WriteManifest,
)
from bmq.broker.partition_states import (
    AcknowledgedDataLost,
    Claiming,
    Fenced,
    ImpossibleEvent,
    Opening,
    Recovering,
    Released,
    Sealing,
    State,
    Step,
    Writing,
)
from bmq.protocol.error_codes import ErrorCode


def start(leader_epoch: int, limits: Limits, floor: int) -> Step:
    """The first state and its effects."""
    return Claiming(leader_epoch, limits, floor), (ClaimDirectory(),)


def step_start(state: State, event: Event) -> Step:
    match state, event:
        case Claiming(epoch, limits, floor), DirectoryClaimed(open_epochs, sealed_epochs):
            if epoch in sealed_epochs or any(other > epoch for other in open_epochs | sealed_epochs):
                return Fenced(epoch, limits), (Reject((), ErrorCode.NOT_LEADER_OR_FOLLOWER), Abandon())
            older = open_epochs - {epoch}
            seal = SealDirectories(tuple(sorted(older - sealed_epochs)), tuple(sorted(older & sealed_epochs)))
            return Sealing(epoch, limits, floor), (seal,)
        case Sealing(epoch, limits, floor), DirectoriesSealed(open_files):
            closing = tuple(CloseFile(file) for file in sorted(open_files))
            # Recovery cannot affect our first segment, and opening it takes as long as closing theirs.
            return Recovering(epoch, limits, floor, open_files), (*(closing or (WalkLog(),)), OpenSegment(roll=0))
        case Recovering() | Opening(is_recorded=False), SegmentOpened(roll, replicas, bytes_max):
            return replace(state, replicas=replicas, first_roll=roll, first_bytes_max=bytes_max), ()
        case Recovering(open_files=files), FileClosed(file) if file in files:
            left = files - {file}
            return replace(state, open_files=left), () if left else (WalkLog(),)
        case Recovering(epoch, limits, floor, files), LogWalked(end_offset, is_indexed) if not files:
            if end_offset < floor:
                raise AcknowledgedDataLost(epoch, end_offset, floor)
            unindexed = frozenset() if is_indexed else frozenset({RECOVERED})
            opening = Opening(
                epoch,
                limits,
                end_offset,
                unindexed,
                replicas=state.replicas,
                first_roll=state.first_roll,
                first_bytes_max=state.first_bytes_max,
            )
            return opening, (WriteManifest(end_offset),)
        case Opening(is_recorded=False, replicas=0), ManifestWritten():
            return replace(state, is_recorded=True), ()
        case Opening(is_recorded=False, replicas=replicas), ManifestWritten():
            return _begin(state, replicas)
        case Opening(is_recorded=True), SegmentOpened(roll, replicas, bytes_max):
            return _begin(replace(state, first_roll=roll, first_bytes_max=bytes_max), replicas)
        case _, StopRequested():
            return Released(state.leader_epoch, state.limits), (Abandon(),)
        case _, ProduceArrived(batch):
            return state, (Reject((batch,), ErrorCode.NOT_LEADER_OR_FOLLOWER),)
        case _, Outcome():
            return state, ()
    raise ImpossibleEvent(state, event)


def _begin(state: Opening, replicas: int) -> Step:
    """Manifest and first segment are confirmed: from here on we own the partition."""
    first = Segment(state.leader_epoch, state.first_roll, base_offset=state.end_offset)
    writing = Writing(
        state.leader_epoch,
        state.limits,
        InFlightBatches(state.end_offset, state.first_bytes_max),
        state.unindexed,
        first,
        replicas=replicas,
        is_short=replicas < state.limits.replicas_min,
    )
    return writing, (SaveRecoveredIndexes(),) if state.unindexed else ()
