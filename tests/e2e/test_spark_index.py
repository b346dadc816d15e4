"""The job of an index, killed again and again: every answer is that of a look at all records, before, between and after.

The tail is decoded without Spark, the files by Spark: the same queries before and after compare both.

More by variables: BMQ_INDEX_KILLS=30 BMQ_INDEX_QUERIES=10013 BMQ_INDEX_RECORDS=600 python -m pytest tests/e2e/test_spark_index.py
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from bmq.index.answer import Answer
from bmq.index.engine import EngineLimits, QueryEngine
from bmq.index.file_planning import IndexFiles
from bmq.index.query import IndexQuery
from bmq.index.stored_index import stored_index
from bmq.index.topic_log import TopicLog
from bmq.table_definitions.stored import StoredTable
from testing.patience import Patience
from testing.processes import REPOSITORY, ManagedProcess, dying_with_us, eventually
from testing.servers import BmqServer, Server
from testing.table_topics import JARS_OF_SPARK, SUBMIT_ARGUMENTS
from tests.e2e.conftest import create_topic, unique_name
from tests.support.spark import SPARK_ENVIRONMENT
from tests.unit.index.indexes import FORM, NOW_MS, order

PARTITIONS: Final = 2
KILLS: Final = int(os.environ.get("BMQ_INDEX_KILLS", "3"))
DRAWN_QUERIES: Final = int(os.environ.get("BMQ_INDEX_QUERIES", "100")) // (KILLS + 1)
"""So many are asked, beside the fixed ones, after each kill and at the end."""
RECORDS: Final = int(os.environ.get("BMQ_INDEX_RECORDS", "3000"))
"""Each query before the first batch, and in part between kills, decodes all of them in Python."""
OFFSETS_PER_TRIGGER: Final = 3 * RECORDS // (10 * KILLS)
"""A killed job ends two or three batches, so the last kill finds records that are not indexed."""
ENVIRONMENT = {**SPARK_ENVIRONMENT, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS, "TZ": "UTC"}
ODD = [
    b'{"customer":{"id":17},"price":"1e1","city":{"a":[1, 2.50]}}',
    b'{"customer":{"id":"c1"},"price":12.345,"city":"Bern","is_gift":null}',
    b'{"customer":{"id":"c1"},"price":123456789}',
    b'{"customer":{"id":"c1"},"is_gift":1}',
    b'{"customer":{"id":"c1"}}{"customer":{"id":"c2"}}',
    b'{"customer":"c1"}',
    b'{"customer":null,"city":true,"paid_at":9223372036854775807}',
    b'{"customer":{"id":"c1"},"paid_at":"2026-01-01"}',
    b'{"customer":{"id":"\xc3\xa4"},"city":"B\xc3\xa4rn"}',
    b'{"customer":{"id":"\xff"}}',
    b"[]",
    b"",
]


def drawn_queries(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Queries over every kind of condition, most of which find something."""

    def equals() -> dict[str, Any]:
        field = chance.choice(["customer", "city", "is_gift"])
        value: Any = {
            "customer": f"c{chance.randrange(11)}",
            "city": chance.choice(["Berlin", "Bern", "Aachen"]),
            "is_gift": chance.random() < 0.5,
        }[field]
        return {"equals": {field: value}}

    def price() -> dict[str, Any]:
        low = chance.randrange(100)
        return {"ranges": {"price": {"from": str(low), "to": str(low + chance.randrange(1, 30))}}}

    def prefix() -> dict[str, Any]:
        return {"prefixes": {"city": "Berlin"[: chance.randint(1, 6)]}}

    def window() -> dict[str, Any]:
        end_ms = NOW_MS - chance.randrange(RECORDS) * 4_000
        return {"from": end_ms - chance.randrange(1, 8 * 3_600_000), "to": end_ms}

    queries = []
    for _ in range(count):
        query: dict[str, Any] = {"order": chance.choice(["asc", "desc"]), "limit": chance.choice([1, 20, 5_000])}
        for condition in chance.sample([equals, price, prefix, window], chance.randint(1, 3)):
            query |= condition()
        if chance.random() < 0.3:
            query["order_by"] = "price"
        queries.append(query)
    return queries


QUERIES: list[dict[str, Any]] = [
    {"limit": 10_000},
    *({"equals": {"customer": f"c{number}"}} for number in range(10)),
    {"equals": {"customer": "17"}},
    {"equals": {"customer": "ä"}},
    {"equals": {"customer": "nobody"}},
    {"ranges": {"price": {"from": "10", "to": "12.5"}}, "order_by": "price"},
    {"prefixes": {"city": "Ber"}, "from": NOW_MS - 3_600_000, "order": "desc"},
    {"prefixes": {"city": "{"}},
    {"ranges": {"paid_at": {"from": NOW_MS - 60_000}}, "order_by": "paid_at"},
    {"equals": {"is_gift": True, "city": "Bern"}},
    *drawn_queries(random.Random(5), DRAWN_QUERIES),
]

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(700 + 100 * KILLS + len(QUERIES) * (KILLS + 2))]


