"""`bmq transaction`: what it asks of a node, and what it shows."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from bmq.cli import cluster_client
from bmq.cli.commands import app

pytestmark = pytest.mark.unit

SHOWN = {
    "transactional_id": "shop/1",
    "state": "Ongoing",
    "is_open": True,
    "producer_id": 7,
    "producer_epoch": 3,
    "started_ms": 1_790_000_000_000,
    "timeout_ms": 60_000,
}
NAME = {"producer_id": 7, "producer_epoch": 3, "started_ms": 1_790_000_000_000}


class FakeNode:
    """Ends one transaction, the one that it shows."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        path = request.url.raw_path.decode()
        self.asked.append((request.method, path, body))
        if request.method == "GET":
            return httpx.Response(200, json=SHOWN)
        if body != NAME:
            problem = {"title": "Conflict", "status": 409, "detail": "transactional id shop/1 has no such transaction"}
            return httpx.Response(409, json=problem, headers={"content-type": "application/problem+json"})
        return httpx.Response(200, json={"transactional_id": "shop/1", "is_committed": path.endswith("/commit")})


def bmq(monkeypatch: pytest.MonkeyPatch, node: FakeNode, *arguments: str) -> Result:
    monkeypatch.setattr(cluster_client, "TRANSPORT", httpx.MockTransport(node))
    return CliRunner().invoke(app, ["transaction", *arguments])


def test_what_is_open_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode()
    result = bmq(monkeypatch, node, "show", "shop/1")
    assert result.exit_code == 0, (result.output, result.exception)
    assert [line.split(maxsplit=1) for line in result.output.splitlines()] == [
        ["id", "shop/1"],
        ["state", "Ongoing"],
        ["producer", "7, epoch 3"],
        ["started", "1790000000000"],
        ["timeout", "60000 ms"],
    ]
    assert node.asked == [("GET", "/v1/transactions/shop%2F1", None)]
    assert json.loads(bmq(monkeypatch, node, "show", "shop/1", "--json").output) == SHOWN


@pytest.mark.parametrize(("outcome", "said"), [("commit", "committed"), ("rollback", "rolled back")])
def test_one_transaction_is_ended(monkeypatch: pytest.MonkeyPatch, outcome: str, said: str) -> None:
    node = FakeNode()
    result = bmq(monkeypatch, node, outcome, "shop/1", "--started", str(NAME["started_ms"]))
    assert (result.exit_code, result.output) == (0, f"shop/1: {said}\n")
    assert node.asked[-1] == ("POST", f"/v1/transactions/shop%2F1/{outcome}", NAME)


def test_another_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    result = bmq(monkeypatch, FakeNode(), "commit", "shop/1", "--started", "5")
    assert result.exit_code == 1 and "has no such transaction" in str(result.exception)
    assert bmq(monkeypatch, FakeNode(), "commit", "shop/1").exit_code == 2, "which one has to be said"
