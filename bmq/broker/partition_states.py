"""The states of one partition at its owner; partition.py says what they mean and decides between them. Pure."""

from __future__ import annotations

from dataclasses import field
from enum import Enum, auto
from typing import ClassVar

from bmq.broker.in_flight_batches import InFlightBatches
from bmq.broker.partition_events import ANY_BYTES, Effect, Limits, Segment
from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError


class AcknowledgedDataLost(BmqError):
    """The log ends before data that was acknowledged. The partition goes offline, loudly (rule 5)."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, leader_epoch: int, end_offset: int, acknowledged_offset: int) -> None:
        super().__init__(
            f"in epoch {leader_epoch} the log ends at offset {end_offset}, "
            f"but everything below {acknowledged_offset} was acknowledged"
        )
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset
        self.acknowledged_offset = acknowledged_offset


class ImpossibleEvent(Exception):
    """An event that no order of effects can lead to: a bug."""


class NextStatus(Enum):
    """The segment after the current one: not asked for, being opened, open, or could not be opened ahead of need."""

    ABSENT = auto()
    OPENING = auto()
    READY = auto()
    FAILED = auto()


class RollReason(Enum):
    """Whether to switch to the next segment, once open, before the current one is full: always (age), or only if it is
    on more nodes."""

    NONE = auto()
    AGE = auto()
    MORE_REPLICAS = auto()


@dataclass(frozen=True, slots=True)
class NextSegment:
    """The segment after the current one. `replicas`: how many nodes hold it, once it is open.

    `skipped_rolls`: segments before it that were discarded unused or could not be opened; a name is not used twice,
    because operations on the first file may be carried out late (rule 21).
    """

    status: NextStatus = NextStatus.ABSENT
    replicas: int = 0
    skipped_rolls: int = 0

    def roll_after(self, current: Segment) -> int:
        return current.roll + 1 + self.skipped_rolls

    def is_opening(self) -> bool:
        return self.status is NextStatus.OPENING

    def is_ready(self) -> bool:
        return self.status is NextStatus.READY

    def opening(self) -> NextSegment:
        return NextSegment(NextStatus.OPENING, self.replicas, self.skipped_rolls)

    def opened(self, replicas: int) -> NextSegment:
        return NextSegment(NextStatus.READY, replicas, self.skipped_rolls)

    def failed(self) -> NextSegment:
        """It could not be opened. Its creation may still be carried out late, so its roll is skipped (rule 21)."""
        return NextSegment(NextStatus.FAILED, self.replicas, self.skipped_rolls + 1)

    def discarded(self) -> NextSegment:
        return NextSegment(NextStatus.ABSENT, self.replicas, self.skipped_rolls + 1)


@dataclass(frozen=True, slots=True)
class SegmentToOpen:
    """The segment to go on with, while none is open. `skipped_rolls`: skipped before its roll."""

    roll: int
    is_asked: bool = False
    skipped_rolls: int = 0

    @property
    def last_roll(self) -> int:
        """The segment before it."""
        return self.roll - 1 - self.skipped_rolls

    def failed(self) -> SegmentToOpen:
        """The failed creation may still be carried out late, so its roll is not used again (rule 21)."""
        return SegmentToOpen(self.roll + 1, skipped_rolls=self.skipped_rolls + 1)


# --- states


@dataclass(frozen=True, slots=True)
class State:
    """Base of all states. `is_final`: nothing more happens. `is_leaving`: refuses new batches, finishes old ones.

    `is_owning`: we own the partition. These states have `log` and `unindexed`: closed segments whose index is not durable
    yet.
    """

    is_final: ClassVar[bool] = False
    is_leaving: ClassVar[bool] = False
    is_owning: ClassVar[bool] = False

    leader_epoch: int
    limits: Limits


@dataclass(frozen=True, slots=True)
class Claiming(State):
    floor: int  # rule 5: the highest high watermark ever reported


@dataclass(frozen=True, slots=True)
class Sealing(State):
    floor: int


@dataclass(frozen=True, slots=True)
class Recovering(State):
    """`replicas`: how many nodes hold our first segment, opened meanwhile as `first_roll`; 0: not open yet.

    The first segment has a roll above 0 when the first try to open it failed (rule 21).
    """

    floor: int
    open_files: frozenset[str]
    replicas: int = 0
    first_roll: int = 0
    first_bytes_max: int = ANY_BYTES


@dataclass(frozen=True, slots=True)
class Opening(State):
    """`unindexed`: as in `State`, for earlier epochs. `is_recorded`: our manifest is durable. The rest: as before."""

    end_offset: int
    unindexed: frozenset[int] = frozenset()
    is_recorded: bool = False
    replicas: int = 0
    first_roll: int = 0
    first_bytes_max: int = ANY_BYTES


@dataclass(frozen=True, slots=True)
class Writing(State):
    """`is_short`: `replicas` are fewer than `min.insync.replicas`. `is_roll_due`: nothing more goes into this segment."""

    is_owning: ClassVar[bool] = True

    log: InFlightBatches
    unindexed: frozenset[int]
    segment: Segment
    next: NextSegment = field(default_factory=NextSegment)
    replicas: int = 1
    is_short: bool = False
    is_roll_due: bool = False
    roll_reason: RollReason = RollReason.NONE

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way: no batch and no next segment."""
        return not self.log.written and not self.log.waiting and not self.next.is_opening()


@dataclass(frozen=True, slots=True)
class Mending(State):
    is_owning: ClassVar[bool] = True

    log: InFlightBatches
    unindexed: frozenset[int]
    segment: Segment
    next: NextSegment = field(default_factory=NextSegment)
    is_full: bool = False
    is_stopping: bool = False
    is_resting: bool = False

    @property
    def is_leaving(self) -> bool:  # type: ignore[override]
        return self.is_stopping


@dataclass(frozen=True, slots=True)
class AwaitingSegment(State):
    is_owning: ClassVar[bool] = True

    log: InFlightBatches
    unindexed: frozenset[int]
    next: SegmentToOpen


@dataclass(frozen=True, slots=True)
class Idle(State):
    is_owning: ClassVar[bool] = True

    log: InFlightBatches
    unindexed: frozenset[int]
    next: SegmentToOpen


@dataclass(frozen=True, slots=True)
class Blocked(State):
    is_owning: ClassVar[bool] = True

    log: InFlightBatches
    unindexed: frozenset[int]
    next: SegmentToOpen


@dataclass(frozen=True, slots=True)
class Draining(State):
    is_owning: ClassVar[bool] = True
    is_leaving: ClassVar[bool] = True

    log: InFlightBatches
    unindexed: frozenset[int]
    segment: Segment
    next: NextSegment = field(default_factory=NextSegment)
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class Closing(State):
    is_owning: ClassVar[bool] = True
    is_leaving: ClassVar[bool] = True

    log: InFlightBatches
    unindexed: frozenset[int]


@dataclass(frozen=True, slots=True)
class Releasing(State):
    is_owning: ClassVar[bool] = True
    is_leaving: ClassVar[bool] = True

    log: InFlightBatches
    unindexed: frozenset[int]


Owning = Writing | Mending | AwaitingSegment | Idle | Blocked | Draining | Closing | Releasing


@dataclass(frozen=True, slots=True)
class Released(State):
    is_final: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Fenced(State):
    is_final: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Offline(State):
    is_final: ClassVar[bool] = True


Step = tuple[State, tuple[Effect, ...]]
"""The next state, and what is to be done, in order."""
