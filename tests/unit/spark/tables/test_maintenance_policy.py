"""When tables are tidied up, and what is spared."""

from __future__ import annotations

import pytest

from bmq.spark.tables.maintenance_policy import (
    MaintenancePolicy,
    expire_statement,
    merge_statement,
    retention_statement,
)
from bmq.table_definitions.index_layout import Every, IndexKey, IndexLayout, KeyKind

pytestmark = pytest.mark.unit

HOUR_MS = 3_600_000


def test_statements_name_the_table_and_the_limits() -> None:
    policy = MaintenancePolicy(files_min=5, target_file_bytes=1_000, snapshot_age_ms=HOUR_MS, snapshots_min=3)
    assert merge_statement("bmq", "`bmq`.`tables`.`t`", policy) == (
        "CALL `bmq`.system.rewrite_data_files(table => '`bmq`.`tables`.`t`', options => map("
        "'min-input-files', '5', 'target-file-size-bytes', '1000', 'partial-progress.enabled', 'true'))"
    )
    assert expire_statement("bmq", "`bmq`.`tables`.`t`", policy, now_ms=1_700_000_000_123 + HOUR_MS) == (
        "CALL `bmq`.system.expire_snapshots(table => '`bmq`.`tables`.`t`', "
        "older_than => TIMESTAMP '2023-11-14 22:13:20.123000 UTC', retain_last => 3, stream_results => true)"
    )


def test_an_index_is_sorted_anew_and_loses_whole_partitions() -> None:
    layout = IndexLayout(keys=(IndexKey(field="city"), IndexKey(field="price", by=KeyKind.RANGE)), retention_ms=HOUR_MS)
    merged = merge_statement("bmq", "t", MaintenancePolicy(), layout)
    assert (
        "table => 't', strategy => 'sort', sort_order => "
        "'city ASC NULLS LAST, price ASC NULLS LAST, _bmq_timestamp ASC NULLS LAST', options => map("
    ) in merged
    now_ms = 1_700_000_000_123  # 22:13:20
    assert retention_statement("t", layout, now_ms) == (
        "DELETE FROM t WHERE `_bmq_timestamp` < TIMESTAMP '2023-11-14 21:00:00 UTC'"
    )
    by_day = layout.model_copy(update={"every": Every.DAY})
    assert str(retention_statement("t", by_day, now_ms)).endswith("'2023-11-14 00:00:00 UTC'")
    assert retention_statement("t", layout.model_copy(update={"retention_ms": None}), now_ms) is None


@pytest.mark.parametrize(
    "wrong", [{"snapshot_age_ms": HOUR_MS - 1}, {"snapshots_min": 0}, {"files_min": 1}, {"every_commits": -1}]
)
def test_what_would_hurt_readers_or_a_running_batch_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        MaintenancePolicy(**wrong)


def test_files_with_deleted_rows_are_written_anew() -> None:
    statement = merge_statement("bmq", "`bmq`.`tables`.`t`", MaintenancePolicy(), has_deletes=True)
    assert "'delete-ratio-threshold', '0.2'" in statement
    assert "delete-ratio" not in merge_statement("bmq", "`bmq`.`tables`.`t`", MaintenancePolicy())
