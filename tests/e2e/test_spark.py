"""PySpark through the unmodified spark-sql-kafka connector: what its options promise, over kills and topics that change."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from testing.processes import REPOSITORY, ManagedProcess, dying_with_us
from testing.servers import Server
from tests.e2e.conftest import create_topic, make_server
from tests.support.spark import SPARK_ENVIRONMENT
from tests.support.spark_topics import COUNT, PARTITIONS, Stored, produce_numbers, stored, time_ms

# The first test waits for all jobs, on a machine that may be busy with others.
pytestmark = [pytest.mark.campaign("spark-jobs"), pytest.mark.timeout(1_200)]

TOPIC = "events-1"
JOB_TIMEOUT_S = 700
BATCH_TIMEOUT_S = 400


def job_command(directory: Path, job: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.e2e.spark_job", job, str(directory), *arguments]


def run_job(directory: Path, job: str, *arguments: str, timeout_s: float = 200) -> dict[str, Any]:
    done = subprocess.run(
        dying_with_us(job_command(directory, job, *arguments)),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **SPARK_ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


class Found(NamedTuple):
    """What the job found, and what a consumer finds: all records, and the committed ones."""

    by_spark: dict[str, Any]
    everything: list[Stored]
    committed: list[Stored]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """A stream over a server that is killed, hangs and comes back; it is killed as well; then all else in one session."""
    directory = tmp_path_factory.mktemp("spark")
    server = make_server(directory / "server")
    try:
        server.start()
        create_topic(server, TOPIC, PARTITIONS)
        produce_numbers(server.bootstrap, TOPIC)
        hurt_a_stream(server, directory)
        by_spark = run_job(directory, "steps", server.bootstrap, TOPIC, timeout_s=JOB_TIMEOUT_S)
        yield Found(
            by_spark,
            stored(server.bootstrap, TOPIC, is_committed=False),
            stored(server.bootstrap, TOPIC, is_committed=True),
        )
    finally:
        server.close()


def hurt_a_stream(server: Server, directory: Path) -> None:
    job = ManagedProcess(
        "stream", job_command(directory, "files", server.bootstrap, TOPIC), directory / "stream.log", SPARK_ENVIRONMENT
    )
    job.start()
    try:
        job.wait_for_line(r"^batch 1 ", BATCH_TIMEOUT_S)
        server.kill()
        server.start()
        job.wait_for_line(r"^batch 3 ", BATCH_TIMEOUT_S)
        server.process.pause()
        try:
            # As long as this needs, which is longer than the stream's requests may take.
            hangs(server)
        finally:
            server.process.resume()
        job.wait_for_line(r"^batch 5 ", BATCH_TIMEOUT_S)
        assert "batch 17 " not in job.log_of_this_run(), f"the stream was at its end before it was killed{job}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.kill()


def hangs(server: Server) -> None:
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0}).list_topics(timeout=4)


def as_rows(records: list[Stored]) -> list[list[Any]]:
    return [list(record) for record in records]


def test_a_stream_over_kills_has_every_committed_record_once(found: Found) -> None:
    """The server was killed and held, and the job killed, while it ran."""
    assert found.by_spark["files"] == [[each.partition, each.offset, each.value] for each in found.committed]
    assert len(found.committed) == COUNT * 3 // 4


def test_batch_reads_have_all_or_what_is_committed(found: Found) -> None:
    batch = found.by_spark["batch"]
    assert batch["everything"] == batch["pattern"] == as_rows(found.everything)
    assert len(found.everything) == COUNT
    assert batch["committed"] == as_rows(found.committed)
    assert batch["assigned"] == as_rows([each for each in found.everything if each.partition == 1])


def test_batch_reads_by_offsets(found: Found) -> None:
    ends = {0: (100, 200), 1: (0, 60), 2: (50, 1 << 62)}
    within = [each for each in found.everything if ends[each.partition][0] <= each.offset < ends[each.partition][1]]
    assert found.by_spark["batch"]["offsets"] == as_rows(within)


def test_batch_reads_by_timestamps(found: Found) -> None:
    batch = found.by_spark["batch"]
    first, end = time_ms(COUNT // 3), time_ms(2 * COUNT // 3)
    assert (
        batch["timestamps"]
        == batch["timestamps of each"]
        == as_rows([each for each in found.everything if first <= each.time_ms < end])
    )
    assert batch["later than all"] == []


def test_a_read_in_many_parts_is_the_same(found: Found) -> None:
    batch = found.by_spark["batch"]
    assert batch["parts"] >= 8
    assert batch["in parts"] == as_rows(found.everything)


def test_a_batch_write_goes_where_its_columns_say(found: Found) -> None:
    assert found.by_spark["written"]["rows"] == [
        [number, None if number % 5 == 0 else str(number), f"written-{number % 2}", number % 3, str(number)]
        for number in range(1_000)
    ]


def test_a_stream_keeps_to_its_limit_and_resumes_from_its_checkpoint(found: Found) -> None:
    stream = found.by_spark["stream"]
    assert (stream["first"]["processed"], stream["second"]["processed"]) == (1_000, 300)
    assert stream["first"]["largest"] <= 400
    assert stream["numbers"] == list(range(1_300))


def test_partitions_that_are_added_are_read_from_their_beginning(found: Found) -> None:
    assert found.by_spark["changes"]["partitions added"] == list(range(30))


def test_deleted_records_are_an_error_or_left_out(found: Found) -> None:
    deleted = found.by_spark["changes"]["records deleted"]
    assert "some data may have been lost" in deleted["refused"].lower()
    assert deleted["left"] == list(range(12, 20))


def test_a_checkpoint_that_does_not_fit_its_topic_is_refused(found: Found) -> None:
    changes = found.by_spark["changes"]
    assert "kafka-returns-0" in changes["topic made again"]["refused"]
    assert "kafka-grows-0" in changes["checkpoint of another topic"]
