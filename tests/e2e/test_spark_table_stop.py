"""The table job is told to stop while it writes: it ends with 0 and has nothing to complain of."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from testing.processes import ManagedProcess
from testing.servers import Server
from testing.table_topics import order, produce, table_command
from tests.e2e.conftest import create_topic, unique_name
from tests.e2e.test_spark_tables import ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(900)]

RECORDS, PARTITIONS, OFFSETS_PER_TRIGGER = 6_000, 2, 50
BATCH_WAIT_S, STOP_WAIT_S = 300.0, 120.0


def batches(process: ManagedProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.log_of_this_run().splitlines() if line.startswith('{"table"')]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_that_is_told_to_stop_ends_with_0(shared_server: Server, tmp_path: Path, number: signal.Signals) -> None:
    topic = unique_name("orders")
    create_topic(shared_server, topic, PARTITIONS)
    produce(shared_server.bootstrap, topic, [order(each) for each in range(RECORDS)], PARTITIONS)
    command = table_command(shared_server.bootstrap, topic, tmp_path, "--trigger-s", "0.05")
    slowly = ManagedProcess(
        "table job",
        [*command, "--max-offsets-per-trigger", str(OFFSETS_PER_TRIGGER)],
        tmp_path / "job.log",
        ENVIRONMENT,
    )
    slowly.start()
    try:
        # Batches follow each other without a pause: it is in the middle of one.
        slowly.wait_for_line(rf"(?s)(\"batch\":\d+.*){{{random.Random(number).randint(1, 3)}}}", BATCH_WAIT_S)
        os.kill(slowly.pid, number)
        assert slowly.wait(STOP_WAIT_S) == 0, f"{slowly}"
    finally:
        slowly.kill()
    assert "Traceback" not in slowly.log_of_this_run()
    assert not any(line.startswith("bmq: ") for line in slowly.log_of_this_run().splitlines())
    written = batches(slowly)[-1]["table_rows"]
    assert 0 < written < RECORDS, "it was stopped in the middle"
