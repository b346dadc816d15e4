"""Commits into tables of catalogs that are services keep what tests/e2e/test_spark_iceberg.py shows of directories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, cast

import pytest

from testing.iceberg_catalogs import hive_catalog, rest_catalog
from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us
from tests.e2e.test_spark_iceberg import ALL
from tests.e2e.test_spark_tables import ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(700)]

CATALOGS: Final[dict[str, Callable[[Path], AbstractContextManager[dict[str, str]]]]] = {
    "hive": hive_catalog,
    "rest": rest_catalog,
}


@pytest.mark.parametrize("kind", CATALOGS)
def test_the_contract_of_commits(kind: str, tmp_path: Path) -> None:
    with CATALOGS[kind](tmp_path / kind) as options:
        pairs = [f"{key}={value}" for key, value in options.items()]
        command = [sys.executable, "-m", "tests.e2e.spark_iceberg_contract", str(tmp_path), *pairs]
        done = subprocess.run(
            dying_with_us(command),
            capture_output=True,
            text=True,
            timeout=Patience(600).limit_s,
            check=False,
            cwd=REPOSITORY,
            env={**os.environ, **ENVIRONMENT},
        )
    assert done.returncode == 0, done.stderr[-8_000:]
    failures = cast(dict[str, str], json.loads(done.stdout.splitlines()[-1]))
    assert failures.keys() == {check.__name__ for check in ALL}
    assert {name: failure for name, failure in failures.items() if failure} == {}
