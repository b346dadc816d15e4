"""Merges small files, deletes what an index does not keep, and expires old snapshots while the job runs, in a separate thread.

Neither affects "exactly once": the offsets are a property of the table, merged files do not count as added, and a
snapshot that a batch has just staged is younger than any that may expire.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bmq.spark.tables.maintenance_policy import (
    MaintenancePolicy,
    expire_statement,
    merge_statement,
    retention_statement,
)
from bmq.table_definitions.index_layout import IndexLayout

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """What matters of a table. `index`: its layout, of an index. `has_deletes`: its commits mark rows as deleted."""

    index: IndexLayout | None = None
    has_deletes: bool = False


class Maintenance:
    """Counts commits and runs at most one round at a time. A round that fails is logged; the next one tries again."""

    def __init__(self, spark: SparkSession, catalog: str, policy: MaintenancePolicy) -> None:
        self._spark = spark
        self._catalog = catalog
        self._policy = policy
        self._commits = 0
        self._round: threading.Thread | None = None
        self.merged_files = 0
        """Counted since the job began."""

    def committed(self, tables: Mapping[str, Kept]) -> None:
        """Call after each commit. `tables`: by whole identifier.

        A table whose commits mark rows as deleted is tidied up before this returns: merging files beside such a commit would fail, or make
        it fail.
        """
        self._commits += 1
        is_running = self._round is not None and self._round.is_alive()
        if not self._policy.every_commits or self._commits < self._policy.every_commits or is_running:
            return
        self._commits = 0
        self._round = threading.Thread(target=self._run, args=(tables,), name="bmq-table-maintenance", daemon=True)
        self._round.start()
        if any(kept.has_deletes for kept in tables.values()):
            self._round.join()

    def finish(self) -> None:
        """Wait for a running round."""
        if self._round is not None:
            self._round.join()

    def _run(self, tables: Mapping[str, Kept]) -> None:
        for table, kept in tables.items():
            index = kept.index
            try:
                now_ms = time.time_ns() // 1_000_000
                deletion = None if index is None else retention_statement(table, index, now_ms)
                if deletion is not None:
                    self._spark.sql(deletion).collect()
                merge = merge_statement(self._catalog, table, self._policy, index, has_deletes=kept.has_deletes)
                row = self._spark.sql(merge).collect()[0]
                self.merged_files += int(row["rewritten_data_files_count"])
                self._spark.sql(expire_statement(self._catalog, table, self._policy, now_ms)).collect()
            except (Py4JJavaError, PySparkException) as error:
                _LOG.warning("table %s was not tidied up: %s", table, str(error).splitlines()[0])
