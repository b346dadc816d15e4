"""The half messages of one partition: which are undecided, which are decided, and which are on their way into the log. Pure.

It follows the log as DueOrder does: what is placed counts when it is durable, and is taken back when it is refused. A half
message leaves when its delivery is durable, when it was rolled back, or when its copy for those given up is written.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bmq.log.half.half_headers import AskedDecision, HalfRefused, Outcome
from bmq.log.timers.announcements import Position
from bmq.protocol.record_batch import CorruptRecords

FINISHED_MAX: Final = 10_000
"""Decided half messages that are remembered, so that a decision that is sent again is told from a wrong one."""
_WORDS: Final = {
    Outcome.COMMIT: "committed",
    Outcome.ROLLBACK: "rolled back",
    Outcome.GIVING_UP: "given up",
    Outcome.GIVEN_UP: "given up",
}


class Half(NamedTuple):
    """`offset`: that its producer was told. `hold_offset`: of the control batch that has it. `held_ms`: its owner's time."""

    offset: int
    hold_offset: int
    held_ms: int
    check_id: str


class Decided(NamedTuple):
    """`offset`: of the half message. `position`: of a committed one among the deliveries."""

    offset: int
    outcome: Outcome
    position: Position


class News(NamedTuple):
    """What has become durable."""

    halves: list[Half]
    decided: list[Decided]


@dataclass(slots=True)
class _Placed:
    start_offset: int
    end_offset: int
    halves: Sequence[Half]
    decided: Sequence[Decided]


class HalfOrder:
    """Of one partition, at its owner."""

    def __init__(self) -> None:
        self._halves: dict[int, Half] = {}  # in the order of the log
        self._outcomes: dict[int, Outcome] = {}  # durable, of those that have not left
        self._giving_up: dict[int, None] = {}
        self._deciding: dict[int, Outcome] = {}  # on their way
        self._committed: list[tuple[Position, int]] = []  # a heap
        self._by_position: dict[int, int] = {}  # offset of a delivery's position -> half message
        self._finished: OrderedDict[int, Outcome] = OrderedDict()
        self._placed: deque[_Placed] = deque()

    # --- what is there

    def __len__(self) -> int:
        """Half messages that have not left, or are on their way to be held."""
        return len(self._halves) + sum(len(one.halves) for one in self._placed)

    @property
    def undecided_count(self) -> int:
        return len(self._halves) - len(self._outcomes)

    def is_undecided(self, offset: int) -> bool:
        """Neither decided nor being decided."""
        return offset in self._halves and offset not in self._outcomes and offset not in self._deciding

    def is_deciding(self, offset: int) -> bool:
        """Its decision is on its way."""
        return offset in self._deciding

    def undecided(self, from_offset: int, count_max: int) -> list[Half]:
        """The first ones at or past this offset, in the order of the log."""
        found: list[Half] = []
        for offset, half in self._halves.items():
            if offset >= from_offset and self.is_undecided(offset):
                found.append(half)
                if len(found) == count_max:
                    break
        return found

    @property
    def given_up_count(self) -> int:
        """Of those whose end is not durable yet."""
        return len(self._giving_up)

    def given_up(self, count_max: int) -> list[Half]:
        """Nobody decides them any more, and their copies may not be written."""
        found: list[Half] = []
        for offset in self._giving_up:
            if offset not in self._deciding:
                found.append(self._halves[offset])
                if len(found) == count_max:
                    break
        return found

    def half(self, offset: int) -> Half | None:
        return self._halves.get(offset)

    def committed_at(self, position_offset: int) -> Half | None:
        """The half message whose delivery has this offset in its position; None: it is an ordinary delayed record."""
        offset = self._by_position.get(position_offset)
        return None if offset is None else self._halves[offset]

    def oldest_needed(self, high_watermark: int) -> int:
        """The log is needed from this offset on: no half message that has not left is held below it."""
        oldest = next(iter(self._halves.values()), None)
        needed = high_watermark if oldest is None else min(oldest.hold_offset, high_watermark)
        return min(needed, self._placed[0].start_offset) if self._placed else needed

    def check(self, asked: AskedDecision) -> bool:
        """Whether this decision changes something; False: it was made before. Raises HalfRefused."""
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

    # --- what happens

    def recover(
        self,
        halves: Iterable[Half],
        decided: Iterable[Decided],
        position: Position,
        finished: Iterable[Decided] = (),
    ) -> None:
        """What a replay found, in the order of the log; deliveries have come to `position`. Raises CorruptRecords.

        `finished`: decisions about half messages that have left.
        """
        for one in finished:
            self._remember(one.offset, one.outcome)
        for half in halves:
            self._halves[half.offset] = half
        for one in decided:
            if one.outcome is Outcome.COMMIT and one.position > position and one.offset not in self._halves:
                raise CorruptRecords(f"the half message {one.offset} is committed, and is not in the log")
            self._count(one)
        self.delivered(position)

    def place(self, halves: Sequence[Half], decided: Sequence[Decided], start_offset: int, end_offset: int) -> None:
        """Their announcement and the batch behind it, which ends there, were given their offsets."""
        for one in decided:
            self._deciding[one.offset] = one.outcome
        self._placed.append(_Placed(start_offset, end_offset, halves, decided))

    def synced(self, high_watermark: int) -> News | None:
        """Everything below is durable. None: nothing of half messages has become so."""
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
        """What was placed at or past this offset is not in the log. No high watermark has passed it."""
        placed = self._placed
        while placed and placed[-1].end_offset > end_offset:
            for decided in placed.pop().decided:
                self._deciding.pop(decided.offset, None)

    def delivered(self, position: Position) -> None:
        """Deliveries have durably come to here."""
        while self._committed and self._committed[0][0] <= position:
            at, offset = heapq.heappop(self._committed)
            del self._by_position[at.offset]
            self._leave(offset, Outcome.COMMIT)

    def _count(self, decided: Decided) -> None:
        offset, outcome = decided.offset, decided.outcome
        if offset not in self._halves:
            self._remember(offset, outcome)  # held below the start of the replay: it has left
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
