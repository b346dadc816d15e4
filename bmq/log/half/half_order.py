"""The half messages of one partition: which are undecided, which are decided, and which are in flight into the log. Pure.

It follows the log as DueOrder does: half messages and decisions are placed when they get offsets, take effect when they are
durable, and are undone when they are refused. A half message is finished when its delivery is durable, when it is rolled back,
or when the copy of a message given up is written.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bmq.dataclass import dataclass
from bmq.log.half.half_headers import AskedDecision, HalfRefused, Outcome
from bmq.log.timers.announcements import Position
from bmq.protocol.record_batch import CorruptRecords

FINISHED_MAX: Final = 10_000
"""How many finished half messages are remembered, to tell a repeated decision from a contrary one."""
_WORDS: Final = {
    Outcome.COMMIT: "committed",
    Outcome.ROLLBACK: "rolled back",
    Outcome.GIVING_UP: "given up",
    Outcome.GIVEN_UP: "given up",
}


class HalfMessage(NamedTuple):
    """A half message. `offset`: the one in the produce response. `hold_offset`: offset of the control batch that holds it.

    `held_ms`: the owner's clock when it was held.
    """

    offset: int
    hold_offset: int
    held_ms: int
    check_id: str


class HalfDecision(NamedTuple):
    """A decision about the half message `offset`. `position`: its place in the order of deliveries, if it was committed."""

    offset: int
    outcome: Outcome
    position: Position


class News(NamedTuple):
    """Half messages and decisions that have just become durable."""

    halves: list[HalfMessage]
    decided: list[HalfDecision]


@dataclass(slots=True)
class _Placed:
    start_offset: int
    end_offset: int
    halves: Sequence[HalfMessage]
    decided: Sequence[HalfDecision]


class HalfOrder:
    """The half messages of one partition at its owner."""

    def __init__(self) -> None:
        self._halves: dict[int, HalfMessage] = {}  # in the order of the log
        self._outcomes: dict[int, Outcome] = {}  # durable decisions about messages that are not finished
        self._giving_up: dict[int, None] = {}
        self._deciding: dict[int, Outcome] = {}  # decisions in flight
        self._committed: list[tuple[Position, int]] = []  # a heap, by place in the order of deliveries
        self._by_position: dict[int, int] = {}  # offset in a delivery's position -> offset of the half message
        self._finished: OrderedDict[int, Outcome] = OrderedDict()
        self._placed: deque[_Placed] = deque()

    # --- the present state

    def __len__(self) -> int:
        """How many half messages are not finished, or in flight to be held."""
        return len(self._halves) + sum(len(one.halves) for one in self._placed)

    @property
    def undecided_count(self) -> int:
        return len(self._halves) - len(self._outcomes)

    def is_undecided(self, offset: int) -> bool:
        """Whether the half message is neither decided nor has a decision in flight."""
        return offset in self._halves and offset not in self._outcomes and offset not in self._deciding

    def is_deciding(self, offset: int) -> bool:
        """Whether a decision about it is in flight."""
        return offset in self._deciding

    def undecided(self, from_offset: int, count_max: int) -> list[HalfMessage]:
        """The first `count_max` undecided half messages at or past `from_offset`, in the order of the log."""
        found: list[HalfMessage] = []
        for offset, half in self._halves.items():
            if offset >= from_offset and self.is_undecided(offset):
                found.append(half)
                if len(found) == count_max:
                    break
        return found

    @property
    def given_up_count(self) -> int:
        """How many half messages are GIVING_UP: being copied, without a durable GIVEN_UP."""
        return len(self._giving_up)

    def given_up(self, count_max: int) -> list[HalfMessage]:
        """The first `count_max` half messages that are GIVING_UP and have no decision in flight; their copies may be missing."""
        found: list[HalfMessage] = []
        for offset in self._giving_up:
            if offset not in self._deciding:
                found.append(self._halves[offset])
                if len(found) == count_max:
                    break
        return found

    def half(self, offset: int) -> HalfMessage | None:
        return self._halves.get(offset)

    def committed_at(self, position_offset: int) -> HalfMessage | None:
        """The committed half message with this offset in its position; None if that place is an ordinary delayed record's."""
        offset = self._by_position.get(position_offset)
        return None if offset is None else self._halves[offset]

    def oldest_needed(self, high_watermark: int) -> int:
        """The offset from which the log is needed: all half messages that are held below it are finished."""
        oldest = next(iter(self._halves.values()), None)
        needed = high_watermark if oldest is None else min(oldest.hold_offset, high_watermark)
        return min(needed, self._placed[0].start_offset) if self._placed else needed

    def check(self, asked: AskedDecision) -> bool:
        """Whether this decision changes something; False if it was made before. Raises HalfRefused if it cannot be made."""
        offset = asked.offset
        known = self._deciding.get(offset, self._outcomes.get(offset, self._finished.get(offset)))
        if known is None:
            if offset in self._halves:
                return True
            raise HalfRefused(f"no half message with offset {offset} waits in this partition")
        if known is asked.outcome:
            return False
        if known is Outcome.GIVING_UP and asked.outcome is Outcome.GIVEN_UP and offset not in self._deciding:
            return True
        raise HalfRefused(f"the half message {offset} was {_WORDS[known]} before")

    # --- events

    def recover(
        self,
        halves: Iterable[HalfMessage],
        decided: Iterable[HalfDecision],
        position: Position,
        finished: Iterable[HalfDecision] = (),
    ) -> None:
        """Begin with what a replay has found, in the order of the log; deliveries have come to `position`. Raises CorruptRecords.

        `finished`: the last decisions about half messages that are finished.
        """
        for one in finished:
            self._remember(one.offset, one.outcome)
        for half in halves:
            self._halves[half.offset] = half
        for one in decided:
            if one.outcome is Outcome.COMMIT and one.position > position and one.offset not in self._halves:
                raise CorruptRecords(f"the half message {one.offset} is committed, but is not in the log")
            self._count(one)
        self.delivered(position)

    def place(
        self, halves: Sequence[HalfMessage], decided: Sequence[HalfDecision], start_offset: int, end_offset: int
    ) -> None:
        """Note half messages and decisions in flight, from the announcement at `start_offset` to the batch's `end_offset`."""
        for one in decided:
            self._deciding[one.offset] = one.outcome
        self._placed.append(_Placed(start_offset, end_offset, halves, decided))

    def synced(self, high_watermark: int) -> News | None:
        """All offsets below `high_watermark` are durable. Returns what takes effect by that, or None."""
        placed = self._placed
        if not placed or placed[0].end_offset > high_watermark:
            return None
        news = News([], [])
        while placed and placed[0].end_offset <= high_watermark:
            one = placed.popleft()
            for half in one.halves:
                self._halves[half.offset] = half
            for decided in one.decided:
                if self._deciding.get(decided.offset) is decided.outcome:
                    del self._deciding[decided.offset]
                self._count(decided)
            news.halves.extend(one.halves)
            news.decided.extend(one.decided)
        return news

    def rollback(self, end_offset: int) -> None:
        """Undo appends that end past `end_offset`: they are not in the log. No high watermark has passed them."""
        placed = self._placed
        while placed and placed[-1].end_offset > end_offset:
            for decided in placed.pop().decided:
                self._deciding.pop(decided.offset, None)

    def delivered(self, position: Position) -> None:
        """Finish the committed half messages up to `position`: they are delivered durably."""
        while self._committed and self._committed[0][0] <= position:
            at, offset = heapq.heappop(self._committed)
            del self._by_position[at.offset]
            self._leave(offset, Outcome.COMMIT)

    def _count(self, decided: HalfDecision) -> None:
        offset, outcome = decided.offset, decided.outcome
        if offset not in self._halves:
            self._remember(offset, outcome)  # it was held below the replay's start, so it is finished
        elif outcome is Outcome.COMMIT:
            self._outcomes[offset] = outcome
            heapq.heappush(self._committed, (decided.position, offset))
            self._by_position[decided.position.offset] = offset
        elif outcome is Outcome.GIVING_UP:
            self._outcomes[offset] = outcome
            self._giving_up[offset] = None
        else:
            self._leave(offset, outcome)

    def _leave(self, offset: int, outcome: Outcome) -> None:
        del self._halves[offset]
        self._outcomes.pop(offset, None)
        self._giving_up.pop(offset, None)
        self._remember(offset, outcome)

    def _remember(self, offset: int, outcome: Outcome) -> None:
        self._finished[offset] = outcome
        if len(self._finished) > FINISHED_MAX:
            self._finished.popitem(last=False)
