"""A short story of each use of Spark, all in one session: the gate's. The campaign has the long ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from testing.processes import REPOSITORY, dying_with_us
from testing.servers import Server
from testing.table_topics import order, produce
from tests.e2e.conftest import create_topic, unique_name
from tests.support.spark import SPARK_ENVIRONMENT

pytestmark = [pytest.mark.spark, pytest.mark.bmq_only, pytest.mark.timeout(300)]

PARTITIONS = 2
VALUES: list[bytes | None] = [*map(order, range(200)), b"no JSON", None]
JOB_WAIT_S = 280


@pytest.fixture(scope="module")
def found(shared_server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What tests.e2e.spark_story_job saw."""
    orders = unique_name("orders")
    for topic in (orders, f"{orders}-copied"):
        create_topic(shared_server, topic, PARTITIONS)
    produce(shared_server.bootstrap, orders, VALUES, PARTITIONS)
    directory = tmp_path_factory.mktemp("spark-story")
    arguments = [str(directory), shared_server.bootstrap, orders, f"{orders}-copied"]
    done = subprocess.run(
        dying_with_us([sys.executable, "-m", "tests.e2e.spark_story_job", *arguments]),
        capture_output=True,
        text=True,
        timeout=JOB_WAIT_S,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **SPARK_ENVIRONMENT, "TZ": "UTC"},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def expected() -> list[list[Any]]:
    return sorted(
        [number % PARTITIONS, number // PARTITIONS, None if value is None else value.decode()]
        for number, value in enumerate(VALUES)
    )


def test_the_connector_reads_and_writes(found: dict[str, Any]) -> None:
    assert found["copied"] == expected()


def test_format_bmq_reads_what_the_connector_reads(found: dict[str, Any]) -> None:
    assert found["source"] == expected()


def test_a_table_has_each_record_or_a_dead_letter(found: dict[str, Any]) -> None:
    assert found["table"] == {"orders": 200, "orders_dead_letter": 2}


def test_stats_count_the_records(found: dict[str, Any]) -> None:
    assert found["stats"] == {"records": len(VALUES)}
