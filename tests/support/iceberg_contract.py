"""What a commit into an Iceberg table keeps, whatever others do before it and meanwhile. Run on a fake and on Iceberg.

Each check is given a new table in a `World`, which also plays the other engines.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest

from bmq.spark.tables.errors import CommitConflict, TableJobError, TableMismatch
from bmq.spark.tables.iceberg import IcebergTable, Staged
from bmq.spark.tables.snapshot_chain import WAP_PROPERTY
from bmq.spark.tables.table_offsets import OFFSETS_PROPERTY, TableOffsets, Writer

NONE = TableOffsets("orders", "an-id", {})
OURS, THEIRS = Writer("/ours", "1"), Writer("/theirs", "2")


class DisturbedTable(IcebergTable):
    """Once, between the checks of a commit and the commit, something else happens."""

    meanwhile: Callable[[], object] | None = None
    between: Callable[[Callable[[], object]], object] = staticmethod(lambda happen: happen())
    """Makes it happen then, or at a later moment before the catalog has the commit."""

    def _add_files(self, transaction: Any, staged: Staged) -> None:
        self._disturb()
        super()._add_files(transaction, staged)

    def _make_current(self, transaction: Any, table: Any, staged: Staged) -> None:
        super()._make_current(transaction, table, staged)
        self._disturb()

    def _disturb(self) -> None:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            self.between(meanwhile)


class World(Protocol):
    """One table. `rows` counts as a reader does, and fails where files are missing. `changes`: a session, and a statement that
    merges so many new rows and changes the others.
    """

    def table(self) -> DisturbedTable: ...
    def data(self, rows: int, before_append: Callable[[], object] = ...) -> Any: ...
    def changes(self, rows: int) -> tuple[Any, str]: ...
    def append(self, rows: int) -> None: ...
    def merge(self) -> None: ...
    def make_current(self, snapshot_id: int) -> None: ...
    def expire(self, snapshot_id: int) -> None: ...
    def expire_all_but_current(self) -> None: ...
    def set_property(self, key: str, value: str) -> None: ...
    def rows(self) -> int: ...


def write(world: World, table: IcebergTable, rows: int, writer: Writer = OURS) -> int:
    """A batch: the snapshot's id."""
    offsets = table.offsets()
    end = (offsets or NONE).next_offsets.get(0, 0) + rows
    return table.publish(table.stage(world.data(rows)), offsets, (offsets or NONE).moved_to({0: end}), writer)


def merge_batch(world: World, table: IcebergTable, rows: int, writer: Writer = OURS) -> int:
    """A batch that changes rows: the snapshot's id."""
    offsets = table.offsets()
    end = (offsets or NONE).next_offsets.get(0, 0) + rows
    return table.publish(table.stage_merge(*world.changes(rows)), offsets, (offsets or NONE).moved_to({0: end}), writer)


def written(world: World) -> tuple[DisturbedTable, int]:
    """A table with two batches of 10 rows, and the first one's snapshot."""
    table = world.table()
    table.claim(OURS)
    first = write(world, table, 10)
    write(world, table, 10)
    return table, first


def state(world: World, table: IcebergTable) -> tuple[int, int]:
    """Rows, and the offset up to which they are counted."""
    offsets = table.offsets()
    return world.rows(), 0 if offsets is None else offsets.next_offsets[0]


def rows_and_offsets_are_committed_together(world: World) -> None:
    table, first = written(world)
    offsets = table.offsets()
    assert state(world, table) == (20, 20)
    assert offsets is not None and offsets.snapshot_id not in (None, first)
    assert table.totals().snapshot_id == offsets.snapshot_id


def a_batch_without_rows_moves_the_offsets(world: World) -> None:
    table, _ = written(world)
    offsets = table.offsets()
    assert offsets is not None
    table.publish(table.stage(world.data(0)), offsets, offsets.moved_to({0: 25}), OURS)
    assert state(world, table) == (20, 25)


def a_batch_is_refused_once_the_offsets_have_moved(world: World) -> None:
    table, _ = written(world)
    before = table.offsets()
    staged = table.stage(world.data(5))
    write(world, table, 7)
    with pytest.raises(CommitConflict, match="have moved"):
        table.publish(staged, before, (before or NONE).moved_to({0: 25}), OURS)
    assert state(world, table) == (27, 27)


