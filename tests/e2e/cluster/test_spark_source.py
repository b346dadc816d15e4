"""format("bmq") on a real bmq over HDFS beside the stock connector: the same rows, whatever codecs, transactions and limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from bmq.dev.hdfs import HdfsCluster
from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us
from testing.servers import BmqServer
from tests.e2e.conftest import create_topic
from tests.support.spark import SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-cluster"), pytest.mark.bmq_only, pytest.mark.timeout(700)]

SEGMENT_BYTES = 1 << 20


@pytest.fixture(scope="module")
def results(hdfs: HdfsCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What tests.e2e.spark_source_job found, in one Spark for all tests."""
    directory = tmp_path_factory.mktemp("spark-source")
    server = BmqServer(directory / "server", {"BMQ_HDFS__REPLICATION": "2"}, store=f"{hdfs.url}/spark-source")
    server.start()
    try:
        for name in ("batch", "stream", "latest", "events"):
            create_topic(server, name, partitions=2, config={"segment.bytes": str(SEGMENT_BYTES)})
        done = subprocess.run(
            dying_with_us([sys.executable, "-m", "tests.e2e.spark_source_job", str(directory), server.bootstrap]),
            capture_output=True,
            text=True,
            timeout=Patience(600).limit_s,
            check=False,
            cwd=REPOSITORY,
            env={
                **os.environ,
                **SPARK_ENVIRONMENT,
                "PYTHONPATH": str(REPOSITORY),
            },
        )
        assert done.returncode == 0, done.stderr[-12_000:]
        yield json.loads(done.stdout.splitlines()[-1])
        assert server.is_running
    finally:
        server.close()


def test_batch_reads_are_the_connectors(results: dict[str, Any]) -> None:
    found = results["batch"]
    assert found["everything"] == found["in small parts"] == found["through proxies"] == 2400
    assert 0 < found["committed"] == found["committed in small parts"] < 2400
    assert 0 < found["from offsets"] < 2400
    assert 0 < found["of a time"] < 2400
    assert 0 < found["of a time each"] < 2400
    assert found["by pattern"] == 2 * found["assigned"] == 2400
    assert found["two columns"] == ["offset", "timestamp"]
    assert found["counted twice"] == [True, True]


def test_most_records_come_from_closed_segments(results: dict[str, Any]) -> None:
    assert results["batch"]["from files"] > 0.4


def test_a_stream_reads_every_row_once_and_repeats_a_batch_as_it_was(results: dict[str, Any]) -> None:
    found = results["stream"]
    assert found["rows"] == 4800
    assert found["batches"] >= 4 and found["largest"] <= 900
    assert found["added by repeating"] == 0


def test_a_query_that_began_at_the_end_still_does_when_it_is_repeated(results: dict[str, Any]) -> None:
    assert results["latest"] == {"at first": 0, "then": 5}


def test_partitions_that_are_added_are_read_from_their_beginning(results: dict[str, Any]) -> None:
    assert results["changes"]["partitions added"] == list(range(30))


def test_deleted_records_are_an_error_or_left_out(results: dict[str, Any]) -> None:
    deleted = results["changes"]["records deleted"]
    assert "bmq-shrinks-0 was to be read from offset 5, and begins at 12" in deleted["refused"]
    assert deleted["left"] == list(range(12, 20))


def test_a_topic_made_again_is_an_error_or_read_from_its_beginning(results: dict[str, Any]) -> None:
    again = results["changes"]["topic made again"]
    assert "topic bmq-returns was deleted and made again" in again["refused"]
    assert again["then"] == list(range(100, 105))


def test_a_checkpoint_of_another_topic_is_refused(results: dict[str, Any]) -> None:
    assert "partition 0 of topic bmq-grows was deleted" in results["changes"]["checkpoint of another topic"]


def test_errors_are_one_sentence(results: dict[str, Any]) -> None:
    found = results["errors"]
    assert "UnknownTopic: the cluster has no topic nowhere" in found["unknown topic"]
    assert "format('bmq') has no option 'startingoffset'" in found["bad option"]
    assert "batch-0 was to be read up to offset 99999999, and ends at" in found["beyond the end"]
    assert "is not on this machine" in found["no root"]


def test_the_examples_of_the_documentation_run(results: dict[str, Any]) -> None:
    assert results["examples"] == {"examples": 3, "rows": 2400}
