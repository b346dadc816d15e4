"""Commits into a real Iceberg table keep what the fake in tests/unit/spark/tables/test_iceberg.py keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import cast

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us
from tests.e2e.test_spark_tables import ENVIRONMENT
from tests.support.iceberg_contract import CHANGES_CONTRACT, CONTRACT, PARTS_CONTRACT

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(500)]


ALL = (*CONTRACT, *CHANGES_CONTRACT, *PARTS_CONTRACT)


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    done = subprocess.run(
        dying_with_us(
            [sys.executable, "-m", "tests.e2e.spark_iceberg_contract", str(tmp_path_factory.mktemp("iceberg"))]
        ),
        capture_output=True,
        text=True,
        timeout=Patience(450).limit_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    return cast(dict[str, str], json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", [check.__name__ for check in ALL])
def test_contract_on_iceberg(failures: dict[str, str], name: str) -> None:
    assert not failures[name], failures[name]


def test_no_check_was_left_out(failures: dict[str, str]) -> None:
    assert failures.keys() == {check.__name__ for check in ALL}
