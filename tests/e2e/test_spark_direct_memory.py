"""Merges into a table of format 3 give the memory back that Iceberg reads with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from testing.table_topics import SUBMIT_ARGUMENTS
from tests.support.spark import job_result

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(600)]

ROWS: Final = 400_000
MERGES: Final = 12
GROWTH_BYTES_MAX: Final = 16 << 20
"""A merge that leaks keeps 8 bytes of each row."""


def test_merges_leave_no_direct_memory_behind(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    told.write_text(json.dumps({"rows": ROWS, "merges": MERGES}))
    found = job_result(
        "tests.e2e.spark_direct_memory_job", told, tmp_path / "warehouse", PYSPARK_SUBMIT_ARGS=SUBMIT_ARGUMENTS
    )
    assert found["total"] == ROWS * MERGES
    print(found["used"])
    assert found["used"][-1] - found["used"][1] <= GROWTH_BYTES_MAX, found["used"]
