"""`bmq index` against a node's REST application: definitions, what is asked for a query, and how an answer is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from bmq.cli import cluster_client
from bmq.cli.commands import app
from bmq.cli.index_output import completeness_lines
from bmq.protocol.errors import BmqError
from tests.unit.cli.rest_node import Node
from tests.unit.index.indexes import FORM

pytestmark = pytest.mark.unit

DDL = {key: value for key, value in FORM.items() if key not in ("name", "topic")}
ANSWER = {
    "index": "i",
    "topic": "orders",
    "rows": [
        {
            "partition": 1,
            "offset": 17,
            "timestamp": "2026-11-24T11:04:00.000000Z",
            "fields": {"customer": "c3", "note": "x" * 100, "price": None},
            "record": {"key": None, "value": "aGVsbG8=", "headers": []},
        }
    ],
    "is_complete": False,
    "partitions": [
        {"partition": 0, "log_start": 0, "indexed_to": 5, "complete_to": 9, "end": 9},
        {"partition": 1, "log_start": 0, "indexed_to": 5, "complete_to": 20, "end": 900},
    ],
    "continuation": "abc",
    "gone": 2,
    "tail": {"records": 15, "bytes": 9000, "misfits": 3},
    "elapsed_ms": 12,
    "explanation": ["where customer = c3", "reads nothing"],
}


def bmq(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["index", *arguments], input=given)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Queries that reach a node, which answers ANSWER."""
    found: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        found.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(200, json=ANSWER)

    monkeypatch.setattr(cluster_client, "TRANSPORT", httpx.MockTransport(answer))
    yield found


def test_an_index_is_created_listed_and_dropped(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "orders.ddl"
    file.write_text(json.dumps(DDL))
    planned = bmq("create", "by_customer", "--topic", "orders", "--ddl", str(file), "--dry-run")
    assert planned.output == "Index by_customer is made of topic orders (3 partitions).\n"
    assert json.loads(bmq("list", "--json").output) == []
    made = bmq("create", "by_customer", "--topic", "orders", "--ddl", "-", given=json.dumps(DDL))
    assert made.exit_code == 0, made.output
    (found,) = json.loads(bmq("list", "--json").output)
    assert (found["name"], found["topic"], found["is_index"]) == ("by_customer", "orders", True)
    assert bmq("list").output.splitlines()[1].split()[:3] == ["by_customer", "orders", "json"]
    shown = json.loads(bmq("describe", "by_customer", "--json").output)
    assert shown["definition"]["index"]["keys"][0] == {"field": "customer", "by": "exact"}
    assert bmq("drop", "by_customer", "--yes").exit_code == 0
    assert json.loads(bmq("list", "--json").output) == []


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({**DDL, "topic": "others"}, "its topic is 'others', and the command says 'orders'; leave it out"),
        ({**DDL, "index": None}, "index is missing: it says by which keys records are found"),
        ({**DDL, "index": {"keys": [{"field": "nothing"}]}}, "index key nothing: there is no such field"),
        ([], "Input should be an object"),
    ],
)
def test_a_definition_that_cannot_be(node: Node, tmp_path: Path, form: Any, sentence: str) -> None:
    file = tmp_path / "orders.ddl"
    file.write_text(json.dumps(form))
    refused = bmq("create", "by_customer", "--topic", "orders", "--ddl", str(file))
    assert isinstance(refused.exception, BmqError)
    assert sentence in str(refused.exception)


def test_a_query_goes_to_the_node(asked: list[Any]) -> None:
    conditions = ("--key", "customer=a=b", "--range", "price=10..", "--range", "day=..x", "--prefix", "city=Be")
    shown = bmq("query", "i", *conditions, "--from", "1000", "--limit", "7", "--order", "desc", "--records", "--json")
    assert json.loads(shown.output) == ANSWER
    assert asked == [
        (
            "POST",
            "/v1/indexes/i/query",
            {
                "equals": {"customer": "a=b"},
                "ranges": {"price": {"from": "10", "to": None}, "day": {"from": None, "to": "x"}},
                "prefixes": {"city": "Be"},
                "from": 1_000,
                "to": None,
                "limit": 7,
                "order": "desc",
                "order_by": None,
                "records": True,
                "explain": False,
                "continuation": None,
            },
        )
    ]


