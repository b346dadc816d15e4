"""Tables whose records change rows, their job and its server killed: each key has the row of its last record, or none.

More of both by variables: BMQ_UPSERT_KEYS=1000000 BMQ_UPSERT_KILLS=30 python -m pytest tests/e2e/test_spark_upsert_tables.py
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from pyiceberg.table import StaticTable

from testing.patience import Patience
from testing.processes import REPOSITORY, ManagedProcess, dying_with_us
from testing.servers import BmqServer
from testing.table_topics import JARS_OF_SPARK, SUBMIT_ARGUMENTS
from tests.e2e.conftest import ServerMaker, create_topic, unique_name
from tests.support.spark import SPARK_ENVIRONMENT

KEYS: Final = int(os.environ.get("BMQ_UPSERT_KEYS", "2000"))
KILLS: Final = int(os.environ.get("BMQ_UPSERT_KILLS", "3"))
RECORDS: Final = 2 * KEYS
PARTITIONS: Final = 2
BATCHES: Final = 5 * (KILLS + 1)
OFFSETS_PER_TRIGGER: Final = max(100, RECORDS // BATCHES)
WAIT_S: Final = 240.0 + KEYS / 400
"""A merge into a million keys takes 5 to 10 s on two processors, and there are 150 of them."""
ENVIRONMENT: Final = {**SPARK_ENVIRONMENT, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS, "TZ": "UTC"}

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(900 + KEYS // 100 * max(1, KILLS // 3))]

Rows = dict[int, tuple[str | None, int]]


class Tables:
    """A table of the cluster and its job; `directory` has the definition, the warehouse and the checkpoints."""

    def __init__(self, server: BmqServer, directory: Path, name: str) -> None:
        self.server, self.directory, self.name = server, directory, name
        self.topic = unique_name(name)
        create_topic(server, self.topic, PARTITIONS)

    def create(self, form: dict[str, Any], *options: str) -> None:
        definition = self.directory / f"{self.name}.json"
        definition.write_text(json.dumps({"name": self.name, "topic": self.topic, "format": "json", **form}))
        made = self.run(self.command("table", "create", str(definition), *options))
        assert made.returncode == 0, made.stderr

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "bmq.cli.main", *arguments, "--rest", f"http://127.0.0.1:{self.server.rest_port}"]

    def job(self, *options: str) -> list[str]:
        return self.command(
            *("spark", "table", self.name, "--bootstrap", self.server.bootstrap, "--jars", JARS_OF_SPARK),
            *("--warehouse", f"file:{self.directory}/warehouse", "--checkpoints", str(self.directory / "checkpoints")),
            *("--max-offsets-per-trigger", str(OFFSETS_PER_TRIGGER), "--merge-every", "4", "--json", *options),
        )

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            dying_with_us(command),
            capture_output=True,
            text=True,
            timeout=Patience(WAIT_S).limit_s,
            check=False,
            cwd=REPOSITORY,
            env={**os.environ, **ENVIRONMENT},
        )

    def finish(self) -> list[dict[str, Any]]:
        """Run the job until the table has everything: its reports."""
        done = self.run(self.job("--available-now"))
        assert done.returncode == 0, done.stderr[-8_000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"table"')]

    def kill_a_job(self, number: int, batches: int) -> None:
        """In the middle of what follows so many batches; each third time with the server that it reads."""
        job = ManagedProcess(
            "upsert job", self.job("--trigger-s", "0.05"), self.directory / f"job-{number}.log", ENVIRONMENT
        )
        job.start()
        job.wait_for_line(rf"(?s)(\"batch\":\d+.*){{{batches}}}", WAIT_S)
        with_node = number % 3 == 2
        if with_node:
            self.server.kill()
        os.killpg(job.pid, signal.SIGKILL)
        job.kill()
        if with_node:
            self.server.start()

    def rows(self) -> Rows:
        """Read without Spark and bmq."""
        table = StaticTable.from_metadata(str(self.directory / "warehouse" / "tables" / self.name)).scan().to_arrow()
        found = zip(*(table[name].to_pylist() for name in ("id", "city", "_bmq_offset")), strict=True)
        rows = {number: (city, offset) for number, city, offset in found}
        assert len(rows) == table.num_rows, "a key has two rows"
        return rows

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.server.get(f"/v1/tables/{self.name}/status")[1])
        return found


@pytest.fixture
def server(new_server: ServerMaker) -> BmqServer:
    server = new_server()
    assert isinstance(server, BmqServer)
    server.start()
    return server


Encode = Callable[[int, "str | None", bool], "tuple[bytes, bytes | None]"]


def produce(tables: Tables, encode: Encode, seed: int) -> Rows:
    """Random changes of random keys. Returns what a replay of the topic gives: the oracle."""
    chance = random.Random(seed)
    producer = Producer(
        {"bootstrap.servers": tables.server.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 2_000_000}
    )
    offsets, rows = dict.fromkeys(range(PARTITIONS), 0), Rows()
    for number in range(RECORDS):
        key = chance.randrange(KEYS)
        city = chance.choice([None, "Bern", "Ulm"])
        is_deletion = chance.random() < 0.2
        partition = zlib.crc32(b"%d" % key) % PARTITIONS
        record_key, value = encode(key, city, is_deletion)
        producer.produce(tables.topic, value, record_key, partition=partition)
        if is_deletion:
            rows.pop(key, None)
        else:
            rows[key] = (city, offsets[partition])
        offsets[partition] += 1
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0
    return rows


def as_upsert(key: int, city: str | None, is_deletion: bool) -> tuple[bytes, bytes | None]:
    return b"%d" % key, None if is_deletion else json.dumps({"id": key, "city": city}).encode()


def as_envelope(key: int, city: str | None, is_deletion: bool) -> tuple[bytes, bytes]:
    row = {"id": key, "city": city}
    envelope = {"before": row, "after": None, "op": "d"} if is_deletion else {"before": None, "after": row, "op": "c"}
    return b"{}", json.dumps({"schema": {"type": "struct"}, "payload": {**envelope, "ts_ms": 1}}).encode()


UPSERT: Final[dict[str, Any]] = {
    "fields": [
        {"name": "key", "type": "string", "source": "key"},
        {"name": "id", "type": "long", "required": True},
        {"name": "city", "type": "string"},
    ]
}
DEBEZIUM: Final[dict[str, Any]] = {
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
    "partitioning": [{"by": "bucket", "field": "id", "buckets": 4}],
    "changes": {"key": ["id"], "mode": "debezium", "envelope": "payload"},
}


def test_the_last_record_of_each_key_wins_whatever_is_killed(server: BmqServer, tmp_path: Path) -> None:
    tables = Tables(server, tmp_path, unique_name("upserts").replace("-", "_"))
    tables.create(UPSERT, "--key", "key")
    expected = produce(tables, as_upsert, seed=5)
    chance = random.Random(5)
    for kill in range(KILLS):
        tables.kill_a_job(kill, chance.randint(1, 2))
    tables.finish()
    assert tables.rows() == expected
    status = tables.status()
    assert (status["state"], status["lag"], status["rows"]) == ("stopped", 0, len(expected))
    assert status["dead_letter_rows"] == 0

    # Again, with a column more, and a record that does not fit.
    form = json.loads((tmp_path / f"{tables.name}.json").read_text())
    form["fields"].append({"name": "note", "type": "string"})
    altered = tmp_path / "altered.json"
    altered.write_text(json.dumps({**form, "changes": {"key": ["key"]}}))
    assert tables.run(tables.command("table", "alter", str(altered))).returncode == 0
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(tables.topic, b"no JSON", b"x", partition=0)
    producer.produce(tables.topic, None, None, partition=0)
    producer.produce(tables.topic, b'{"id":-1,"city":"Chur","note":"new"}', b"-1", partition=1)
    assert producer.flush(30) == 0
    (report,) = [each for each in tables.finish() if not each["is_replay"]]
    assert (report["rows"], report["deletions"], report["dead_letters"]) == (1, 0, 2)
    rows = tables.rows()
    assert rows.pop(-1)[0] == "Chur"
    assert rows == expected
    assert tables.status()["rows"] == len(expected) + 1

    # A key that moves to another partition has no last record.
    producer.produce(tables.topic, b'{"id":-1,"city":"Rom"}', b"-1", partition=0)
    assert producer.flush(30) == 0
    refused = tables.run(tables.job("--available-now"))
    assert refused.returncode == 2, refused.stderr[-2_000:]
    (sentence,) = [line for line in refused.stderr.splitlines() if line.startswith("bmq: ")]
    assert f"key '-1' of table {tables.name} has records in partitions 1 and 0" in sentence


def test_debeziums_changes_give_the_rows_of_the_database(server: BmqServer, tmp_path: Path) -> None:
    tables = Tables(server, tmp_path, unique_name("changes").replace("-", "_"))
    tables.create(DEBEZIUM)
    expected = produce(tables, as_envelope, seed=6)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    # Behind a deletion Debezium sends a tombstone; a truncated table is no change of a row.
    producer.produce(tables.topic, None, b"{}", partition=0)
    producer.produce(tables.topic, b'{"payload":{"op":"t"}}', b"{}", partition=0)
    assert producer.flush(30) == 0
    reports = tables.finish()
    assert tables.rows() == expected
    assert sum(each["dead_letters"] for each in reports) == 1
    assert tables.status()["rows"] == len(expected)
