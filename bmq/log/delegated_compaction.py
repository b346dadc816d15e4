"""The plan of a delegated compaction, and the checks of its files: a job outside of the servers compacts for the owner. Pure.

The owner hands out a plan and a directory inside its own (`delegated.<reservation>`), and does not compact the partition itself
meanwhile. The job writes a file of cleaned batches to that directory for each group of the plan, and then a description of the
file. The owner checks all files, and swaps them in with one manifest. A takeover renames the owner's directory, so files that a
job writes after it are never used.

    00000003.<attempt>.cleaned   the batches of group 3; a second attempt has another name (rule 21)
    00000003.<attempt>.json      its description, written last
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from bmq.dataclass import dataclass
from bmq.log.compaction import CleaningPlan
from bmq.log.json_adapter import TypeAdapter, ValidationError
from bmq.log.manifest import Extent
from bmq.log.store import Buffer, FileStatus
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

DESCRIPTION_BYTES_MAX: Final = 64 * 1024 * 1024
TIME_LIMIT_MS_MAX: Final = 24 * 3_600_000
_DESCRIPTION: Final = re.compile(r"(\d{8})\.[0-9a-f]{1,32}\.json", re.ASCII)


class DelegationRefused(BmqError):
    """The owner does not hand out its compaction now, or refuses the job's files. The log is unchanged."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_REQUEST


@dataclass(frozen=True, slots=True)
class DelegatedPlan:
    """A job's reservation, and the plan that it carries out. `directory`: for its files; empty if nothing was reserved.

    `replicas`: on how many nodes each file should lie; 0 for the job's own default.

    The reservation ends at `deadline_ms`. Until then the segments to be replaced may be read, so the delete horizons of
    `cleaning` are later by that much than those of a compaction that begins now.
    """

    reservation: str
    job: str
    leader_epoch: int
    deadline_ms: int
    directory: str
    cleaning: CleaningPlan
    replicas: int = 0

    def encode(self) -> bytes:
        return _PLAN.dump_json(self)

    @classmethod
    def decode(cls, data: Buffer) -> DelegatedPlan:
        """Decode a plan's JSON. Raises ValueError."""
        return _PLAN.validate_json(bytes(data))


@dataclass(frozen=True, slots=True)
class CleanedFile:
    """A job's description of one file of cleaned batches. `crc`: CRC-32C of the whole file.

    `record_count`: how many of `records_read` records are left. `max_timestamp_ms`: the greatest of batches with records; -1
    without one. `dropped_aborts`: as in CleanedGroup.
    """

    group: int
    name: str
    file_id: int
    length_bytes: int
    crc: int
    base_offset: int
    end_offset: int
    batch_count: int
    record_count: int
    records_read: int
    max_timestamp_ms: int
    dropped_aborts: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """The description as JSON. Raises DelegationRefused if it is longer than owners read."""
        return readable(_FILE.dump_json(self), f"the description of group {self.group}")

    @classmethod
    def decode(cls, data: Buffer) -> CleanedFile:
        """Decode a description's JSON. Raises DelegationRefused."""
        try:
            return _FILE.validate_json(bytes(data))
        except ValidationError as error:
            raise DelegationRefused(f"a description of a cleaned file has {error.error_count()} errors") from error


@dataclass(frozen=True, slots=True)
class DelegationEnd:
    """The result of a delegated compaction; fields as in CleaningEnd."""

    first_dirty_offset: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_kept: int


_PLAN: Final = TypeAdapter(DelegatedPlan)
_FILE: Final = TypeAdapter(CleanedFile)


def readable(data: bytes, what: str) -> bytes:
    """Return `data` if it is not longer than DESCRIPTION_BYTES_MAX. Raises DelegationRefused."""
    if len(data) > DESCRIPTION_BYTES_MAX:
        raise DelegationRefused(f"{what} has {len(data)} bytes, {DESCRIPTION_BYTES_MAX} are allowed")
    return data


def cleaned_name(group: int, attempt: str) -> str:
    return f"{group:08d}.{attempt}.cleaned"


def description_name(group: int, attempt: str) -> str:
    return f"{group:08d}.{attempt}.json"


def descriptions(entries: Iterable[FileStatus]) -> dict[int, str]:
    """For each group, the name of the description to use: the first complete one by name."""
    found: dict[int, str] = {}
    for entry in sorted(entries, key=lambda each: each.name):
        match = _DESCRIPTION.fullmatch(entry.name)
        if match and not entry.is_directory and not entry.is_open and entry.length_bytes:
            found.setdefault(int(match[1]), entry.name)
    return found


def check_reservation(
    plan: DelegatedPlan | None, reservation: str, leader_epoch: int, *, own_epoch: int, now_ms: int
) -> DelegatedPlan:
    """The plan, if this reservation is still valid. Raises DelegationRefused."""
    if leader_epoch != own_epoch:
        raise DelegationRefused(
            f"the plan is of leader epoch {leader_epoch}, and the partition has an owner of epoch {own_epoch}"
        )
    if plan is None or plan.reservation != reservation:
        raise DelegationRefused(f"the partition is not reserved for {reservation!r}, or not any more")
    if now_ms > plan.deadline_ms:
        raise DelegationRefused(f"the reservation {reservation} ended {now_ms - plan.deadline_ms} ms ago")
    return plan


def check_files(plan: CleaningPlan, files: Sequence[CleanedFile]) -> None:
    """Check that there is one file for each group of the plan, with exactly its offsets. Raises DelegationRefused."""
    numbers = [file.group for file in files]
    if numbers != list(range(len(plan.groups))):
        missing = sorted(set(range(len(plan.groups))) - set(numbers))
        raise DelegationRefused(
            f"{len(plan.groups)} groups of segments were planned, and there are files for {len(numbers)}"
            + (f"; group {missing[0]} is missing" if missing else "")
        )
    for file, group in zip(files, plan.groups, strict=True):
        base_offset, end_offset = group[0].base_offset, group[-1].end_offset
        if (file.base_offset, file.end_offset) != (base_offset, end_offset):
            raise DelegationRefused(
                f"{file.name} has offsets [{file.base_offset}, {file.end_offset}) for [{base_offset}, {end_offset})"
            )
        if "/" in file.name or not file.length_bytes:
            raise DelegationRefused(f"{file.name!r} of {file.length_bytes} bytes is no file of cleaned batches")
    names = {file.name for file in files}
    if len(names) != len(files):
        raise DelegationRefused("one file is there for two groups of segments")


def check_extents(plan: CleaningPlan, extents: Sequence[Extent]) -> None:
    """Check that all planned segments are still in the log, next to each other. Raises DelegationRefused."""
    wanted = [(extent.leader_epoch, extent.roll) for group in plan.groups for extent in group]
    names = [(extent.leader_epoch, extent.roll) for extent in extents]
    place = names.index(wanted[0]) if wanted and wanted[0] in names else len(names)
    if names[place : place + len(wanted)] != wanted:
        raise DelegationRefused("segments were deleted, or compacted by others, since the plan was made")
