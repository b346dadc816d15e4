"""When small files are merged and snapshots expire, and what is kept. Decisions only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from bmq.spark.tables.columns import quoted, text
from bmq.table_definitions.index_layout import Every, IndexLayout

_HOUR_MS: Final = 3_600_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DELETED_PART_MAX: Final = 0.2
_PARTITION_MS: Final = {Every.HOUR: _HOUR_MS, Every.DAY: 24 * _HOUR_MS}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """Settings of maintenance. `every_commits` 0: never.

    `files_min`: merge a partition once it has this many files far below the target size. `snapshot_age_ms`: keep
    younger snapshots, for readers that use one; at least an hour, which is more than any batch may need to commit what
    it staged. Each commit rewrites all kept snapshots, 1 KB each, and a batch makes two.
    """

    every_commits: int = 60
    files_min: int = 10
    target_file_bytes: int = 128 * 1024 * 1024
    snapshot_age_ms: int = 3 * _HOUR_MS
    snapshots_min: int = 20

    def __post_init__(self) -> None:
        if self.snapshot_age_ms < _HOUR_MS:
            raise ValueError(f"snapshot_age_ms is {self.snapshot_age_ms}, and snapshots are kept for an hour at least")
        if self.snapshots_min < 1 or self.files_min < 2 or self.every_commits < 0:
            raise ValueError("snapshots_min is at least 1, files_min at least 2, every_commits at least 0")


def merge_statement(
    catalog: str, table: str, policy: MaintenancePolicy, index: IndexLayout | None = None, *, has_deletes: bool = False
) -> str:
    """The statement that merges small files. If a long merge fails, the part that it has merged is kept.

    `table`: its whole identifier. Without the catalog's name, Iceberg first looks for a catalog called like the namespace and
    logs that it found none. Files of an index are sorted anew, so that each has few of the keys. `has_deletes`: rows of its files are
    marked as deleted.
    """
    options: dict[str, object] = {
        "min-input-files": policy.files_min,
        "target-file-size-bytes": policy.target_file_bytes,
        "partial-progress.enabled": "true",
    }
    if has_deletes:
        # A file of which this part was deleted is written anew without it, whatever its size.
        options["delete-ratio-threshold"] = DELETED_PART_MAX
    pairs = ", ".join(f"{text(key)}, {text(str(value))}" for key, value in options.items())
    sort = ""
    if index is not None:
        order = ", ".join(f"{name} ASC NULLS LAST" for name in index.sort_columns)
        sort = f"strategy => 'sort', sort_order => {text(order)}, "
    return f"CALL {quoted(catalog)}.system.rewrite_data_files(table => {text(table)}, {sort}options => map({pairs}))"


def retention_statement(table: str, index: IndexLayout, now_ms: int) -> str | None:
    """The statement that deletes what is older than an index keeps: whole partitions, so that no file is written anew."""
    if index.retention_ms is None:
        return None
    partition_ms = _PARTITION_MS[index.every]
    before_ms = max(0, now_ms - index.retention_ms) // partition_ms * partition_ms
    before = (_EPOCH + timedelta(milliseconds=before_ms)).strftime("%Y-%m-%d %H:%M:%S")
    return f"DELETE FROM {table} WHERE {quoted(index.time_column)} < TIMESTAMP {text(f'{before} UTC')}"


def expire_statement(catalog: str, table: str, policy: MaintenancePolicy, now_ms: int) -> str:
    older_than = datetime.fromtimestamp((now_ms - policy.snapshot_age_ms) / 1_000, UTC)
    return (
        f"CALL {quoted(catalog)}.system.expire_snapshots(table => {text(table)}, "
        f"older_than => TIMESTAMP {text(older_than.strftime('%Y-%m-%d %H:%M:%S.%f') + ' UTC')}, "
        f"retain_last => {policy.snapshots_min}, stream_results => true)"
    )