class Story:
    def __init__(self, server: BmqServer, directory: Path) -> None:
        self.server, self.directory = server, directory
        self.topic, self.name = unique_name("orders"), f"i{uuid.uuid4().hex[:8]}"
        create_topic(server, self.topic, PARTITIONS, {"retention.ms": "-1"})  # the records are of last year
        self.log = TopicLog({"bootstrap.servers": server.bootstrap})
        files = IndexFiles(f"file:{directory}/warehouse")
        self.engine = QueryEngine(files, self.log, EngineLimits(timeout_s=120), now_ms=lambda: NOW_MS)
        self.known: StoredTable

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.server.bootstrap, "linger.ms": 5})
        for number in range(RECORDS):
            value = ODD[number // 20 % len(ODD)] if number % 20 == 19 else order(number)
            at_ms = NOW_MS - (RECORDS - number) * 4_000
            producer.produce(self.topic, value, partition=number % PARTITIONS, timestamp=at_ms)
        assert producer.flush(60) == 0

    def create(self) -> None:
        ddl = self.directory / "ddl.json"
        form = {key: value for key, value in FORM.items() if key not in ("name", "topic")}
        ddl.write_text(json.dumps({**form, "index": {**form["index"], "retention_ms": 10 * 365 * 86_400_000}}))
        made = self.cli("index", "create", self.name, "--topic", self.topic, "--ddl", str(ddl))
        assert made.returncode == 0, made.stderr
        self.known = stored_index(json.loads(self.server.get(f"/v1/tables/{self.name}")[1]))

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.command(*arguments))

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            dying_with_us(command),
            capture_output=True,
            text=True,
            timeout=Patience(500).limit_s,
            check=False,
            cwd=REPOSITORY,
            env={**os.environ, **ENVIRONMENT},
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "bmq.cli.main", *arguments, "--rest", f"http://127.0.0.1:{self.server.rest_port}"]

    def job(self, *options: str) -> list[str]:
        place = (
            "--warehouse",
            f"file:{self.directory}/warehouse",
            "--checkpoints",
            str(self.directory / "checkpoints"),
        )
        pace = ("--max-offsets-per-trigger", str(OFFSETS_PER_TRIGGER), "--bootstrap", self.server.bootstrap)
        return self.command(
            *("spark", "index", self.name, *place, *pace, "--master", "local[2]", "--json"),
            *("--jars", JARS_OF_SPARK, "--conf", "spark.sql.shuffle.partitions=2", *options),
        )

    def answers(self) -> list[Answer]:
        return [
            self.engine.query(self.known, IndexQuery.from_json(json.dumps({"limit": 5_000} | query)))
            for query in QUERIES
        ]

    def indexed(self) -> int:
        return sum(self.answers()[0].to_json()["partitions"][p]["indexed_to"] for p in range(PARTITIONS))


@pytest.fixture
def story(shared_server: Server, tmp_path: Path) -> Iterator[Story]:
    assert isinstance(shared_server, BmqServer)
    made = Story(shared_server, tmp_path)
    with closing(made.log), closing(made.engine):
        yield made


def rows(answers: list[Answer]) -> list[list[dict[str, Any]]]:
    return [[row.to_json() for row in answer.rows] for answer in answers]


def compare(found: list[list[dict[str, Any]]], wanted: list[list[dict[str, Any]]]) -> None:
    for query, mine, theirs in zip(QUERIES, found, wanted, strict=True):
        mine_at, theirs_at = ({(row["partition"], row["offset"]): row for row in each} for each in (mine, theirs))
        places = sorted(mine_at.keys() | theirs_at.keys())
        different = [(mine_at.get(at), theirs_at.get(at)) for at in places if mine_at.get(at) != theirs_at.get(at)]
        assert different == [], query
        assert mine == theirs, f"the order of {query}"


