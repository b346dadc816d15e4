"""`bmq group redrive`: what it asks of a node, and how it says what became of it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from bmq.cli import cluster_client
from bmq.cli.commands import app

pytestmark = pytest.mark.unit

AT = "2030-01-01T00:00:00Z"


def task(state: str, version: int, *texts: str, error: str | None = None) -> dict[str, Any]:
    return {
        "id": "0" * 16,
        "kind": "redrive",
        "subject": "g",
        "state": state,
        "progress": 1.0 if state == "succeeded" else 0.5,
        "steps": [{"number": number, "at": AT, "text": text} for number, text in enumerate(texts)],
        "started_at": AT,
        "ended_at": None if state == "running" else AT,
        "error": error,
        "version": version,
    }


class FakeNode:
    """`states`: of the redrive, one for each question."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self.states = list(states)
        self.asked: list[tuple[str, str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, str(request.url.copy_with(scheme="http", host="n", port=None))[8:], body))
        if request.url.path == "/v1/redrives" and request.method == "GET":
            return httpx.Response(200, json={"tasks": self.states})
        return httpx.Response(200, json=self.states.pop(0))


def bmq(monkeypatch: pytest.MonkeyPatch, node: FakeNode, *arguments: str) -> Result:
    monkeypatch.setattr(cluster_client, "TRANSPORT", httpx.MockTransport(node))
    return CliRunner().invoke(app, ["group", "redrive", "g", *arguments])


def test_an_order_has_what_was_given_and_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode(task("running", 1, "begun"), task("succeeded", 2, "begun", "3 redriven"))
    result = bmq(
        monkeypatch,
        node,
        *("--to", "retry", "--reason", "rejected", "-t", "orders", "-p", "2", "--key", "k", "--rate", "50"),
        *("--from", AT, "--until", AT, "--letters", "dlq.x", "--from-start"),
    )
    assert result.exit_code == 0, (result.output, result.exception)
    assert "begun" in result.output and "3 redriven" in result.output
    (method, path, body), (_, events, _) = node.asked
    assert (method, path) == ("POST", "/v1/redrives")
    assert body == {
        "group": "g",
        "to": "retry",
        "letters": "dlq.x",
        "reason": "rejected",
        "topic": "orders",
        "partition": 2,
        "key": "k",
        "from_time": AT,
        "to_time": AT,
        "records_per_s": 50,
        "from_start": True,
    }
    assert events.startswith(f"/v1/redrives/{'0' * 16}/events?after=1")


def test_a_dry_run_says_so_to_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode(task("succeeded", 1, "3 would be redriven"))
    result = bmq(monkeypatch, node, "--to-source", "--dry-run")
    assert result.exit_code == 0 and "3 would be redriven" in result.output
    assert node.asked == [
        ("POST", "/v1/redrives?dry_run=true", {"group": "g", "to_source": True, "records_per_s": 1_000})
    ]


def test_a_failure_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode(task("failed", 1, error="topic retry is deleted"))
    result = bmq(monkeypatch, node, "--to", "retry")
    assert result.exit_code != 0 and "topic retry is deleted" in str(result.exception)


def test_a_cancel_ends_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    running = task("running", 1)
    node = FakeNode(running)
    result = bmq(monkeypatch, node, "--cancel")
    assert result.exit_code == 0, (result.output, result.exception)
    assert [(method, path) for method, path, _ in node.asked] == [
        ("GET", "/v1/redrives"),
        ("DELETE", f"/v1/redrives/{'0' * 16}"),
    ]
    node = FakeNode()
    assert "no redrive of group g is running" in bmq(monkeypatch, node, "--cancel").output
