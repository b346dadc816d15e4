"""Tables of views: what the view shows is in the table once, whatever dies; no other record is, not even as a dead letter."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyiceberg.table import StaticTable

from testing.processes import ManagedProcess, eventually
from testing.servers import BmqServer
from testing.table_topics import order, orders_form, table_command
from tests.e2e.conftest import create_topic, unique_name
from tests.e2e.test_spark_tables import ENVIRONMENT
from tests.e2e.test_views import make_view

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.bmq_only, pytest.mark.timeout(1_000)]

FIRST, SECOND, ABORTED, PARTITIONS, KILLS, OFFSETS_PER_TRIGGER = 1_200, 300, 50, 2, 2, 90
BATCH_WAIT_S, END_WAIT_S = 240.0, 240.0
FILTER = "tag = 'paid'"


def is_shown(number: int) -> bool:
    return number % 3 == 0


def fits(number: int) -> bool:
    """Of the records that the view shows and of the others some do not."""
    return number % 50 > 1


def produce(bootstrap: str, topic: str, numbers: range, **config: Any) -> None:
    """Every third record is shown by the view. With a transactional id they are aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **config})
    if "transactional.id" in config:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number in numbers:
        tag = b"paid" if is_shown(number) else b"open"
        value = order(number) if fits(number) else b"no JSON"
        producer.produce(topic, value, f"k{number}", number % PARTITIONS, headers=[("bmq-tag", tag)])
    assert producer.flush(30) == 0
    if "transactional.id" in config:
        producer.abort_transaction(30)


class Places:
    """Where each record is: offsets count aborted records and the marker of their transaction too."""

    def __init__(self) -> None:
        self.next = [0] * PARTITIONS
        self.rows: list[tuple[int, int, int]] = []
        self.dead: list[tuple[int, int]] = []

    def add(self, numbers: range) -> None:
        for number in numbers:
            partition = number % PARTITIONS
            offset, self.next[partition] = self.next[partition], self.next[partition] + 1
            if is_shown(number):
                self.rows.append((partition, offset, number)) if fits(number) else self.dead.append((partition, offset))

    def skip(self, numbers: range) -> None:
        for number in numbers:
            self.next[number % PARTITIONS] += 1
        self.next = [offset + 1 for offset in self.next]


def columns(warehouse: Path, table: str, *names: str) -> list[tuple[Any, ...]]:
    """Rows of a table, read without Spark."""
    found = StaticTable.from_metadata(str(warehouse / "tables" / table)).scan(selected_fields=names).to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in names), strict=True))


def rest(server: BmqServer) -> str:
    return f"http://127.0.0.1:{server.rest_port}"


def run(command: list[str], directory: Path, code: int = 0) -> str:
    """What the job said."""
    job = ManagedProcess("table job", command, directory / "job.log", ENVIRONMENT)
    job.start()
    try:
        assert job.wait(END_WAIT_S) == code, f"{job}"
        return job.log_of_this_run()
    finally:
        job.kill()


def run_and_kill(command: list[str], directory: Path) -> None:
    chance = random.Random(5)
    for kill in range(KILLS):
        job = ManagedProcess("table job", command, directory / f"job-{kill}.log", ENVIRONMENT)
        job.start()
        try:
            job.wait_for_line(rf"(?s)(\"batch\":\d+.*){{{chance.randint(1, 2)}}}", BATCH_WAIT_S)
            os.killpg(job.pid, signal.SIGKILL)
        finally:
            job.kill()


def test_a_table_of_a_view_has_what_the_view_shows_once(shared_server: BmqServer, tmp_path: Path) -> None:
    server, topic, warehouse, places = shared_server, unique_name("orders"), tmp_path / "warehouse", Places()
    create_topic(server, topic, PARTITIONS)
    view = make_view(server.bootstrap, topic, FILTER)
    name = unique_name("paid").replace("-", "_")
    form = orders_form(view, name=name)
    made = httpx.post(f"{rest(server)}/v1/tables", json=form, follow_redirects=True)
    assert made.status_code == 201 and f"a view of topic {topic}" in made.text, made.text
    produce(server.bootstrap, topic, range(FIRST))
    places.add(range(FIRST))

    of_cluster = ["--table", name, "--rest", rest(server)]
    command = table_command(server.bootstrap, view, tmp_path)
    place = command.index("--definition")
    command = [*command[:place], *of_cluster, *command[place + 2 :]]
    limits = ["--max-offsets-per-trigger", str(OFFSETS_PER_TRIGGER), "--merge-every", "3"]
    run_and_kill([*command, "--trigger-s", "0.05", *limits], tmp_path)
    aborted = range(FIRST, FIRST + ABORTED)
    produce(server.bootstrap, topic, aborted, **{"transactional.id": topic})
    places.skip(aborted)
    more = range(FIRST + ABORTED, FIRST + ABORTED + SECOND)
    produce(server.bootstrap, topic, more)
    places.add(more)
    run([*command, "--available-now"], tmp_path)
    assert columns(warehouse, name, "_bmq_partition", "_bmq_offset", "id") == sorted(places.rows)
    dead = columns(warehouse, f"{name}_dead_letter", "partition", "offset")
    assert dead == sorted(places.dead), "none of a record that the view does not show"

    status = httpx.get(f"{rest(server)}/v1/tables/{name}/status", follow_redirects=True).json()
    assert [(each["offset"], each["lag"]) for each in status["partitions"]] == [(end, 0) for end in places.next]

    # Our own format, with a checkpoint and a table of its own.
    own = tmp_path / "own"
    own.mkdir()
    run([*table_command(server.bootstrap, view, own), "--source", "bmq", "--available-now"], own)
    assert columns(own / "warehouse", "orders", "_bmq_partition", "_bmq_offset", "id") == sorted(places.rows)
    assert columns(own / "warehouse", "orders_dead_letter", "partition", "offset") == sorted(places.dead)

    # Another filter is another view, whatever its name.
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.delete_topics([view])[view].result(30)
    eventually(lambda: view not in admin.list_topics(timeout=30).topics, 60, "the view is gone")
    again = httpx.post(f"{rest(server)}/v1/views", json={"name": view, "topic": topic, "filter": "tag = 'open'"})
    assert again.status_code == 201, again.text
    said = run([*table_command(server.bootstrap, view, own), "--source", "bmq", "--available-now"], own, code=2)
    (sentence,) = [line for line in said.splitlines() if line.startswith("bmq: ")]
    assert f"topic {view} was deleted and made again" in sentence
    assert json.loads(httpx.get(f"{rest(server)}/v1/tables/{name}/status").text)["topic_exists"] is False
