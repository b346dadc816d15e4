"""Finds in a log what is pending and how far deliveries have come, batch by batch. Pure.

The same for every reader of the log: an announcement counts only with the batch that it names right behind it, of the same
leader epoch. (What an owner writes after a takeover has another epoch, so it completes no announcement of a former owner.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from bmq.log.timers.announcements import Announcement, Delivery, Held, NamedBatch, Position, parse_announcement
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import BatchHeader


class Announced(NamedTuple):
    """An announcement that counts, its offset and that of the batch behind it."""

    announcement: Announcement
    hold_offset: int
    base_offset: int


class OtherReplay(Protocol):
    """Finds announcements of another kind, which make records pending too."""

    def see(self, data: Buffer, place: int, header: BatchHeader) -> Iterable[Pending]:
        """As Replay.see: what has become pending."""

    def drop_delivered(self, position: Position) -> None:
        """As Replay.drop_delivered."""


class PairFinder:
    """Finds announcements that count."""

    def __init__(self) -> None:
        self._announced: tuple[Announcement, BatchHeader] | None = None

    def see(self, data: Buffer, place: int, header: BatchHeader) -> Announced | None:
        """The next batch of the log, whose checksum was compared; what it makes count. Raises CorruptRecords."""
        found: Announced | None = None
        announced, self._announced = self._announced, None
        if announced is not None:
            announcement, before = announced
            if (
                header.base_offset == before.end_offset
                and header.leader_epoch == before.leader_epoch
                and NamedBatch.of(header) == announcement.behind
            ):
                found = Announced(announcement, before.base_offset, header.base_offset)
        if header.is_control and not header.has_producer_id:
            announcement_here = parse_announcement(data, place)
            if announcement_here is not None:
                self._announced = announcement_here, header
        return found


class Replay:
    """`pending`: in the order of the log, also what was delivered or cancelled since; `position`: the last one.

    `cancelled`: what cancellations name, and where each is held. A cancellation is behind the hold of what it cancels, which
    may be in a run. What is held below `from_offset` is delivered or in a run, and does not count: the log is read from below it
    only for `other`. `kept`: as `pending`, what that finds.
    """

    def __init__(self, position: Position, other: OtherReplay | None = None, from_offset: int = 0) -> None:
        self.position = position
        self.pending: list[Pending] = []
        self.kept: list[Pending] = []
        self.cancelled: dict[Position, int] = {}
        self._other = other
        self._from_offset = from_offset
        self._pairs = PairFinder()

    def see(self, data: Buffer, place: int, header: BatchHeader) -> None:
        """The next batch of the log, whose checksum was compared. Raises CorruptRecords."""
        found = self._pairs.see(data, place, header)
        if found is not None:
            self._count(*found)
        if self._other is not None:
            self.kept.extend(self._other.see(data, place, header))

    def drop_delivered(self) -> None:
        """Forget what is not above the position, or cancelled; for a replay of many of these, now and then."""
        cancelled = self.cancelled
        waiting = [record for record in self.pending if record.position > self.position]
        self.pending = [record for record in waiting if record.position not in cancelled]
        found = {record.position for record in waiting if record.position in cancelled} if cancelled else set()
        self.cancelled = {
            target: hold_offset
            for target, hold_offset in cancelled.items()
            if target > self.position and target not in found
        }
        self.kept = [record for record in self.kept if record.position > self.position]
        if self._other is not None:
            self._other.drop_delivered(self.position)

    def _count(self, announcement: Announcement, hold_offset: int, base_offset: int) -> None:
        match announcement:
            case Held() if hold_offset < self._from_offset:
                pass
            case Held(entries=entries, cancels=cancels):
                for cancel in cancels:
                    self.cancelled.setdefault(cancel.target, hold_offset)
                self.pending.extend(
                    Pending(entry.due_ms, base_offset + entry.offset_delta, hold_offset) for entry in entries
                )
            case Delivery(after=after):
                # The position that the replay began with may be a later one than that of its first batches.
                self.position = max(self.position, after)