def a_batch_is_refused_when_the_offsets_move_within_its_commit(world: World) -> None:
    table, _ = written(world)
    other = world.table()
    table.meanwhile = lambda: write(world, other, 7)
    with pytest.raises(CommitConflict, match="have moved"):
        write(world, table, 5)
    assert state(world, table) == (27, 27)


def a_writer_is_refused_once_another_has_claimed_the_table(world: World) -> None:
    table, _ = written(world)
    staged, offsets = table.stage(world.data(5)), table.offsets()
    world.table().claim(THEIRS)
    with pytest.raises(CommitConflict, match="another writer"):
        table.publish(staged, offsets, (offsets or NONE).moved_to({0: 25}), OURS)
    assert state(world, table) == (20, 20)


def a_writer_is_refused_when_another_claims_within_its_commit(world: World) -> None:
    table, _ = written(world)
    table.meanwhile = lambda: world.table().claim(THEIRS)
    with pytest.raises(CommitConflict, match="another writer"):
        write(world, table, 5)
    assert state(world, table) == (20, 20)


def files_of_others_do_not_hinder_a_commit(world: World) -> None:
    table, _ = written(world)
    table.meanwhile = lambda: world.append(3)
    write(world, table, 5)
    assert state(world, table) == (28, 25)
    table.meanwhile = world.merge
    write(world, table, 5)
    assert state(world, table) == (33, 30)


def merged_files_and_expired_snapshots_change_nothing(world: World) -> None:
    table, _ = written(world)
    world.merge()
    world.expire_all_but_current()
    assert state(world, table) == (20, 20)
    write(world, table, 5)
    assert state(world, table) == (25, 25)


def a_table_that_was_rolled_back_is_refused(world: World) -> None:
    table, first = written(world)
    staged, offsets = table.stage(world.data(5)), table.offsets()
    assert offsets is not None
    world.make_current(first)
    with pytest.raises(TableMismatch, match=f"up to snapshot {offsets.snapshot_id}, which is no ancestor.*{first}"):
        table.offsets()
    with pytest.raises(TableMismatch, match="set_current_snapshot"):
        table.publish(staged, offsets, offsets.moved_to({0: 25}), OURS)
    world.append(3)  # the current snapshot is newer than ours, and still no descendant
    with pytest.raises(TableMismatch, match="--accept-rollback"):
        table.offsets()
    assert world.rows() == 13
    assert offsets.snapshot_id is not None
    world.make_current(offsets.snapshot_id)
    assert state(world, table) == (20, 20)


def a_rollback_within_a_commit_is_refused(world: World) -> None:
    table, first = written(world)
    table.meanwhile = lambda: world.make_current(first)
    with pytest.raises(TableMismatch, match="rolled back"):
        write(world, table, 5)
    assert world.rows() == 10


def a_rollback_that_is_accepted_leaves_its_rows_out(world: World) -> None:
    table, first = written(world)
    world.make_current(first)
    table.upgrade_offsets(accept_rollback=False)
    with pytest.raises(TableMismatch, match="rolled back"):
        table.offsets()
    table.upgrade_offsets(accept_rollback=True)
    write(world, table, 5)
    assert state(world, table) == (15, 25)


def offsets_of_an_earlier_release_are_tied_at_the_start(world: World) -> None:
    table, first = written(world)
    world.set_property(f"{OFFSETS_PROPERTY}orders", TableOffsets("orders", "an-id", {0: 20}).to_json())
    assert state(world, table) == (20, 20)
    table.upgrade_offsets(accept_rollback=False)
    world.make_current(first)
    with pytest.raises(TableMismatch, match="rolled back"):
        table.offsets()


def a_staged_snapshot_that_others_expired_is_not_published(world: World) -> None:
    table, _ = written(world)
    staged, offsets = table.stage(world.data(5)), table.offsets()
    world.expire(staged.snapshot_id)
    with pytest.raises(CommitConflict, match="expired"):
        table.publish(staged, offsets, (offsets or NONE).moved_to({0: 25}), OURS)
    again = table.stage(world.data(5))
    table.meanwhile = lambda: world.expire(again.snapshot_id)
    with pytest.raises(CommitConflict, match="expired"):
        table.publish(again, offsets, (offsets or NONE).moved_to({0: 25}), OURS)
    assert state(world, table) == (20, 20)


