"""`bmq group list` and `lag` with --rest, against a node's REST application."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from bmq.admin.orders import UnknownSubject
from bmq.cli.cluster_client import ClusterRefused
from bmq.cli.commands import app
from tests.unit.admin.rest.test_group_pages import Explainer
from tests.unit.cli.rest_node import Node

pytestmark = pytest.mark.unit


def document(*arguments: str) -> Any:
    result = CliRunner().invoke(app, ["group", *arguments, "--rest", "http://127.0.0.1:8080", "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def test_groups_of_all_kinds_are_listed(node: Node) -> None:
    node.cluster.explainer = Explainer()
    assert [(one["group"], one["kind"], one["state"]) for one in document("list")] == [
        ("g", "share", "stable"),
        ("payments", "consumer", "stable"),
        ("sinks/a", "classic", "empty"),
    ]
    assert [one["group"] for one in document("list", "--pattern", "s.*", "--state", "empty")] == ["sinks/a"]


def test_all_pages_are_read(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.cluster.explainer = Explainer()
    monkeypatch.setattr("bmq.cli.group_rest._PAGE", 1)
    assert [one["group"] for one in document("list")] == ["g", "payments", "sinks/a"]
    assert [(one["topic"], one["partitions"]) for one in document("lag", "g")] == [("hidden", 1), ("orders", 3)]


def test_the_lag_of_a_share_group_by_topic(node: Node) -> None:
    node.cluster.explainer = Explainer()
    assert document("lag", "g") == [
        {"group": "g", "topic": "hidden", "partitions": 1, "lag": 12, "max_lag": 12, "unknown": 0},
        {"group": "g", "topic": "orders", "partitions": 3, "lag": 36, "max_lag": 12, "unknown": 0},
    ]
    assert [one["group"] for one in document("lag", "--pattern", "g|payments")] == ["g", "g", "payments", "payments"]


def test_a_group_that_is_not_there_is_one_sentence(node: Node) -> None:
    node.cluster.explainer = explainer = Explainer()
    explainer.error = UnknownSubject("there is no share, consumer or classic group 'x'")
    result = CliRunner().invoke(app, ["group", "lag", "x", "--rest", "http://127.0.0.1:8080"])
    assert isinstance(result.exception, ClusterRefused)
    assert str(result.exception) == "there is no share, consumer or classic group 'x'"