def test_an_answer_is_a_table_and_says_how_complete_it_is(asked: list[Any]) -> None:
    result = bmq("query", "i", "--records")
    header, row = result.stdout.splitlines()
    assert header.split() == ["partition", "offset", "timestamp", "customer", "note", "price", "key", "value"]
    assert row.split() == ["1", "17", "2026-11-24T11:04:00.000000Z", "c3", "x" * 59 + "…", "-", "-", "hello"]
    assert result.stderr.splitlines() == [
        "1 row in 12 ms",
        "partition 1 is complete up to offset 20 of 900: the rest is not indexed yet, and was too much to read now",
        "3 records that are not indexed yet do not fit the index's fields",
        "2 records that matched were compacted away",
        "there are more; the next ones: --continue abc",
    ]
    complete = {**ANSWER, "rows": [], "partitions": ANSWER["partitions"][:1], "gone": 0}  # type: ignore[index]
    complete["tail"] = {"records": 4, "bytes": 2000, "misfits": 0}
    assert completeness_lines(complete) == ["0 rows in 12 ms", "complete up to the ends of all 1 partitions"]
    assert bmq("query", "i", "--explain").stdout == "where customer = c3\nreads nothing\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--key", "customer"), "is not NAME=VALUE"),
        (("--range", "price=10"), "is not FROM..TO"),
        (("--from", "soon"), "is no time"),
        (("--limit", "0"), "--limit"),
    ],
)
def test_wrong_options_are_told(asked: list[Any], options: tuple[str, ...], sentence: str) -> None:
    refused = bmq("query", "i", *options)
    assert refused.exit_code == 2
    assert sentence in " ".join(refused.stderr.replace("│", " ").split())
    assert asked == []


def test_serving_needs_a_warehouse_and_an_address() -> None:
    for options, sentence in (
        ((), "name the directory of the indexes' files"),
        (("--warehouse", "/w", "--listen", "8090"), "is not HOST:PORT"),
        (("--warehouse", "/w", "--listen", "h:99999"), "is not HOST:PORT"),
        (("--warehouse", "/w", "--rest", "ftp://x"), "its scheme is ftp"),
    ):
        refused = bmq("serve", *options)
        assert refused.exit_code == 2
        assert sentence in " ".join(refused.stderr.replace("│", " ").split())


def test_others_are_kept_away_from_a_service_without_a_token() -> None:
    refused = bmq("serve", "--warehouse", "/w", "--listen", "0.0.0.0:0")
    assert isinstance(refused.exception, BmqError)
    assert "name --token-file, or listen on 127.0.0.1" in str(refused.exception)


def test_a_service_and_a_local_query_ask_the_named_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, str]] = []

    def unusable(config: dict[str, str]) -> Any:
        given.append(config)
        raise BmqError("seen")

    monkeypatch.setattr("bmq.index.serving.serve", lambda settings, _: given.append(settings.kafka))
    monkeypatch.setattr("bmq.index.stored_index.stored_index", lambda form: form)
    monkeypatch.setattr("bmq.index.topic_log.TopicLog", unusable)
    monkeypatch.setattr("bmq.cli.index.ClusterClient.get", lambda *_: {})
    options = ("--warehouse", "/w", "--bootstrap", "h1:1,h2:2", "--kafka", "client.id=i")
    served = bmq("serve", *options)
    assert served.exit_code == 0, served.output
    assert str(bmq("query", "i", "--local", *options).exception) == "seen"
    assert given == [{"bootstrap.servers": "h1:1,h2:2", "client.id": "i"}] * 2
