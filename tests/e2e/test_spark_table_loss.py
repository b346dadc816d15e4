"""Records are deleted while a table job has yet to read them: it stops with one sentence, and goes on when it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyiceberg.table import StaticTable

from testing.processes import ManagedProcess
from testing.servers import Server
from testing.table_topics import order, produce, table_command
from tests.e2e.conftest import create_topic, unique_name
from tests.e2e.test_spark_tables import ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(900)]

RECORDS, PARTITIONS, OFFSETS_PER_TRIGGER, DELETED_BEFORE = 6_000, 2, 50, 2_500
PADDING = "." * 4_000
"""A partition is much longer than one fetch, or the job's consumer would have all of it before it is deleted."""
BATCH_WAIT_S, END_WAIT_S = 180.0, 180.0


def rows(warehouse: Path) -> list[int]:
    """The ids in the table, read without Spark."""
    table = StaticTable.from_metadata(str(warehouse / "tables" / "orders"))
    ids = table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
    return sorted(ids)


def test_records_deleted_before_they_were_read(shared_server: Server, tmp_path: Path) -> None:
    topic = unique_name("orders")
    create_topic(shared_server, topic, PARTITIONS)
    produce(shared_server.bootstrap, topic, [order(each, padding=PADDING) for each in range(RECORDS)], PARTITIONS)

    def job(*options: str) -> ManagedProcess:
        command = table_command(shared_server.bootstrap, topic, tmp_path, *options)
        return ManagedProcess("table job", command, tmp_path / "job.log", ENVIRONMENT)

    slowly = job("--trigger-s", "0.05", "--max-offsets-per-trigger", str(OFFSETS_PER_TRIGGER))
    slowly.start()
    try:
        slowly.wait_for_line(r"\"batch\":2,", BATCH_WAIT_S)
        admin = AdminClient({"bootstrap.servers": shared_server.bootstrap})
        places = [TopicPartition(topic, partition, DELETED_BEFORE) for partition in range(PARTITIONS)]
        for deleted in admin.delete_records(places).values():
            deleted.result(30)
        assert slowly.wait(END_WAIT_S) == 2, f"{slowly}"
    finally:
        slowly.kill()
    said = slowly.log_of_this_run()
    (sentence,) = [line for line in said.splitlines() if line.startswith("bmq: ")]
    assert "failOnDataLoss=false" in sentence and topic in sentence, sentence
    assert not any(line.startswith("Traceback") for line in said.splitlines()), "Spark's own log has its own, indented"
    before = rows(tmp_path / "warehouse")
    assert before == list(range(len(before))) and 0 < len(before) < PARTITIONS * DELETED_BEFORE, (
        "whole batches, in order"
    )

    goes_on = job("--available-now", "--option", "failOnDataLoss=false")
    goes_on.start()
    try:
        assert goes_on.wait(END_WAIT_S) == 0, f"{goes_on}"
    finally:
        goes_on.kill()
    expected = [*before, *range(PARTITIONS * DELETED_BEFORE, RECORDS)]
    assert rows(tmp_path / "warehouse") == expected
