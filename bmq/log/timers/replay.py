"""Finds a log's pending records and the position of deliveries, batch by batch. Pure.

For every reader of the log, an announcement is valid only if the batch that it names comes right behind it, with the same leader
epoch. (An owner after a takeover writes with another epoch, so its batches complete no announcement of a former owner.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from bmq.log.timers.announcements import Announcement, Delivery, Held, NamedBatch, Position, parse_announcement
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import BatchHeader


class ValidAnnouncement(NamedTuple):
    """A valid announcement, its offset, and the base offset of the batch behind it."""

    announcement: Announcement
    hold_offset: int
    base_offset: int


class HeldRecordReplay(Protocol):
    """Finds announcements of another kind (half messages), which make records pending too."""

    def add_batch(self, data: Buffer, place: int, header: BatchHeader) -> Iterable[Pending]:
        """Take in the next batch of the log; the records that it makes pending. Raises CorruptRecords."""

    def drop_delivered(self, position: Position) -> None:
        """Forget records at or below `position`; they are delivered."""


class AnnouncementFinder:
    """Finds valid announcements."""

    def __init__(self) -> None:
        self._announced: tuple[Announcement, BatchHeader] | None = None

    def add_batch(self, data: Buffer, place: int, header: BatchHeader) -> ValidAnnouncement | None:
        """Take in the next batch of the log; the announcement that it makes valid, or None. Raises CorruptRecords.

        The batch lies at `place` in `data`. The caller has compared its checksum.
        """
        found: ValidAnnouncement | None = None
        announced, self._announced = self._announced, None
        if announced is not None:
            announcement, before = announced
            if (
                header.base_offset == before.end_offset
                and header.leader_epoch == before.leader_epoch
                and NamedBatch.of(header) == announcement.behind
            ):
                found = ValidAnnouncement(announcement, before.base_offset, header.base_offset)
        if header.is_control and not header.has_producer_id:
            announcement_here = parse_announcement(data, place)
            if announcement_here is not None:
                self._announced = announcement_here, header
        return found


class Replay:
    """What a replay has found so far.

    `pending`: held records in the order of the log, also those delivered or cancelled later in the log. `position`: the last
    delivery's. `cancelled`: records that cancellations name, each with the hold that has the cancellation; it comes behind the
    record's own hold, which may be in a run. Holds below `from_offset` are ignored, because they are delivered or in a run: there
    the log is read only for `half_messages`. `kept`: the records that `half_messages` finds. `size_bytes`: of all batches.
    """

    def __init__(self, position: Position, half_messages: HeldRecordReplay | None = None, from_offset: int = 0) -> None:
        self.position = position
        self.pending: list[Pending] = []
        self.kept: list[Pending] = []
        self.cancelled: dict[Position, int] = {}
        self.size_bytes = 0
        self._half_messages = half_messages
        self._from_offset = from_offset
        self._announcements = AnnouncementFinder()

    def add_batch(self, data: Buffer, place: int, header: BatchHeader) -> None:
        """Take in the next batch of the log, at `place` in `data`, whose checksum was compared. Raises CorruptRecords."""
        self.size_bytes += header.size_bytes
        found = self._announcements.add_batch(data, place, header)
        if found is not None:
            self._count(*found)
        if self._half_messages is not None:
            self.kept.extend(self._half_messages.add_batch(data, place, header))

    def drop_delivered(self) -> None:
        """Forget records that are delivered or cancelled. Call now and then, so that a long replay does not keep them all."""
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
        if self._half_messages is not None:
            self._half_messages.drop_delivered(self.position)

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
                # The replay's first deliveries may lie before the position that it began with.
                self.position = max(self.position, after)