def a_table_that_does_not_stage_is_refused(world: World) -> None:
    table, _ = written(world)
    staged, offsets = table.stage(world.data(5)), table.offsets()
    world.set_property(WAP_PROPERTY, "false")
    for refused in (
        lambda: table.stage(world.data(5)),
        lambda: table.publish(staged, offsets, (offsets or NONE).moved_to({0: 25}), OURS),
    ):
        with pytest.raises(TableMismatch, match=r"write.wap.enabled false: .* set it to true again"):
            refused()
    assert state(world, table) == (20, 20)


def rows_that_were_not_staged_are_not_written_twice(world: World) -> None:
    """It is switched off between the check and Spark's write."""
    table, _ = written(world)
    offsets = table.offsets()
    assert offsets is not None and offsets.snapshot_id is not None
    with pytest.raises(TableMismatch, match=f"roll the table back to snapshot {offsets.snapshot_id}"):
        table.stage(world.data(5, lambda: world.set_property(WAP_PROPERTY, "false")))
    world.set_property(WAP_PROPERTY, "true")
    with pytest.raises(TableJobError, match="written twice"):
        write(world, table, 5)
    world.make_current(offsets.snapshot_id)
    write(world, table, 5)
    assert state(world, table) == (25, 25)


CONTRACT: tuple[Callable[[World], None], ...] = (
    rows_and_offsets_are_committed_together,
    a_batch_without_rows_moves_the_offsets,
    a_batch_is_refused_once_the_offsets_have_moved,
    a_batch_is_refused_when_the_offsets_move_within_its_commit,
    a_writer_is_refused_once_another_has_claimed_the_table,
    a_writer_is_refused_when_another_claims_within_its_commit,
    files_of_others_do_not_hinder_a_commit,
    merged_files_and_expired_snapshots_change_nothing,
    a_table_that_was_rolled_back_is_refused,
    a_rollback_within_a_commit_is_refused,
    a_rollback_that_is_accepted_leaves_its_rows_out,
    offsets_of_an_earlier_release_are_tied_at_the_start,
    a_staged_snapshot_that_others_expired_is_not_published,
    a_table_that_does_not_stage_is_refused,
    rows_that_were_not_staged_are_not_written_twice,
)


# --- a table whose records change rows


def changes_and_offsets_are_committed_together(world: World) -> None:
    table = world.table()
    table.claim(OURS)
    first = merge_batch(world, table, 10)
    second = merge_batch(world, table, 10)
    offsets = table.offsets()
    assert state(world, table) == (20, 20)
    assert offsets is not None and offsets.snapshot_id == second != first
    totals = table.totals()
    assert (totals.snapshot_id, totals.rows) == (second, 20)


def a_merge_is_invisible_until_it_is_published(world: World) -> None:
    table = world.table()
    table.claim(OURS)
    merge_batch(world, table, 10)
    table.stage_merge(*world.changes(5))
    assert state(world, table) == (10, 10)
    merge_batch(world, table, 5)
    assert state(world, table) == (15, 15)


def a_merge_is_refused_once_the_table_has_changed(world: World) -> None:
    table = world.table()
    table.claim(OURS)
    merge_batch(world, table, 10)
    offsets = table.offsets()
    for disturb in (lambda: world.append(3), world.merge):
        staged = table.stage_merge(*world.changes(5))
        disturb()
        with pytest.raises(CommitConflict, match="was changed since a batch was merged into it"):
            table.publish(staged, offsets, (offsets or NONE).moved_to({0: 15}), OURS)
    assert state(world, table) == (13, 10)
    merge_batch(world, table, 5)
    assert state(world, table) == (18, 15)


