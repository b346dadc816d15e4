"""The states of one partition at its owner; partition.py says what they mean and decides between them. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar

from bmq.broker.partition_events import ANY_BYTES, Limits, Segment
from bmq.log.partition_log import Batch


class InFlightBatches:
    """Batches placed but not durable, oldest first: `written` to the current segment, `waiting` to be written.

    `append_ends` has the end offset of each outstanding append. `segment_bytes` have been written to the current
    segment, whose limit is `segment_bytes_max`; `following_bytes_max`: the limit of the next one, once it is open.
    `taken`: the batches removed last; if the step fails afterwards, they can still be answered from here (rule 23).
    """

    __slots__ = (
        "append_ends",
        "following_bytes_max",
        "high_watermark",
        "log_end_offset",
        "segment_bytes",
        "segment_bytes_max",
        "taken",
        "waiting",
        "written",
    )

    def __init__(self, high_watermark: int, segment_bytes_max: int = ANY_BYTES) -> None:
        self.high_watermark = high_watermark
        self.log_end_offset = high_watermark
        self.segment_bytes = 0
        self.segment_bytes_max = segment_bytes_max
        self.following_bytes_max = ANY_BYTES
        self.written: deque[Batch] = deque()
        self.waiting: deque[Batch] = deque()
        self.append_ends: deque[int] = deque()
        self.taken: tuple[Batch, ...] = ()

    def place(self, batch: Batch) -> None:
        batch.base_offset = offset = self.log_end_offset
        self.log_end_offset = offset + batch.offset_count
        self.waiting.append(batch)

    def take_synced(self, end_offset: int) -> tuple[Batch, ...]:
        """Remove the batches below `end_offset`, now durable; the high watermark moves to their end."""
        ends = self.append_ends
        while ends and ends[0] <= end_offset:
            ends.popleft()
        written = self.written
        synced: list[Batch] = []
        while written and written[0].end_offset <= end_offset:
            synced.append(written.popleft())
        self.high_watermark = max(self.high_watermark, end_offset)
        self.taken = tuple(synced)
        return self.taken

    def write_again(self) -> None:
        """The segment is closed: batches written behind its end have to go into the next one."""
        self.waiting.extendleft(reversed(self.written))
        self.written.clear()
        self.append_ends.clear()
        self.segment_bytes = 0

    def take_all(self) -> tuple[Batch, ...]:
        self.taken = batches = (*self.written, *self.waiting)
        self.written.clear()
        self.waiting.clear()
        self.append_ends.clear()
        self.log_end_offset = self.high_watermark
        return batches

    def take_waiting(self) -> tuple[Batch, ...]:
        self.taken = batches = tuple(self.waiting)
        self.waiting.clear()
        if batches:
            self.log_end_offset = batches[0].base_offset
        return batches

    def take_acks_all(self) -> tuple[Batch, ...]:
        """Remove the first waiting batch with acks=all and all after it, because their offsets are consecutive."""
        waiting = self.waiting
        kept = next((index for index, batch in enumerate(waiting) if batch.is_acks_all), len(waiting))
        self.taken = batches = tuple(waiting)[kept:]
        for _ in batches:
            waiting.pop()
        if batches:
            self.log_end_offset = batches[0].base_offset
        return batches


class Following(Enum):
    """The segment after the current one: not asked for, being opened, open, or could not be opened ahead of need."""

    ABSENT = auto()
    ASKED = auto()
    READY = auto()
    FAILED = auto()


class Wish(Enum):
    """Whether to switch to the next segment, once open, before the current one is full: always (age), or only if it is
    on more nodes."""

    NONE = auto()
    ROLL = auto()
    MORE_REPLICAS = auto()


# --- states


@dataclass(frozen=True, slots=True)
class State:
    """Base of all states. `is_final`: nothing more happens. `is_leaving`: refuses new batches, finishes old ones."""

    is_final: ClassVar[bool] = False
    is_leaving: ClassVar[bool] = False

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
    """`unindexed`: as in `Owning`, for earlier epochs. `is_recorded`: our manifest is durable. The rest: as before."""

    end_offset: int
    unindexed: frozenset[int] = frozenset()
    is_recorded: bool = False
    replicas: int = 0
    first_roll: int = 0
    first_bytes_max: int = ANY_BYTES


@dataclass(frozen=True, slots=True)
class Owning(State):
    """Base of the states in which we own the partition. `unindexed`: closed segments whose index is not durable yet."""

    log: InFlightBatches
    unindexed: frozenset[int]


@dataclass(frozen=True, slots=True)
class WithSegment(Owning):
    """Base of the states with a current segment.

    `following_replicas`: how many nodes hold the next segment. `skipped_rolls`: next segments that were discarded
    unused or could not be opened; a name is not used twice, because operations on the first file may be carried out
    late (rule 21).
    """

    segment: Segment
    following: Following = Following.ABSENT
    following_replicas: int = 0
    skipped_rolls: int = 0

    @property
    def following_roll(self) -> int:
        return self.segment.roll + 1 + self.skipped_rolls


@dataclass(frozen=True, slots=True)
class Writing(WithSegment):
    """`is_short`: `replicas` are fewer than `min.insync.replicas`. `is_roll_due`: nothing more goes into this segment."""

    replicas: int = 1
    is_short: bool = False
    is_roll_due: bool = False
    wish: Wish = Wish.NONE


@dataclass(frozen=True, slots=True)
class Mending(WithSegment):
    is_full: bool = False
    is_stopping: bool = False

    @property
    def is_leaving(self) -> bool:  # type: ignore[override]
        return self.is_stopping


@dataclass(frozen=True, slots=True)
class WithoutSegment(Owning):
    """Base of the states without an open segment. `roll`: of the next one. `skipped_rolls`: skipped before that."""

    roll: int
    is_asked: bool = False
    skipped_rolls: int = 0

    @property
    def last_roll(self) -> int:
        """The segment before the next one."""
        return self.roll - 1 - self.skipped_rolls


@dataclass(frozen=True, slots=True)
class AwaitingSegment(WithoutSegment):
    pass


@dataclass(frozen=True, slots=True)
class Idle(WithoutSegment):
    pass


@dataclass(frozen=True, slots=True)
class Blocked(WithoutSegment):
    pass


@dataclass(frozen=True, slots=True)
class Draining(WithSegment):
    is_leaving: ClassVar[bool] = True
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class Closing(Owning):
    is_leaving: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Releasing(Owning):
    is_leaving: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Released(State):
    is_final: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Fenced(State):
    is_final: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Offline(State):
    is_final: ClassVar[bool] = True
