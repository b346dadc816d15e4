"""PySpark through the unmodified spark-sql-kafka connector: batch write, batch read, a stream that goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import TopicMaker
from tests.support.processes import REPOSITORY, dying_with_us
from tests.support.servers import Server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def run_job(tmp_path: Path, job: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.e2e.spark_job", job, str(tmp_path / "warehouse"), *arguments]
    done = subprocess.run(
        dying_with_us(command),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_batch_write_is_what_batch_read_gives(server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic = make_topic(partitions=3)
    assert run_job(tmp_path, "write", server.bootstrap, topic, "0", "1000") == {"written": 1000}
    rows = run_job(tmp_path, "read", server.bootstrap, topic)["rows"]
    assert sorted((int(key), int(value)) for key, value, _, _ in rows) == [(n, 2 * n) for n in range(1000)]
    for partition in range(3):
        offsets = sorted(offset for _, _, of, offset in rows if of == partition)
        assert offsets == list(range(len(offsets))), "offsets of a partition are dense"
        assert offsets, f"partition {partition} is empty"


def test_stream_resumes_from_its_checkpoint(server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    source, sink = make_topic(partitions=2), make_topic(partitions=2)
    checkpoint = str(tmp_path / "checkpoint")
    run_job(tmp_path, "write", server.bootstrap, source, "0", "1000")
    first = run_job(tmp_path, "stream", server.bootstrap, source, sink, checkpoint)
    assert first == {"processed": 1000}
    run_job(tmp_path, "write", server.bootstrap, source, "1000", "1300")
    second = run_job(tmp_path, "stream", server.bootstrap, source, sink, checkpoint)
    assert second == {"processed": 300}, "the second run reads only what came after the checkpoint"
    rows = run_job(tmp_path, "read", server.bootstrap, sink)["rows"]
    assert sorted(int(key) for key, *_ in rows) == list(range(1300))