def test_answers_stay_the_same_while_the_job_is_killed(story: Story) -> None:
    story.produce()
    story.create()
    first = story.answers()
    by_tail = rows(first)
    assert all(answer.estimate.files == 0 and answer.is_complete for answer in first)
    assert len(by_tail[0]) > RECORDS * 8 // 10
    chance = random.Random(7)
    for kill in range(KILLS):
        job = ManagedProcess(
            "index job", story.job("--trigger-s", "0.05"), story.directory / f"job-{kill}.log", ENVIRONMENT
        )
        job.start()
        job.wait_for_line(rf"(?s)(\"batch\":\d+.*){{{chance.randint(1, 2)}}}", 240)
        os.killpg(job.pid, signal.SIGKILL)
        job.kill()
        compare(rows(story.answers()), by_tail)
    assert 0 < story.indexed() < RECORDS
    done = story.run(story.job("--available-now", "--merge-every", "3"))
    assert done.returncode == 0, done.stderr[-8_000:]
    by_files = story.answers()
    assert story.indexed() == RECORDS
    compare(rows(by_files), by_tail)
    assert all(answer.tail_records == 0 for answer in by_files)
    nobody, by_key = by_files[13], by_files[1]
    assert nobody.estimate.files <= by_key.estimate.files < by_key.estimate.files_total + 1

    # The layout: sorted by the keys, with bloom filters, in partitions by hour.
    files = sorted((story.directory / "warehouse" / "tables" / story.name / "data").rglob("*.parquet"))
    footer = pq.ParquetFile(files[-1]).metadata
    names = [footer.row_group(0).column(number).path_in_schema for number in range(footer.num_columns)]
    assert {"customer", "_bmq_partition", "_bmq_offset", "_bmq_timestamp"} <= set(names)
    customers = pq.read_table(files[-1])["customer"].to_pylist()
    present = [each for each in customers if each is not None]
    assert present == sorted(present)
    assert all("_bmq_timestamp_hour=" in str(file) for file in files)
    status = json.loads(story.server.get(f"/v1/tables/{story.name}/status")[1])
    assert status["lag"] == 0
    assert status["rows"] == len(by_tail[0])
    assert status["dead_letter_rows"] == RECORDS - len(by_tail[0])


SQL = """
import sys
from pyspark.sql import SparkSession
from bmq.spark.tables.iceberg import Catalog
spark = SparkSession.builder.getOrCreate()
Catalog.in_warehouse(sys.argv[1]).configure(spark)
spark.sql(sys.argv[2]).collect()
"""


def test_a_day_is_built_again_beside_the_job(story: Story) -> None:
    """Half of the day's rows are lost, and the job adds more of the day while it is built again."""
    story.produce()
    story.create()
    by_tail = rows(story.answers())
    first = story.run(story.job("--available-now"))
    assert first.returncode == 0, first.stderr[-8_000:]
    warehouse = f"file:{story.directory}/warehouse"
    half = NOW_MS - RECORDS * 4_000 // 2
    loss = (
        f"DELETE FROM bmq.tables.{story.name} WHERE _bmq_timestamp < timestamp_millis({half // 3_600_000 * 3_600_000})"
    )
    lost = story.run([sys.executable, "-c", SQL, warehouse, loss])
    assert lost.returncode == 0, lost.stderr[-4_000:]
    damaged = rows(story.answers())
    assert 0 < len(damaged[0]) < len(by_tail[0])

    job = ManagedProcess("index job", story.job("--trigger-s", "0.2"), story.directory / "beside.log", ENVIRONMENT)
    job.start()
    late_count = 50
    producer = Producer({"bootstrap.servers": story.server.bootstrap})

    def produce_late() -> None:
        for number in range(late_count // 2):
            value = b'{"customer":{"id":"late"},"price":1,"city":"Bern"}'
            producer.produce(story.topic, value, partition=number % PARTITIONS, timestamp=NOW_MS - 60_000)
        assert producer.flush(60) == 0

    try:
        produce_late()
        job.wait_for_line(r"\"batch\":\d+", 240)
        produce_late()
        day = datetime.fromtimestamp(NOW_MS / 1_000, UTC).date().isoformat()
        rebuilt = story.run(story.job("--rebuild-day", day))
        assert rebuilt.returncode == 0, rebuilt.stderr[-8_000:]
        said = json.loads(rebuilt.stdout.splitlines()[-1])
        assert (said["index"], said["day"]) == (story.name, day)
        assert said["rows"] >= len(by_tail[0]) > said["rows_before"] - late_count
        eventually(lambda: story.indexed() == RECORDS + late_count, 240, "the job has the late records")
    finally:
        job.kill()
    answers = story.answers()
    assert all(answer.is_complete for answer in answers)
    late = {"equals": {"customer": "late"}, "limit": 1_000}
    found = story.engine.query(story.known, IndexQuery.from_json(json.dumps(late)))
    assert len(found.rows) == late_count
    kept = [[row for row in each if row["fields"]["customer"] != "late"] for each in rows(answers)]
    compare(kept, by_tail)

    # What cannot be built again is a sentence.
    refused = story.run(story.job("--rebuild-day", "2010-01-01"))
    assert refused.returncode == 2 and "keeps no rows of 2010-01-01" in refused.stderr, refused.stderr[-2_000:]
