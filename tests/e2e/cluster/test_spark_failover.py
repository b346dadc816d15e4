"""A Spark job through the stock connector while brokers die under it: every row, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from testing.cluster import BmqCluster
from testing.processes import eventually
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.test_spark import run_job

pytestmark = [pytest.mark.campaign("spark-cluster"), pytest.mark.bmq_only, pytest.mark.timeout(600), pytest.mark.safety]

PARTITIONS = 3
ROWS = 40_000
TRIES_MAX = 3


def end_offsets(cluster: BmqCluster, topic: str) -> int:
    """How many records the topic has."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "log_level": 0})
    try:
        watermarks = [
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
            for partition in range(PARTITIONS)
        ]
    finally:
        consumer.close()
    return sum(end for _, end in watermarks)


def test_batch_and_stream_while_brokers_die(cluster: BmqCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """One broker dies during the batch write, another one while the stream copies what was written."""
    was_in_time = any(
        copied_while_brokers_die(cluster, make_topic(cluster, PARTITIONS), make_topic(cluster, PARTITIONS), directory)
        for directory in (tmp_path / str(number) for number in range(TRIES_MAX))
    )
    assert was_in_time, "the job was always over before a broker died"


def copied_while_brokers_die(cluster: BmqCluster, source: str, sink: str, directory: Path) -> bool:
    """False if the job was over before: how fast it is, Spark and the machine decide."""
    over_early: list[str] = []
    with ThreadPoolExecutor(1) as background:
        job = background.submit(
            run_job, directory, "copy", cluster.bootstrap, source, sink, str(directory / "checkpoint"), str(ROWS)
        )

        def hurt(topic: str) -> None:
            eventually(lambda: job.done() or end_offsets(cluster, topic) > 0, 120, f"{topic} gets its first rows")
            victim = cluster.owner_of(topic, 0)
            victim.kill()
            if job.done():
                over_early.append(topic)
            eventually(lambda: victim.node_id not in cluster.owners_of(topic), 20, "the partitions have a new owner")
            victim.start()

        hurt(source)
        hurt(sink)
        result = job.result(200)
    assert (result["written"], result["processed"]) == (ROWS, ROWS)
    for topic in (source, sink):
        rows = result["rows"][topic]
        assert sorted((int(key), int(value)) for key, value, _, _ in rows) == [(n, 2 * n) for n in range(ROWS)]
    return not over_early