def a_merge_is_refused_when_the_table_changes_within_its_commit(world: World) -> None:
    table = world.table()
    table.claim(OURS)
    merge_batch(world, table, 10)
    table.meanwhile = lambda: world.append(3)
    with pytest.raises(CommitConflict, match="was changed since a batch was merged into it"):
        merge_batch(world, table, 5)
    other = world.table()
    table.meanwhile = lambda: merge_batch(world, other, 4)
    with pytest.raises(CommitConflict, match="have moved"):
        merge_batch(world, table, 5)
    table.meanwhile = lambda: world.table().claim(THEIRS)
    with pytest.raises(CommitConflict, match="another writer"):
        merge_batch(world, table, 5)
    assert state(world, table) == (17, 14)


def a_rolled_back_merge_is_refused(world: World) -> None:
    table = world.table()
    table.claim(OURS)
    first = merge_batch(world, table, 10)
    second = merge_batch(world, table, 10)
    world.make_current(first)
    with pytest.raises(TableMismatch, match="rolled back"):
        table.offsets()
    world.make_current(second)
    assert state(world, table) == (20, 20)


def merged_files_and_expired_snapshots_keep_changed_rows(world: World) -> None:
    table = world.table()
    table.claim(OURS)
    for _ in range(3):
        merge_batch(world, table, 10)
    world.merge()
    world.expire_all_but_current()
    assert state(world, table) == (30, 30)
    assert table.totals().rows == 30
    merge_batch(world, table, 5)
    assert state(world, table) == (35, 35)


# --- a part that is written anew

TIME, ALWAYS = "at", (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
"""A column of times, and bounds that hold all of them."""


def a_part_is_replaced_while_batches_go_on(world: World) -> None:
    table, _ = written(world)
    part = table.part(TIME, ALWAYS)
    assert (part.rows, part.offsets) == (20, table.offsets())
    staged = table.stage(world.data(18))
    write(world, table, 5)
    table.replace_part(part, staged, TIME, ALWAYS)
    assert state(world, table) == (23, 25)
    table.meanwhile = lambda: world.append(3)
    write(world, table, 5)
    assert state(world, table) == (31, 30)


def a_part_becomes_empty(world: World) -> None:
    table, _ = written(world)
    table.replace_part(table.part(TIME, ALWAYS), table.stage(world.data(0)), TIME, ALWAYS)
    assert state(world, table) == (0, 20)
    write(world, table, 5)
    assert state(world, table) == (5, 25)


def a_part_whose_files_were_merged_or_replaced_is_refused(world: World) -> None:
    table, _ = written(world)
    part, staged = table.part(TIME, ALWAYS), table.stage(world.data(20))
    world.merge()
    with pytest.raises(CommitConflict, match="merged or deleted"):
        table.replace_part(part, staged, TIME, ALWAYS)
    assert state(world, table) == (20, 20)
    part = table.part(TIME, ALWAYS)
    table.replace_part(part, staged, TIME, ALWAYS)
    with pytest.raises(CommitConflict, match="merged or deleted"):
        table.replace_part(part, table.stage(world.data(20)), TIME, ALWAYS)
    assert state(world, table) == (20, 20)


def a_part_of_a_table_that_was_rolled_back_is_refused(world: World) -> None:
    table, first = written(world)
    part, staged = table.part(TIME, ALWAYS), table.stage(world.data(20))
    world.make_current(first)
    with pytest.raises(TableMismatch, match="rolled back"):
        table.replace_part(part, staged, TIME, ALWAYS)
    assert world.rows() == 10


PARTS_CONTRACT: tuple[Callable[[World], None], ...] = (
    a_part_is_replaced_while_batches_go_on,
    a_part_becomes_empty,
    a_part_whose_files_were_merged_or_replaced_is_refused,
    a_part_of_a_table_that_was_rolled_back_is_refused,
)
"""Of tables with a time."""
CHANGES_CONTRACT: tuple[Callable[[World], None], ...] = (
    changes_and_offsets_are_committed_together,
    a_merge_is_invisible_until_it_is_published,
    a_merge_is_refused_once_the_table_has_changed,
    a_merge_is_refused_when_the_table_changes_within_its_commit,
    a_rolled_back_merge_is_refused,
    merged_files_and_expired_snapshots_keep_changed_rows,
)
"""Of tables whose records change rows."""
