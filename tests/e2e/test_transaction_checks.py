"""Transactions of confluent-kafka whose client died after the commit of its database: a service is asked before they are aborted."""

from __future__ import annotations

import hmac
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from testing.processes import eventually
from testing.servers import BmqServer
from testing.topic_contents import end_offsets, values_of
from tests.e2e.conftest import assert_no_traceback, create_topic
from tests.e2e.test_delayed_records import consume

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180), pytest.mark.bmq_only]

SECRET = b"a secret of the shop and bmq"
WAIT_S = 60.0
LETTERS = {"errors.deadletterqueue.group.enable": "true"}
# Sends a record in a transaction, with the id of the order that its database knows, and dies before it commits it.
CLIENT = """
import os, sys
from confluent_kafka import Producer

bootstrap, transactional_id, value, check_id, timeout_ms, database, row = sys.argv[1:]
producer = Producer(
    {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": int(timeout_ms)}
)
producer.init_transactions(30)
producer.begin_transaction()
producer.produce("orders", value)
producer.produce("ids", b"", headers=[("bmq-transaction-check", check_id.encode())])
assert producer.flush(30) == 0
if row:
    with open(os.path.join(database, check_id), "w") as file:
        file.write(row)
print("done", flush=True)
os._exit(9)
"""


class Shop:
    """The service that is asked. Its database is a directory: a file for each order, with `commit` or `rollback` in it."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.asked: list[dict[str, Any]] = []
        self.decided: list[str] = []
        self.failures: list[str] = []
        self.port = 0

    def answer(self, body: bytes, signature: str) -> bytes:
        time_text, _, digest = signature.partition(",v1=")
        wanted = hmac.new(SECRET, time_text.removeprefix("t=").encode() + b"." + body, sha256).hexdigest()
        if not hmac.compare_digest(digest, wanted):
            self.failures.append(f"signed by somebody else: {signature}")
        decided: dict[str, list[str]] = {"commit": [], "rollback": []}
        for one in json.loads(body)["transactions"]:
            self.asked.append(one)
            row = self.database / one["id"]
            if row.exists():
                decided[row.read_text()].append(one["transactional_id"])
                self.decided.append(one["id"])
        return json.dumps(decided).encode()

    def times_asked(self, check_id: str) -> int:
        return sum(one["id"] == check_id for one in self.asked)


@contextmanager
def serving(database: Path) -> Iterator[Shop]:
    shop = Shop(database)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = shop.answer(body, self.headers["bmq-signature"])
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shop.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield shop
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    database = tmp_path / "database"
    database.mkdir()
    with serving(database) as shop:
        yield shop
    assert shop.failures == []


@contextmanager
def asking_server(directory: Path, **configs: str) -> Iterator[BmqServer]:
    """A server that asks back about transactions of ids that begin with `shop-`."""
    directory.mkdir()
    secret = directory / "secret"
    secret.write_bytes(SECRET)
    kafka = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "bmq.transaction.check.ids": "shop-",
        "bmq.transaction.check.id.topic": "ids",
        "bmq.transaction.check.interval.ms": "1000",
        **{f"bmq.transaction.check.{name}": value for name, value in configs.items()},
    }
    environment = {
        "BMQ_KAFKA": json.dumps(kafka),
        "BMQ_HALF_CHECKS__HOSTS": "127.0.0.1",
        "BMQ_HALF_CHECKS__SECRET_FILE": str(secret),
    }
    server = BmqServer(directory / "data", environment)
    server.start()
    try:
        for topic in ("orders", "ids"):
            create_topic(server, topic)
        yield server
    finally:
        server.close()
    assert_no_traceback(server)


def die(server: BmqServer, shop: Shop, order: str, row: str = "", timeout_ms: int = 30_000) -> None:
    """A client that is gone before the end of its transaction. `row`: what its database says then; empty: nothing."""
    arguments = [server.bootstrap, f"shop-{order}", order, f"id-{order}", str(timeout_ms), str(shop.database), row]
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert (done.returncode, done.stdout) == (9, "done\n"), done.stderr


def committed(server: BmqServer) -> list[bytes]:
    """What a consumer of committed records is shown, once no transaction is open."""

    def settled() -> bool:
        stable, end = (
            end_offsets(server.bootstrap, "orders", 1, level) for level in ("read_committed", "read_uncommitted")
        )
        return stable == end

    eventually(settled, WAIT_S, "all transactions have ended")
    return values_of(server.bootstrap, "orders", isolation="read_committed")[0]


def count(server: BmqServer, name: str) -> float:
    (line,) = [line for line in server.metrics().splitlines() if line.startswith(f"{name}_total ")]
    return float(line.rpartition(" ")[2])


def rest(server: BmqServer, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", server.rest_port, timeout=WAIT_S)
    try:
        connection.request(
            method, path, None if body is None else json.dumps(body), {"content-type": "application/json"}
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_committed_rolled_back_and_unknown_until_the_time_out(tmp_path: Path, shop: Shop) -> None:
    with asking_server(tmp_path / "server", url=f"http://127.0.0.1:{shop.port}/asked") as server:
        die(server, shop, "kept", "commit", 8_000)
        die(server, shop, "dropped", "rollback", 8_000)
        die(server, shop, "unknown", "", 8_000)
        assert committed(server) == [b"kept"]
        # It may have been asked before their rows were there, and never once it had decided.
        assert sorted(shop.decided) == ["id-dropped", "id-kept"]
        assert shop.times_asked("id-unknown") >= 3
        numbers = [one["check"] for one in shop.asked if one["id"] == "id-unknown"]
        assert numbers == list(range(1, len(numbers) + 1))
        metrics = ("committed_by_check", "aborted_by_check", "timed_out")
        assert [count(server, f"bmq_transactions_{name}") for name in metrics] == [1, 1, 1]


def test_a_client_that_is_started_again_finds_its_transaction_committed(tmp_path: Path, shop: Shop) -> None:
    with asking_server(tmp_path / "server", url=f"http://127.0.0.1:{shop.port}/asked") as server:
        for order, row in (("kept", "commit"), ("open", "")):
            die(server, shop, order, row, 600_000)
            again = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": f"shop-{order}"})
            again.init_transactions(30)  # without a check it would abort what its database has
            again.begin_transaction()
            again.produce("orders", f"{order}, and more")
            again.commit_transaction(30)
        assert committed(server) == [b"kept", b"kept, and more", b"open, and more"]
        assert [shop.times_asked(f"id-{order}") for order in ("kept", "open")] == [1, 1]


def test_a_living_client_is_told_that_its_transaction_is_committed(tmp_path: Path, shop: Shop) -> None:
    with asking_server(tmp_path / "server", url=f"http://127.0.0.1:{shop.port}/asked") as server:
        config = {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": "shop-slow",
            "transaction.timeout.ms": 8_000,
        }
        producer = Producer(config)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"slow")
        producer.produce("ids", b"", headers=[("bmq-transaction-check", b"id-slow")])
        assert producer.flush(30) == 0
        (shop.database / "id-slow").write_text("commit")
        assert committed(server) == [b"slow"]
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce("orders", b"later")
        with pytest.raises(KafkaException) as failed:
            producer.commit_transaction(30)
        error = failed.value.args[0]
        assert error.fatal() and error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
        assert committed(server) == [b"slow"]


def test_a_check_in_a_topic_is_answered_over_rest(tmp_path: Path, shop: Shop) -> None:
    with asking_server(tmp_path / "server", topic="checks") as server:
        create_topic(server, "checks", config=LETTERS)
        die(server, shop, "a/b c", timeout_ms=40_000)
        check = consume(server.bootstrap, "checks", 1)[0]
        headers = dict(check.headers() or ())
        assert (check.key(), headers["bmq-transaction-id"]) == (b"id-a/b c", b"shop-a/b c")
        producer_id, _, epoch = headers["bmq-transaction-producer"].decode().partition(",")
        name = {
            "producer_id": int(producer_id),
            "producer_epoch": int(epoch),
            "started_ms": int(headers["bmq-transaction-started"]),
        }
        path = f"/v1/transactions/{quote('shop-a/b c', safe='')}"
        status, shown = rest(server, "GET", path)
        assert status == 200 and shown["is_open"] and {key: shown[key] for key in name} == name
        assert rest(server, "POST", f"{path}/commit", {**name, "producer_epoch": 9})[0] == 409
        assert rest(server, "POST", f"{path}/commit", name) == (
            200,
            {"transactional_id": "shop-a/b c", "is_committed": True},
        )
        assert rest(server, "POST", f"{path}/rollback", name)[0] == 409
        assert committed(server) == [b"a/b c"]


def test_a_check_in_a_topic_is_answered_by_a_record(tmp_path: Path, shop: Shop) -> None:
    with asking_server(tmp_path / "server", topic="checks") as server:
        create_topic(server, "checks", config=LETTERS)
        create_topic(server, "answers", config={"bmq.transaction.answer.enable": "true"})
        for order in ("kept", "dropped"):
            die(server, shop, order, timeout_ms=40_000)
        checks: dict[Any, Message] = {}

        def are_asked_about() -> bool:
            checks.update((check.key(), check) for check in consume(server.bootstrap, "checks", 1))
            return len(checks) == 2

        eventually(are_asked_about, WAIT_S, "both are asked about")
        refused: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})
        for order, outcome in (("kept", b"commit"), ("dropped", b"rollback"), ("kept", b"rollback")):
            headers = [*(checks[f"id-{order}".encode()].headers() or ()), ("bmq-transaction-answer", outcome)]
            producer.produce("answers", headers=headers, on_delivery=on_delivery)
            assert producer.flush(30) == 0
        assert [error.code() for error in refused] == [KafkaError.INVALID_RECORD], "the last one"
        assert committed(server) == [b"kept"]
        assert end_offsets(server.bootstrap, "answers", 1, "read_uncommitted") == [0], "answers are not stored"
