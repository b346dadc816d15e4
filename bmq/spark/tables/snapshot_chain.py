"""Whether a table's current snapshot still has everything that its offsets count as written. Decisions only.

Iceberg rolls back snapshots, not properties. So the offsets name the snapshot of the commit that set them: they hold
only while that snapshot is the current one or an ancestor of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bmq.spark.tables.errors import TableMismatch
from bmq.spark.tables.table_offsets import TableOffsets

WAP_PROPERTY: Final = "write.wap.enabled"
STAGE_SUMMARY: Final = "bmq.stage"
"""In the summary of a snapshot that holds staged rows; readers must never see such a snapshot."""


@dataclass(frozen=True, slots=True)
class AncestorSnapshot:
    """`parent_id`: None for a table's first snapshot; the parent may have expired. `is_stage`: see STAGE_SUMMARY."""

    snapshot_id: int
    parent_id: int | None
    is_stage: bool = False


def check_chain(chain: Iterable[AncestorSnapshot], offsets: TableOffsets | None, table: str) -> None:
    """`chain`: the current snapshot and its known ancestors, newest first.

    Raises TableMismatch: the commit that set the offsets is not among them, or staged rows were committed directly.
    Offsets of earlier releases name no snapshot, and are believed.
    """
    wanted = None if offsets is None else offsets.snapshot_id
    current: int | None = None
    visible: AncestorSnapshot | None = None
    for snapshot in chain:
        current = snapshot.snapshot_id if current is None else current
        # A merge is published by making its staged snapshot the current one: then the offsets name it.
        if wanted is not None and snapshot.snapshot_id == wanted:
            wanted = None
            break
        if snapshot.is_stage and visible is None:
            visible = snapshot
        # An expired parent is still known by its id.
        if wanted is not None and snapshot.parent_id == wanted:
            wanted = None
            break
    # Behind a rollback older stages that were published are the newest ones.
    if visible is not None and wanted is None:
        raise TableMismatch(
            f"snapshot {visible.snapshot_id} of table {table} has rows of a batch without their offsets, since "
            f"{WAP_PROPERTY} was off when they were written: roll the table back to snapshot {visible.parent_id}, "
            "or they are written twice"
        )
    if wanted is not None:
        raise TableMismatch(
            f"the offsets of table {table} count what was written up to snapshot {wanted}, which is no ancestor of its "
            f"current snapshot {current}: it was rolled back, or the snapshots between them expired; make {wanted} "
            "current again (Iceberg's procedure set_current_snapshot), or drop the table and start with a new "
            "checkpoint to have all of it written again, or start with --accept-rollback: rows that are gone then stay "
            "out of the table"
        )


def check_staging(wap_enabled: str | None, table: str) -> None:
    """`wap_enabled`: the table's property. Raises TableMismatch: readers would see staged rows."""
    if (wap_enabled or "").lower() != "true":
        raise TableMismatch(
            f"table {table} has {WAP_PROPERTY} {wap_enabled or 'unset'}: rows could not be committed together with their "
            f"offsets; set it to true again (ALTER TABLE … SET TBLPROPERTIES)"
        )
