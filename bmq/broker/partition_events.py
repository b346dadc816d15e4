"""Messages between the partition's state machine and its runtime: effects are orders, events are facts. Pure.

Everything here is a plain value. A batch is the one exception: the machine writes its offset into it, so that the
runtime's own record of the batch can pass through the queue without being copied.
"""

from __future__ import annotations

from typing import Final

from bmq.dataclass import dataclass
from bmq.log.partition_log import Batch
from bmq.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of this leader epoch. `roll`: its number in the directory. `base_offset`: the first it may hold."""

    leader_epoch: int
    roll: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The topic settings that the machine needs.

    `segment_bytes`: no segment grows past it. `preopen_bytes`: at this size the next one is opened ahead of need.
    `appends_outstanding_max`: appends of a process that are written but not yet durable; every partition may have one
    beyond that. `replicas_wanted`: how many nodes get a file when all are healthy. `replicas_min`: how many acks=all
    needs, never more than are wanted.
    `append_alignment_bytes`: appends are padded to a multiple of it.
    """

    segment_bytes: int
    preopen_bytes: int
    appends_outstanding_max: int = 64
    replicas_wanted: int = 1
    replicas_min: int = 1
    append_alignment_bytes: int = 1


ANY_BYTES: Final = 2**62
"""The length limit of a segment that only the topic's settings limit."""

RECOVERED: Final = -1
"""Used as a roll: stands for the segments of earlier epochs whose indexes were rebuilt."""


# --- events: what happened


class Event:
    """Base of all events."""

    __slots__ = ()


class ProduceArrived(Event):
    """A checked batch wants to be appended. Not a dataclass: one is made for every batch produced."""

    __slots__ = ("batch",)
    __match_args__ = ("batch",)

    def __init__(self, batch: Batch) -> None:
        self.batch = batch


class Outcome(Event):
    """The result of an effect, or a hint from a timer. One that comes too late is ignored."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DirectoryClaimed(Outcome):
    """Our directory and its owner file exist; carries a listing begun after that (rule 1)."""

    open_epochs: frozenset[int]
    sealed_epochs: frozenset[int]


@dataclass(frozen=True, slots=True)
class DirectoriesSealed(Outcome):
    """All older directories are sealed; `open_files` in them were never closed (rule 3)."""

    open_files: frozenset[str]


@dataclass(frozen=True, slots=True)
class FileClosed(Outcome):
    """A file of an older owner is closed and its writer stopped for good."""

    file: str


@dataclass(frozen=True, slots=True)
class LogWalked(Outcome):
    """The log is whole up to here. `is_indexed`: the indexes of all its segments are durable."""

    end_offset: int
    is_indexed: bool = True


@dataclass(frozen=True, slots=True)
class ManifestWritten(Outcome):
    """The manifest of our epoch is durable, and with it all earlier segments and their cuts."""


@dataclass(frozen=True, slots=True)
class SegmentOpened(Outcome):
    """Segment file `roll` is open on `replicas` nodes, and a look at our directory begun after that found it (rule 7).

    `bytes_max`: how long it may become, should the topic's settings allow more.
    """

    roll: int
    replicas: int = 1
    bytes_max: int = ANY_BYTES


@dataclass(frozen=True, slots=True)
class SegmentOpenFailed(Outcome):
    """Segment file `roll` could not be opened: the store has no room (`is_full`), or does not answer."""

    roll: int
    is_full: bool = False


@dataclass(slots=True, unsafe_hash=True)  # made for every append: freezing would triple the cost
class WriteDue(Outcome):
    """The event loop turn in which the waiting batches arrived is over.

    `outstanding`, here and below: appends of all partitions of this process that are on their way now.
    """

    outstanding: int = 0


@dataclass(slots=True, unsafe_hash=True)  # made for every batch: freezing would triple the cost
class SegmentSynced(Outcome):
    """Everything below `end_offset` is durable in this segment."""

    roll: int
    end_offset: int
    outstanding: int = 0


@dataclass(frozen=True, slots=True)
class WriterBroken(Outcome):
    """Appends to this segment fail from now on, for a reason other than fencing.

    `is_resting`: nothing is appended, so no segment has to follow before something is.
    """

    roll: int
    is_full: bool = False
    is_resting: bool = False


@dataclass(frozen=True, slots=True)
class SegmentMended(Outcome):
    """The broken segment is closed and holds everything below `end_offset`, and nothing behind it counts (rule 9).

    `replicas`: how many nodes are left that have all of it.
    """

    roll: int
    end_offset: int
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class SegmentSealed(Outcome):
    """The segment is closed and its index durable."""

    roll: int


@dataclass(frozen=True, slots=True)
class SegmentSealFailed(Outcome):
    """The segment's index could not be written yet (`is_full`: the store has no room). The runtime keeps trying."""

    roll: int
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class DirectoryReleased(Outcome):
    """Our own directory is sealed."""


