"""Finds the snapshot from which a log's state is restored, and passes over damaged ones only where rule 25 allows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
from crc32c import crc32c

from bmq.log.damage import Damage, file_damage, read_named, reason_of, require_accepted, start_damage
from bmq.log.manifest import (
    SnapshotReference,
)
from bmq.log.names import PartitionPaths, snapshot_name
from bmq.log.partition_log import StateSnapshot
from bmq.log.store import (
    CorruptFile,
    FileMissing,
    SegmentStore,
)

_log = structlog.get_logger("bmq.log")


async def latest_snapshot(
    store: SegmentStore,
    paths: PartitionPaths,
    snapshots: Callable[[], Sequence[SnapshotReference]],
    log_start_offset: Callable[[], int],
    high_watermark: int,
) -> StateSnapshot | None:
    """The newest snapshot at or below the high watermark; None if the log alone has the whole state.

    If it is damaged, an older one (or none) is used only if the log still has all records behind that, or if an operator accepted
    the loss (rule 25). Raises StateDamaged, StorageUnavailable, and FileMissing if a snapshot is replaced meanwhile.
    """
    found: StateSnapshot | None = None
    damages: list[Damage] = []
    for reference in sorted(snapshots(), key=lambda item: item.next_offset, reverse=True):
        if reference.next_offset > high_watermark:
            continue
        read = await _read(store, paths, reference, snapshots)
        if isinstance(read, StateSnapshot):
            found = read
            break
        damages.append(read)
    state_offset = 0 if found is None else found.next_offset
    if state_offset < log_start_offset():
        if not damages:
            reason = f"but the state before it is known only up to {state_offset}"
            damages.append(start_damage(paths.partition, log_start_offset(), reason))
        for damage in damages:
            await require_accepted(store, damage)
    elif damages:
        _log.warning(
            "state_replayed_from_further_back",
            partition=paths.partition,
            from_offset=state_offset,
            found=damages[0].sentence,
        )
    return found


async def _read(
    store: SegmentStore,
    paths: PartitionPaths,
    reference: SnapshotReference,
    snapshots: Callable[[], Sequence[SnapshotReference]],
) -> StateSnapshot | Damage:
    path = paths.snapshot(reference.leader_epoch, reference.number)

    def checked(data: bytes) -> StateSnapshot:
        if len(data) != reference.length or crc32c(data) != reference.crc:
            raise CorruptFile("its length or checksum is not what the manifest says")
        return StateSnapshot(reference.next_offset, data)

    try:
        return await read_named(store, path, checked, length_bytes_max=reference.length)
    except (FileMissing, CorruptFile) as error:
        if reference not in snapshots():
            raise FileMissing(path) from error  # replaced while we read
        name = snapshot_name(reference.number)
        return file_damage(paths.partition, reference.leader_epoch, name, reason_of(error))
