"""`bmq index` against a real server: what is in files, what is only in the topic, what was deleted, and a topic made again.

The files are written by pyiceberg, as the job lays them out; test_spark_index.py has the job itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bmq.index.answer import Answer, Row
from bmq.index.engine import EngineLimits, QueryEngine
from bmq.index.errors import QueryFailed, SourceAway
from bmq.index.file_planning import IndexFiles
from bmq.index.query import IndexQuery
from bmq.index.stored_index import stored_index
from bmq.index.topic_log import TopicLog
from bmq.table_definitions.stored import StoredTable
from testing.patience import Patience
from testing.processes import REPOSITORY, ManagedProcess, dying_with_us, eventually, free_port
from testing.servers import BmqServer, Server
from tests.e2e.conftest import create_topic, unique_name
from tests.fakes.indexed_topic import IndexedTopic
from tests.unit.index.indexes import NOW_MS, IndexWriter, order

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.bmq_only, pytest.mark.timeout(240)]

RECORDS = 200
DDL = {
    "format": "json",
    "fields": [
        {"name": "customer", "type": "string", "path": "customer.id"},
        {"name": "price", "type": "decimal(10,2)"},
        {"name": "city", "type": "string"},
    ],
    "index": {"keys": [{"field": "customer"}, {"field": "price", "by": "range"}, {"field": "city", "by": "prefix"}]},
}


class Indexed:
    """An index of a topic with two partitions, of which one is partly in files."""

    def __init__(self, server: BmqServer, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.topic, self.name = unique_name("orders"), f"i{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": server.bootstrap})
        create_topic(server, self.topic, 2, {"retention.ms": "-1"})  # the records are of last year
        self.produce()
        self.ddl = directory / "ddl.json"
        self.ddl.write_text(json.dumps(DDL))
        self.log = TopicLog({"bootstrap.servers": server.bootstrap})
        files = IndexFiles(str(directory / "warehouse"))
        self.engine = QueryEngine(files, self.log, EngineLimits(threads=1), now_ms=lambda: NOW_MS)
        self.known: StoredTable

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.server.bootstrap, "transactional.id": self.name})
        producer.init_transactions(30)
        for number in range(RECORDS):
            producer.begin_transaction() if number % 50 == 0 else None
            place = {"partition": number % 2, "timestamp": NOW_MS + number}
            producer.produce(self.topic, order(number), key=f"k{number}", headers=[("n", b"1")], **place)
            producer.commit_transaction(30) if number % 50 == 49 else None
        producer.begin_transaction()
        producer.produce(self.topic, order(3), partition=1, timestamp=NOW_MS)
        producer.abort_transaction(30)

    def stored(self) -> StoredTable:
        return stored_index(json.loads(self.server.get(f"/v1/tables/{self.name}")[1]))

    def write_files(self, end: int) -> int:
        """What has an offset below `end` in partition 0, as the job writes it. Returns how many records these are."""
        stored = self.stored()
        copy = IndexedTopic(self.topic, stored.topic_id, 2)
        found = self.log.fetch(self.topic, {0: range(end)}, bytes_max=1 << 30, deadline_s=float("inf"))
        for offset in range(end):
            record = found[0, offset]  # None: the end of a transaction
            copy.append(
                0,
                [None if record is None else record.value],
                timestamp_ms=None if record is None else record.timestamp_ms,
            )
        IndexWriter(self.directory / "warehouse", stored, copy).index_to({0: end}, topic_id=stored.topic_id)
        return sum(record is not None for record in found.values())

    def refusal(self) -> str:
        """Why a query is not answered; empty if it is."""
        try:
            self.ask()
        except QueryFailed as error:
            return str(error)
        return ""

    def ask(self, **form: Any) -> Answer:
        return self.engine.query(self.known, IndexQuery.from_json(json.dumps({"limit": 1_000, **form})))

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        rest = f"http://127.0.0.1:{self.server.rest_port}"
        return subprocess.run(
            dying_with_us([sys.executable, "-m", "bmq.cli.main", "index", *arguments, "--rest", rest]),
            capture_output=True,
            text=True,
            timeout=Patience(100).limit_s,
            check=False,
            cwd=REPOSITORY,
        )


@pytest.fixture
def indexed(server: Server, tmp_path: Path) -> Iterator[Indexed]:
    assert isinstance(server, BmqServer)
    made = Indexed(server, tmp_path)
    with closing(made.log), closing(made.engine):
        yield made


def places(answer: Answer) -> list[tuple[int, int]]:
    return [(row.partition, row.offset) for row in answer.rows]


def test_an_index_from_its_creation_to_its_end(indexed: Indexed) -> None:
    created = indexed.cli("create", indexed.name, "--topic", indexed.topic, "--ddl", str(indexed.ddl))
    assert created.stdout == f"Index {indexed.name} is made of topic {indexed.topic} (2 partitions).\n", created.stderr
    indexed.known = indexed.stored()

    # Nothing is indexed: all comes from the topic, without the aborted record.
    wanted = sorted(n for n in range(RECORDS) if n % 10 == 3 and n % 11 != 10)
    tail = indexed.ask(equals={"customer": "c3"}, records=True)
    assert sorted(number_of(row) for row in tail.rows) == wanted
    assert tail.is_complete

    # A part is in files: the answer is the same, and less is read of the topic.
    count = indexed.write_files(60)
    both = indexed.ask(equals={"customer": "c3"}, records=True)
    assert places(both) == places(tail)
    assert sorted(number_of(row) for row in both.rows) == wanted
    assert both.tail_records == tail.tail_records - count < tail.tail_records
    first = indexed.ask(prefixes={"city": "Ber"}, order="desc", limit=10)
    rest = indexed.ask(prefixes={"city": "Ber"}, order="desc", continuation=first.continuation)
    whole = indexed.ask(prefixes={"city": "Ber"}, order="desc")
    assert places(first) + places(rest) == places(whole)
    place = ("--local", "--warehouse", str(indexed.directory / "warehouse"), "--bootstrap", indexed.server.bootstrap)
    shown = indexed.cli("query", indexed.name, "--key", "customer=c3", "--from", str(NOW_MS), "--limit", "2", *place)
    assert shown.stdout.splitlines()[0].split() == ["partition", "offset", "timestamp", "customer", "price", "city"]
    assert len(shown.stdout.splitlines()) == 3
    assert "complete up to the ends of all 2 partitions" in shown.stderr

    # What is deleted is hidden, in the files and in the topic.
    starts = {0: 20, 1: 30}
    deleted = indexed.admin.delete_records([TopicPartition(indexed.topic, p, start) for p, start in starts.items()])
    for future in deleted.values():
        future.result(20)
    left = indexed.ask(equals={"customer": "c3"})
    assert {each.partition: each.log_start for each in left.partitions} == starts
    assert places(left) == [(p, offset) for p, offset in places(tail) if offset >= starts[p]]

    # A topic of the same name is another topic.
    indexed.admin.delete_topics([indexed.topic])[indexed.topic].result(20)
    eventually(lambda: "does not exist any more" in indexed.refusal(), 60, "the topic is gone")
    create_topic(indexed.server, indexed.topic, 2)
    eventually(lambda: "was deleted and made again since index" in indexed.refusal(), 60, "the topic is another one")
    assert indexed.cli("drop", indexed.name, "--yes").returncode == 0
    gone = indexed.cli("query", indexed.name, *place)
    assert (gone.returncode, gone.stderr) == (1, f"bmq: there is no table {indexed.name}\n")


def test_a_service_answers_over_http_until_it_is_stopped(indexed: Indexed) -> None:
    created = indexed.cli("create", indexed.name, "--topic", indexed.topic, "--ddl", str(indexed.ddl))
    assert created.returncode == 0, created.stderr
    token = indexed.directory / "token"
    token.write_text("secret\n")
    command = [
        *(
            sys.executable,
            "-m",
            "bmq.cli.main",
            "index",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--token-file",
            str(token),
        ),
        *("--warehouse", str(indexed.directory / "warehouse"), "--bootstrap", indexed.server.bootstrap),
        *("--rest", f"http://127.0.0.1:{indexed.server.rest_port}"),
    ]
    service = ManagedProcess("bmq index serve", command, indexed.directory / "service.log", {})
    service.start()
    try:
        ready = service.wait_for_line(r"^bmq index ready http=127\.0\.0\.1:(\d+)$", 120)
        url = f"http://127.0.0.1:{ready[1]}/v1/indexes"
        query = {"equals": {"customer": "c3"}, "limit": 1_000}
        with httpx.Client(timeout=60.0, trust_env=False) as client:
            assert client.post(f"{url}/{indexed.name}/query", json=query).status_code == 401
            client.headers["authorization"] = "Bearer secret"
            answer = client.post(f"{url}/{indexed.name}/query", json=query)
            assert answer.status_code == 200, answer.text
            wanted = sum(n % 10 == 3 and n % 11 != 10 for n in range(RECORDS))
            assert (len(answer.json()["rows"]), answer.json()["is_complete"]) == (wanted, True)
            assert client.post(f"{url}/nothing/query", json=query).json()["detail"] == "there is no index nothing"
        os.kill(service.pid, signal.SIGTERM)
        eventually(lambda: not service.is_running, 60, "the service ends")
        assert service.exit_code == 0
    finally:
        service.kill()


def test_a_server_that_is_away_is_one_sentence(indexed: Indexed) -> None:
    log = TopicLog(
        {"bootstrap.servers": f"127.0.0.1:{free_port()}", "socket.connection.setup.timeout.ms": "1000"},
        answer_wait_s=1.0,
    )
    with closing(log), pytest.raises(SourceAway, match=rf"^topic {indexed.topic} cannot be asked for: "):
        log.state(indexed.topic)


def number_of(row: Row) -> int:
    assert row.record is not None
    assert row.record.headers == (("n", b"1"),)
    assert row.record.key is not None
    return int(row.record.key.decode().removeprefix("k"))
