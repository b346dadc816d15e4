"""A pytest plugin for runs that share files of tests out to processes (`-p tests.support.long_files_first`).

Files that take minutes begin first: one of them at the end would leave the other processes without work. It needs
`--no-loadscope-reorder`, as xdist begins with the files that have the most tests.
"""

from __future__ import annotations

from typing import Final

import pytest

LONG_FILES: Final = (
    "test_soak_cluster.py",
    "test_soak.py",
    "test_spark_tables.py",
    "test_spark_jobs.py",
    "test_spark.py",
    "test_streams.py",
    "test_spark_compaction.py",
    "test_partition_copier.py",
    "test_spark_table_loss.py",
    "test_spark_table_stop.py",
    "test_connect.py",
    "test_compaction.py",
    "test_damaged_state.py",
    "test_bad_input.py",
    "test_client_matrix.py",
    "test_tools_table.py",
    "test_spark_yarn.py",
    "test_transactions_failover.py",
    "test_spark_source.py",
    "test_spark_failover.py",
    "test_spark_compaction_on_hdfs.py",
    "test_etl.py",
    "test_rolling_upgrade.py",
    "test_dev_up.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Behind pytest-randomly, which has the same order in all processes."""
    places = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
