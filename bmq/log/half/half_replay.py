"""Finds half messages and decisions in a log, batch by batch, while log/timers/replay finds delayed records. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from bmq.dataclass import dataclass
from bmq.log.half.half_announcement import HalfAnnouncement, parse_half
from bmq.log.half.half_headers import Outcome
from bmq.log.half.half_order import FINISHED_MAX, HalfDecision, HalfMessage
from bmq.log.timers.announcements import NamedBatch, Position
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.compression import Buffer
from bmq.protocol.control_batch import OwnControlType, own_control_key
from bmq.protocol.record_batch import HEADER_BYTES, BatchHeader

_NUMBER_FIELD: Final = own_control_key(OwnControlType.HALF_MESSAGES)[2:]
"""The end of the key of an announcement's control record; in front of it is a version, which was 0 in earlier releases."""
_KEY_WITHIN_BYTES: Final = 32


@dataclass(slots=True)
class _Waiting:
    """An announcement whose batch was not seen yet. `at`: its own header. `next_offset`: where the next batch has to begin."""

    announcement: HalfAnnouncement
    at: BatchHeader
    next_offset: int

    @property
    def batch_offset(self) -> int:
        return self.at.base_offset + self.announcement.distance


class HalfReplay:
    """Implements replay.HeldRecordReplay.

    `halves`, `decided`: in the order of the log, without finished half messages (see HalfOrder). `finished`: the last decisions
    about finished ones, oldest first.
    """

    def __init__(self) -> None:
        self._halves: dict[int, HalfMessage] = {}
        self._decided: dict[int, HalfDecision] = {}
        self._finished: OrderedDict[int, HalfDecision] = OrderedDict()
        self._waiting: _Waiting | None = None

    @property
    def halves(self) -> Iterable[HalfMessage]:
        return self._halves.values()

    @property
    def decided(self) -> Iterable[HalfDecision]:
        return self._decided.values()

    @property
    def finished(self) -> Iterable[HalfDecision]:
        return self._finished.values()

    def add_batch(self, data: Buffer, place: int, header: BatchHeader) -> Iterable[Pending]:
        """Take in the next batch of the log, at `place` in `data`; the committed half messages that it makes pending.

        Raises CorruptRecords.
        """
        pending: Iterable[Pending] = ()
        waiting, self._waiting = self._waiting, None
        is_announcement = header.is_control and not header.has_producer_id
        if (
            waiting is not None
            and header.base_offset == waiting.next_offset
            and header.leader_epoch == waiting.at.leader_epoch
        ):
            if header.base_offset == waiting.batch_offset:
                if NamedBatch.of(header) == waiting.announcement.behind:
                    pending = self._count(waiting.announcement, waiting.at.base_offset, header.base_offset)
            elif is_announcement and header.end_offset <= waiting.batch_offset:
                waiting.next_offset = header.end_offset
                self._waiting = waiting
        if is_announcement and _NUMBER_FIELD in bytes(data[place + HEADER_BYTES :][:_KEY_WITHIN_BYTES]):
            announcement = parse_half(data, place)
            if announcement is not None:
                self._waiting = _Waiting(announcement, header, header.end_offset)
        return pending

    def drop_delivered(self, position: Position) -> None:
        """Move half messages whose delivery is at or below `position` to `finished`."""
        committed = [one for one in self._decided.values() if one.outcome is Outcome.COMMIT]
        for one in committed:
            if one.position <= position:
                del self._decided[one.offset]
                self._halves.pop(one.offset, None)
                self._finish(one)

    def _count(self, announcement: HalfAnnouncement, announced_at: int, base_offset: int) -> list[Pending]:
        pending: list[Pending] = []
        for half in halves_of(announcement, announced_at, base_offset):
            self._halves[half.offset] = half
        for decided in decided_of(announcement, base_offset):
            if decided.outcome in (Outcome.ROLLBACK, Outcome.GIVEN_UP):
                self._halves.pop(decided.offset, None)
                self._decided.pop(decided.offset, None)
                self._finish(decided)
                continue
            self._decided[decided.offset] = decided
            if decided.outcome is Outcome.COMMIT:
                pending.append(Pending(*decided.position, announced_at))
        return pending

    def _finish(self, decided: HalfDecision) -> None:
        self._finished[decided.offset] = decided
        if len(self._finished) > FINISHED_MAX:
            self._finished.popitem(last=False)


def halves_of(announcement: HalfAnnouncement, announced_at: int, base_offset: int) -> list[HalfMessage]:
    """The announcement's half messages. `announced_at`: its own offset; `base_offset`: that of the batch behind."""
    return [
        HalfMessage(base_offset + entry.offset_delta, announced_at, announcement.now_ms, entry.check_id)
        for entry in announcement.halves
    ]


def decided_of(announcement: HalfAnnouncement, base_offset: int) -> list[HalfDecision]:
    """The announcement's decisions. `base_offset`: that of the batch behind."""
    return [
        HalfDecision(one.offset, one.outcome, Position(one.due_ms, base_offset + one.offset_delta))
        for one in announcement.decisions
    ]
