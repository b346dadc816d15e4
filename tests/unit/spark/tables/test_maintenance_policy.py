"""When tables are tidied up, and what is spared."""

from __future__ import annotations

import pytest

from bmq.spark.tables.maintenance_policy import MaintenancePolicy, expire_statement, merge_statement

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


@pytest.mark.parametrize(
    "wrong", [{"snapshot_age_ms": HOUR_MS - 1}, {"snapshots_min": 0}, {"files_min": 1}, {"every_commits": -1}]
)
def test_what_would_hurt_readers_or_a_running_batch_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        MaintenancePolicy(**wrong)
