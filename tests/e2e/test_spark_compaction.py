"""`bmq spark compact`: the same log is left as by the broker's own compaction, also after kill -9 in the middle."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bmq.spark.jobs.compact import plan_compact
from bmq.spark.jobs.partition_owner import PartitionOwner
from testing.patience import Patience
from testing.processes import REPOSITORY, ManagedProcess, dying_with_us, eventually
from testing.servers import BmqServer, bmq_command
from tests.e2e.conftest import create_topic, unique_name
from tests.support.group_client import topic_id_of
from tests.support.spark import SPARK_ARGUMENTS, SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-jobs"), pytest.mark.bmq_only, pytest.mark.timeout(1_800)]

WAIT_S = 240.0
TRIES_MAX = 3
KEYS, ROUNDS = 50, 160
END_OFFSET = ROUNDS * (KEYS + 1)
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1.0",  # so a broker leaves it alone until the test lowers it
    "segment.bytes": "1048576",
    "bmq.segment.idle.close.ms": "500",
    "file.delete.delay.ms": "1000",
}
Found = tuple[int, bytes | None, bytes | None, Any]


def write(bootstrap: str, topics: Sequence[str]) -> dict[bytes, bytes | None]:
    """The same into each topic: transactions, some of them aborted, tombstones, and records without any."""
    expected: dict[bytes, bytes | None] = {}
    for topic in topics:
        expected = {}
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 2})
        producer.init_transactions(WAIT_S)
        for number in range(ROUNDS):
            producer.begin_transaction()
            is_aborted = number % 10 == 9
            for key in range(KEYS):
                name = b"key-%d" % key
                value = None if (number + key) % 40 == 7 else b"%d-" % number + b"x" * 2500
                producer.produce(topic, value, name, 0, timestamp=1_700_000_000_000 + number)
                if not is_aborted:
                    expected[name] = value
            assert producer.flush(WAIT_S) == 0
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(WAIT_S)
    return expected


def read(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[Found]:
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": unique_name("reader"),
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "check.crcs": True,
    }
    found: list[Found] = []
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, "nothing more comes"
            if message.error() is not None:
                return found
            found.append((message.offset(), message.key(), message.value(), message.timestamp()[1]))


def planned(rest: str, topic: str) -> dict[str, Any]:
    with closing(PartitionOwner(rest)) as owner:
        return plan_compact(owner, topic, [0])[0]


def command(bootstrap: str, rest: str, topic: str, *more: str) -> list[str]:
    arguments = ("--bootstrap", bootstrap, "--rest", rest, "--json", *SPARK_ARGUMENTS, *more)
    return [bmq_command(), "spark", "compact", topic, *arguments]


def run(bootstrap: str, rest: str, topic: str, *more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        dying_with_us(command(bootstrap, rest, topic, *more)),
        capture_output=True,
        text=True,
        timeout=Patience(600).limit_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **SPARK_ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    return done


def compactions(server: BmqServer) -> int:
    found = re.search(r"^bmq_compactions_total (\d+)", server.get("/metrics")[1], re.MULTILINE)
    return int(found[1]) if found else 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BmqServer]:
    server = BmqServer(tmp_path / "data", {"BMQ_BROKER__COMPACTION_CHECK_INTERVAL_MS": "200"})
    server.start()
    yield server
    server.close()


def written(server: BmqServer, topic: str) -> dict[bytes, bytes | None]:
    """A new topic, all of whose segments are closed."""
    create_topic(server, topic, 1, CONFIGS)
    expected = write(server.bootstrap, [topic])
    eventually(
        lambda: planned(rest_of(server), topic)["end_offset"] == END_OFFSET,
        WAIT_S,
        f"all segments of {topic} are closed",
    )
    return expected


def rest_of(server: BmqServer) -> str:
    return f"http://127.0.0.1:{server.rest_port}"


def directory_of(server: BmqServer, topic: str) -> Path:
    return server.directory / "topics" / str(topic_id_of(server.bootstrap, topic)) / "0"


def descriptions(directory: Path) -> list[Path]:
    """Of the groups that a job has written."""
    return list(directory.glob("*.open/delegated.*/*.json"))


def killed_in_the_middle(server: BmqServer, topic: str, groups: int, log_file: Path) -> bool:
    """False if the job had written all its groups by then: how fast it is, Spark and the machine decide."""
    directory = directory_of(server, topic)
    job = ManagedProcess("compact", command(server.bootstrap, rest_of(server), topic), log_file, SPARK_ENVIRONMENT)
    job.start()
    try:
        eventually(lambda: not job.is_running or len(descriptions(directory)) >= 2, 600, "two groups are written")
    finally:
        job.kill()
    assert job.exit_code in (0, -signal.SIGKILL), f"the job has failed{job}"
    # The directory is gone once they are swapped in.
    return 2 <= len(descriptions(directory)) < groups


def test_a_job_that_was_killed_leaves_what_a_broker_leaves(server: BmqServer, tmp_path: Path) -> None:
    bootstrap, rest = server.bootstrap, rest_of(server)
    written(server, "by-broker")
    for number in range(TRIES_MAX):
        by_spark = f"by-spark-{number}"
        expected = written(server, by_spark)
        before = read(bootstrap, by_spark)
        plan = planned(rest, by_spark)
        assert plan["groups"] > 5
        if number == 0:
            assert json.loads(run(bootstrap, rest, by_spark, "--dry-run").stdout) == [plan]
            assert compactions(server) == 0, "the broker has left it alone"
        if killed_in_the_middle(server, by_spark, plan["groups"], tmp_path / f"compact-{number}.log"):
            break
    else:
        raise AssertionError("the job had always written all before it could be killed")
    assert read(bootstrap, by_spark) == before, "nothing was swapped in"

    (done,) = json.loads(run(bootstrap, rest, by_spark).stdout)
    assert 2 <= done["groups_before"] < done["groups"]
    assert done["first_dirty_offset"] == END_OFFSET
    left = read(bootstrap, by_spark)
    assert {key: value for _, key, value, _ in left} == expected
    assert len(left) == KEYS < len(before)
    (again,) = json.loads(run(bootstrap, rest, by_spark).stdout)
    assert again["groups"] == 0, "nothing is dirty"

    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry("min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET)
    count = compactions(server)
    resource = ConfigResource(ResourceType.TOPIC, "by-broker", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    eventually(lambda: compactions(server) > count, WAIT_S, "the broker has compacted the other one")
    for isolation in ("read_committed", "read_uncommitted"):
        assert read(bootstrap, by_spark, isolation=isolation) == read(bootstrap, "by-broker", isolation=isolation)
    assert not descriptions(directory_of(server, by_spark)), "the job's directory is gone"
    server.kill()
    server.start()
    assert read(bootstrap, by_spark) == left