@dataclass(frozen=True, slots=True)
class RollDue(Outcome):
    """The segment is old enough, its index is full, or a snapshot replaces what it holds."""

    roll: int


@dataclass(frozen=True, slots=True)
class IdleDue(Outcome):
    """Nothing was produced for so long that the segment should be closed, or nothing is and its writer broke."""

    roll: int


@dataclass(frozen=True, slots=True)
class ReplicasDue(Outcome):
    """The segment lies on fewer nodes than it should, and there may be more by now."""

    roll: int


@dataclass(frozen=True, slots=True)
class WaitExpired(Outcome):
    """Batches have waited for the store as long as they may."""


@dataclass(frozen=True, slots=True)
class RetryDue(Outcome):
    """The back-off before another try to open a segment is over."""


@dataclass(frozen=True, slots=True)
class StopRequested(Outcome):
    """The partition is to be handed over, or the process stops."""


@dataclass(frozen=True, slots=True)
class LimitsChanged(Outcome):
    """The topic's settings changed."""

    limits: Limits


@dataclass(frozen=True, slots=True)
class OwnershipLost(Outcome):
    """We lost our directory or the lease on one of our files; we do not know to whom."""


@dataclass(frozen=True, slots=True)
class EffectFailed(Outcome):
    """An effect was performed in part or not at all, we do not know which: memory and file may differ (rule 23)."""


# --- effects: what to do


class Effect:
    """Base of all effects."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ClaimDirectory(Effect):
    """Make our directory once, write the owner file, list the partition (rule 1)."""


@dataclass(frozen=True, slots=True)
class SealDirectories(Effect):
    """Rename these older epochs' directories to their sealed names, delete the leftovers, look for open files."""

    epochs: tuple[int, ...]
    leftovers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CloseFile(Effect):
    """Take over and close a file that an older owner left open."""

    file: str


@dataclass(frozen=True, slots=True)
class WalkLog(Effect):
    """Find the end of the log (rule 4)."""


@dataclass(frozen=True, slots=True)
class WriteManifest(Effect):
    """Record the extents of everything older, cut at `end_offset`."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class OpenSegment(Effect):
    """Create this segment file, then look at our directory (rule 7)."""

    roll: int


@dataclass(frozen=True, slots=True)
class ScheduleWrite(Effect):
    """Report WriteDue once the current event loop turn is over."""


@dataclass(slots=True, unsafe_hash=True)  # made for every batch: freezing would triple the cost
class WriteBatches(Effect):
    """Append these batches, placed back to back, as one append."""

    segment: Segment
    batches: tuple[Batch, ...]


@dataclass(slots=True, unsafe_hash=True)  # made for every batch: freezing would triple the cost
class Acknowledge(Effect):
    """These batches are durable, and so is everything below `high_watermark`.

    `is_short`: on fewer nodes than `min.insync.replicas`; acks=all is answered NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    """

    batches: tuple[Batch, ...]
    high_watermark: int
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class Reject(Effect):
    """These batches are refused. After NOT_LEADER_OR_FOLLOWER their fate is unknown, else they are not in the log."""

    batches: tuple[Batch, ...]
    error_code: ErrorCode


@dataclass(frozen=True, slots=True)
class MendSegment(Effect):
    """Look at our directory, close the broken segment, record a torn tail as a cut, look again (rules 7 and 9)."""

    segment: Segment


@dataclass(frozen=True, slots=True)
class SaveRecoveredIndexes(Effect):
    """Write the indexes that were rebuilt while the log was walked, in the background; reported as `RECOVERED` sealed."""


@dataclass(frozen=True, slots=True)
class SealSegment(Effect):
    """Close the segment, which must end at `end_offset`, and write its index, in the background."""

    segment: Segment
    end_offset: int


@dataclass(frozen=True, slots=True)
class DiscardSegment(Effect):
    """Close and remove a segment file of ours that holds no batch."""

    roll: int


@dataclass(frozen=True, slots=True)
class RetryLater(Effect):
    """Report RetryDue after a back-off."""


@dataclass(frozen=True, slots=True)
class SealOwnDirectory(Effect):
    """Rename our own directory to its sealed name."""


@dataclass(frozen=True, slots=True)
class Abandon(Effect):
    """Let go of every writer and timer; touch nothing in the store any more."""
