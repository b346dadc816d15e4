"""A spool: numbered records in files of bounded size, appended by one thread and read, released and dropped by another.

Files are named by the number of their first record and are in order. A write(2) is done before a record counts as
accepted, so the end of this process loses nothing; `is_synced` adds fsync(2) for the end of the machine. After a start a
cut tail is dropped and counted, and what is damaged or foreign is set aside under another name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from threading import Lock
from typing import Final

from bmq.databus.record_fields import BadFields
from bmq.databus.spool.errors import SpoolUnusable, SpoolWriteFailed
from bmq.databus.spool.files import PRIVATE, read_small, replace_file, sync_directory, write_all
from bmq.databus.spool.frame import (
    FILE_HEADER_BYTES,
    decoded_frame,
    file_header,
    first_of_file,
    scan,
    whole_frames,
)
from bmq.dataclass import dataclass

SUFFIX: Final = ".spool"
_POSITION: Final = "position"
_POSITION_BYTES_MAX: Final = 1_000
_EMPTY_BYTES_MAX: Final = 1 << 20
"""A file of this size whose records are all produced is deleted although it is the newest."""


@dataclass(slots=True)
class Segment:
    """`counts`: records by channel; None: the file is of a former process, and they are counted when it is dropped."""

    first: int
    path: Path
    size: int
    counts: dict[str, int] | None


@dataclass(slots=True)
class SpoolBudget:
    """Bytes of all spools of an agent together."""

    bytes_max: int
    used: int = 0
    _mutex: Lock = field(default_factory=Lock, repr=False)

    def has_room(self, length: int) -> bool:
        return self.used + length <= self.bytes_max

    def add(self, length: int) -> None:
        """A negative length gives bytes back."""
        with self._mutex:
            self.used += length


@dataclass(slots=True)
class Recovery:
    """What a start found. `findings`: one sentence each, for the log. `unreadable`: records that were left out since."""

    cut_bytes: int = 0
    set_aside: int = 0
    unreadable: int = 0
    findings: list[str] = field(default_factory=list)


class Spool:
    """Raises SpoolUnusable. All methods may be called from any thread."""

    def __init__(self, directory: Path, budget: SpoolBudget, *, segment_bytes: int, is_synced: bool = False) -> None:
        self.directory = directory
        self.recovery = Recovery()
        self.appended_bytes = 0
        """Since the start."""
        self.last = -1
        """Number of the last record that was appended, also before the start; -1: none is known."""
        self._budget = budget
        self._segment_bytes = segment_bytes
        self.is_synced = is_synced
        self._mutex = Lock()
        self._descriptor = -1
        self._segments: list[Segment] = []
        self._sync_asked_to = -1
        """Number of the last record that a `sync` was asked for."""
        self._sync_failed_to = -1
        """The last record that may be lost, by a failed fsync(2)."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._recover()
        except OSError as error:
            raise SpoolUnusable(f"the spool {directory} cannot be used: {error.strerror}") from None
        self.position = self._kept_position()
        """Records below it are produced, as far as is known on disk."""
        self.last = max(self.last, self.position - 1)

    # --- writing

    def append(self, frames: bytes, first: int, last: int, counts: Mapping[str, int]) -> None:
        """Whole frames with rising numbers. `counts`: of their records, by channel. Raises SpoolWriteFailed."""
        with self._mutex:
            if self._descriptor < 0 or self._segments[-1].size + len(frames) > self._segment_bytes:
                self._roll(first)
            segment = self._segments[-1]
            try:
                write_all(self._descriptor, frames)
            except OSError as error:
                self._take_back(segment)
                raise SpoolWriteFailed(f"the spool {self.directory} cannot be written: {error.strerror}") from None
            segment.size += len(frames)
            if segment.counts is not None:
                for channel, count in counts.items():
                    segment.counts[channel] = segment.counts.get(channel, 0) + count
            self.last = last
            self.appended_bytes += len(frames)
            self._budget.add(len(frames))

    def sync(self) -> None:
        """Make all appended records durable. Raises SpoolWriteFailed, also for a file that was ended since the last call.

        The kernel tells of a failure once, so that a failed file is ended and counts for all records in it.
        """
        reason = "its file was ended"
        with self._mutex:
            asked_before, self._sync_asked_to = self._sync_asked_to, self.last
            try:
                descriptor = os.dup(self._descriptor) if self._descriptor >= 0 else -1
            except OSError as error:
                raise SpoolWriteFailed(f"the spool {self.directory} cannot be synced: {error.strerror}") from None
        if descriptor >= 0:
            try:
                os.fsync(descriptor)
            except OSError as error:
                reason = error.strerror or str(error)
                self._end_unsynced()
            finally:
                os.close(descriptor)
        with self._mutex:
            if self._sync_failed_to > asked_before:
                raise SpoolWriteFailed(f"the spool {self.directory} cannot be synced: {reason}")

    def close(self) -> None:
        """Close the file; its records stay."""
        with self._mutex:
            self._close_file()

    # --- reading

    @property
    def bytes_used(self) -> int:
        with self._mutex:
            return sum(segment.size for segment in self._segments)

    def segment_from(self, number: int) -> Segment | None:
        """The file that has the first record from `number` on; None: there are no such records."""
        with self._mutex:
            if number > self.last:
                return None
            for segment, following in zip(self._segments, self._segments[1:], strict=False):
                if following.first > number:
                    return _copy_of(segment)
            return _copy_of(self._segments[-1]) if self._segments else None

    def segment_after(self, first: int) -> Segment | None:
        """The file behind the one that begins with `first`."""
        with self._mutex:
            return next((_copy_of(segment) for segment in self._segments if segment.first > first), None)

    def abandon(self, first: int, reason: str) -> str:
        """Keep a copy of a damaged file under another name, and end it. Returns a sentence for the log."""
        with self._mutex:
            segment = next((one for one in self._segments if one.first == first), None)
            if segment is None:
                return f"a damaged file of the spool {self.directory} was dropped"
            if segment is self._segments[-1]:
                self._close_file()
            self.recovery.set_aside += 1
            kept = _set_aside(segment.path, ".damaged", is_moved=False)
            return f"{segment.path} is damaged: {reason}. Its good records are produced, and {kept.name} keeps it"

    # --- making room

    def release(self, position: int) -> None:
        """Records below `position` are produced: write that down, and delete files that have no others."""
        with self._mutex:
            self.position = max(self.position, position)
            gone = self._taken_below(self.position)
        replace_file(self.directory / _POSITION, json.dumps({"position": self.position}).encode(), is_synced=False)
        self._delete(gone)

    def drop_oldest(self, busy_from: int, busy_to: int) -> dict[str, int] | None:
        """Delete the oldest file that has no record from `busy_from` to `busy_to`, which a transaction may have.

        Returns how many records of each channel it had; None: there is no such file.
        """
        with self._mutex:
            for place, segment in enumerate(self._segments):
                is_newest = place + 1 == len(self._segments)
                behind = self.last + 1 if is_newest else self._segments[place + 1].first
                if segment.first >= busy_to or behind <= busy_from:
                    if is_newest:
                        self._close_file()
                    del self._segments[place]
                    break
            else:
                return None
        try:
            counts = counted(segment.path, 0) if segment.counts is None else segment.counts
        except OSError:
            counts = {}  # deleted by hand
        self._delete([segment])
        return counts

    # --- parts

    def _recover(self) -> None:
        for path in sorted(self.directory.glob(f"*{SUFFIX}")):
            with path.open("rb") as file:
                first = first_of_file(file.read(FILE_HEADER_BYTES))
            size = path.stat().st_size
            if size < FILE_HEADER_BYTES:  # it was being made
                self.recovery.cut_bytes += size
                path.unlink()
            elif first is None or path.name != _name_of(first):
                self.recovery.set_aside += 1
                kept = _set_aside(path, ".foreign", is_moved=True)
                self.recovery.findings.append(
                    f"{path} is not a file of this spool, or of a later release: it is set aside as {kept.name}"
                )
            else:
                self._segments.append(Segment(first, path, size, None))
        while self._segments and not self._recover_newest(self._segments[-1]):
            self._segments.pop()
        self._budget.add(sum(segment.size for segment in self._segments))

    def _recover_newest(self, segment: Segment) -> bool:
        """Only the newest file can have a cut tail. False: it had no record and is gone."""
        data = segment.path.read_bytes()
        found = scan(data)
        if found.is_damaged:
            self.recovery.set_aside += 1
            kept = _set_aside(segment.path, ".damaged", is_moved=True)
            replace_file(segment.path, data[: found.end], is_synced=self.is_synced)
            segment.size = found.end
            self.recovery.findings.append(
                f"{segment.path} is damaged at byte {found.end}: the {found.count} records before are produced,"
                f" and {kept.name} keeps it"
            )
        elif found.is_cut:
            self.recovery.cut_bytes += segment.size - found.end
            self.recovery.findings.append(
                f"{segment.path} ended in {segment.size - found.end} bytes of a record that was not accepted yet: dropped"
            )
        if not found.count:
            segment.path.unlink()
            return False
        if found.end != segment.size:
            os.truncate(segment.path, found.end)
            segment.size = found.end
        self.last = found.last
        return True

    def _kept_position(self) -> int:
        try:
            content = read_small(self.directory / _POSITION, _POSITION_BYTES_MAX)
            position = 0 if content is None else json.loads(content)["position"]
            if not isinstance(position, int) or position < 0:
                raise ValueError("the position is no number")
        except (OSError, ValueError, KeyError, TypeError):
            self.recovery.findings.append(f"{self.directory / _POSITION} cannot be read: the cluster's position counts")
            return 0
        return position

    def _roll(self, first: int) -> None:
        self._close_file()
        path = self.directory / _name_of(first)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, PRIVATE)
        except OSError as error:
            raise SpoolWriteFailed(f"the spool {self.directory} cannot be written: {error.strerror}") from None
        try:
            write_all(descriptor, file_header(first))
            if self.is_synced:
                sync_directory(self.directory)
        except OSError as error:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise SpoolWriteFailed(f"the spool {self.directory} cannot be written: {error.strerror}") from None
        self._descriptor = descriptor
        self._segments.append(Segment(first, path, FILE_HEADER_BYTES, {}))
        self._budget.add(FILE_HEADER_BYTES)

    def _take_back(self, segment: Segment) -> None:
        """The part of a write that was done. Without success the file is ended: readers stop at its last good record."""
        try:
            os.ftruncate(self._descriptor, segment.size)
        except OSError:
            self._close_file()
        if segment.size == FILE_HEADER_BYTES:
            # The number of its first record may be given again.
            self._close_file()
            self._segments.pop()
            self._budget.add(-segment.size)
            segment.path.unlink(missing_ok=True)

    def _close_file(self) -> None:
        """A failed fsync(2) is told by the next `sync`."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                if self.is_synced:
                    os.fsync(descriptor)
            except OSError:
                self._sync_failed_to = self.last
            finally:
                os.close(descriptor)

    def _end_unsynced(self) -> None:
        """A file whose fsync(2) failed may have a hole, and what follows one cannot be read: nothing is put behind it."""
        with self._mutex:
            self._sync_failed_to = self.last
            if self._descriptor >= 0:
                descriptor, self._descriptor = self._descriptor, -1
                os.close(descriptor)

    def _taken_below(self, position: int) -> list[Segment]:
        gone = []
        while len(self._segments) > 1 and self._segments[1].first <= position:
            gone.append(self._segments.pop(0))
        if self._segments and position > self.last:
            newest = self._segments[0]
            if self._descriptor < 0 or newest.size > _EMPTY_BYTES_MAX:
                self._close_file()
                gone.append(self._segments.pop())
        return gone

    def _delete(self, gone: list[Segment]) -> None:
        for segment in gone:
            segment.path.unlink(missing_ok=True)
        self._budget.add(-sum(segment.size for segment in gone))


def counted(path: Path, from_number: int) -> dict[str, int]:
    """Records of a file by channel, from a number on."""
    data = path.read_bytes()
    counts: dict[str, int] = {}
    for start, end in whole_frames(data, FILE_HEADER_BYTES, len(data)):
        try:
            record = decoded_frame(data, start, end)
        except BadFields:
            continue
        if record.number >= from_number:
            counts[record.channel] = counts.get(record.channel, 0) + 1
    return counts


def _name_of(first: int) -> str:
    return f"{first:020}{SUFFIX}"


def _copy_of(segment: Segment) -> Segment:
    return Segment(segment.first, segment.path, segment.size, None)


def _set_aside(path: Path, suffix: str, *, is_moved: bool) -> Path:
    kept = path.with_suffix(suffix)
    if kept.exists():  # of an earlier start
        number = 1
        while (kept := path.with_suffix(f"{suffix}.{number}")).exists():
            number += 1
    if is_moved:
        path.rename(kept)
    else:
        kept.hardlink_to(path)
    return kept
