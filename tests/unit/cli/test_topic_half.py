"""`bmq topic half`: what it asks of a node, and what it shows."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from bmq.cli import cluster_client
from bmq.cli.commands import app

pytestmark = pytest.mark.unit


def page(partition: int, *offsets: int, undecided: int, next_from: int | None = None) -> dict[str, Any]:
    messages = [{"offset": one, "check_id": f"id-{one}", "held_at": "2030-01-01T00:00:00Z"} for one in offsets]
    return {
        "topic": "t",
        "partition": partition,
        "undecided": undecided,
        "messages": messages,
        "next_from": next_from,
    }


class FakeNode:
    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        path = request.url.path.removeprefix("/v1/topics/t")
        self.asked.append((request.method, path + "?" + request.url.query.decode(), body))
        if path == "":
            return httpx.Response(200, json={"partitions": [{"partition": 0}, {"partition": 1}]})
        if request.method == "POST":
            assert body is not None
            return httpx.Response(200, json={"topic": "t", "partition": 1, "offsets": body["offsets"]})
        number = path.split("/")[2]
        if number == "0":
            return httpx.Response(200, json=page(0, 5, undecided=1))
        first = request.url.params.get("from")
        found = page(1, 9, undecided=2) if first else page(1, 7, undecided=2, next_from=9)
        return httpx.Response(200, json=found)


def bmq(monkeypatch: pytest.MonkeyPatch, node: FakeNode, *arguments: str) -> Result:
    monkeypatch.setattr(cluster_client, "TRANSPORT", httpx.MockTransport(node))
    return CliRunner().invoke(app, ["topic", "half", "t", *arguments])


def test_undecided_ones_of_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode()
    result = bmq(monkeypatch, node)
    assert result.exit_code == 0, (result.output, result.exception)
    assert [line.split() for line in result.output.splitlines()] == [
        ["0", "5", "2030-01-01T00:00:00Z", "id-5"],
        ["1", "7", "2030-01-01T00:00:00Z", "id-7"],
        ["1", "9", "2030-01-01T00:00:00Z", "id-9"],
        ["3", "undecided", "in", "2", "partitions"],
    ]
    assert [path for _, path, _ in node.asked] == [
        "?",
        "/partitions/0/half?limit=100",
        "/partitions/1/half?limit=99",
        "/partitions/1/half?from=9&limit=98",
    ]


def test_a_limit_ends_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    result = bmq(monkeypatch, FakeNode(), "--limit", "1", "--json")
    assert [len(one["messages"]) for one in json.loads(result.output)] == [1]


@pytest.mark.parametrize(("outcome", "words"), [("commit", "committed: 7, 9"), ("rollback", "rolled back: 7, 9")])
def test_decisions(monkeypatch: pytest.MonkeyPatch, outcome: str, words: str) -> None:
    node = FakeNode()
    result = bmq(monkeypatch, node, "-p", "1", f"--{outcome}", "7", f"--{outcome}", "9")
    assert result.output == words + "\n"
    assert node.asked == [("POST", f"/partitions/1/half/{outcome}?", {"offsets": [7, 9]})]


@pytest.mark.parametrize("arguments", [["--commit", "1"], ["-p", "1", "--commit", "1", "--rollback", "2"]])
def test_a_decision_needs_its_partition_and_is_one(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    node = FakeNode()
    assert bmq(monkeypatch, node, *arguments).exit_code == 2 and node.asked == []
