"""A pytest plugin for runs that share files of tests out to processes (`-p tests.support.long_files_first`).

What a file takes is known from tests/durations.json (`make durations`); long ones that are not in it are named.

Files that take minutes begin first: one of them at the end would leave the other processes without work. It needs
`--no-loadscope-reorder`, as xdist begins with the files that have the most tests.
"""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Final

import pytest

DURATIONS: Final = Path(__file__).resolve().parents[1] / "durations.json"
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
    # Of the gate.
    "test_namenode.py",
    "test_zookeeper.py",
    "test_share_groups.py",
    "test_tls.py",
    "test_transactions.py",
    "test_consumer_protocol.py",
    "test_rest_logins.py",
    "test_deleted_topics.py",
    "test_refused_starts.py",
    "test_bad_streams_groups.py",
    "test_secured_clients.py",
    "test_bad_transactions.py",
    "test_acls.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Behind pytest-randomly, which has the same order in all processes."""
    seconds = recorded_seconds()
    named = {name: len(LONG_FILES) - place for place, name in enumerate(LONG_FILES)}

    def length(item: pytest.Item) -> tuple[int, float]:
        file = item.nodeid.partition("::")[0]
        return (0, seconds[file]) if file in seconds else (named.get(item.path.name, 0), 0.0)

    items.sort(key=length, reverse=True)


def recorded_seconds() -> dict[str, float]:
    """By file of tests; empty before the first record."""
    if not DURATIONS.exists():
        return {}
    found: dict[str, float] = collections.defaultdict(float)
    for name, cost in json.loads(DURATIONS.read_text()).items():
        found[name.partition("::")[0]] += cost["seconds"]
    return dict(found)
