"""`bmq group explain` against a node's REST application."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from bmq.admin.orders import UnknownSubject
from bmq.cli.cluster_client import ClusterRefused
from bmq.cli.commands import app
from tests.unit.admin.rest.test_group_pages import Explainer
from tests.unit.cli.rest_node import Node

pytestmark = pytest.mark.unit


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["group", "explain", *arguments])


def test_the_group_comes_first_and_each_partition_has_its_reason(node: Node) -> None:
    node.cluster.explainer = Explainer()
    result = explain("g", "--topic", "orders", "--limit", "2")
    assert result.exit_code == 0, (result.output, result.exception)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["subscription", "failover"] in lines and ["that", "get", "nothing", "2"] in lines
    why = "all 10 records that are left are locked"
    assert ["orders", "1", "10", "12", "12", "10", *why.split()] in lines
    assert "there are more than these 2; see --limit and --topic" in result.stderr


def test_all_pages_make_one_document(node: Node) -> None:
    node.cluster.explainer = Explainer()
    found = json.loads(explain("g", "--json").stdout)
    assert [(one["topic"], one["partition"]) for one in found["partitions"]] == [
        ("hidden", 0), ("orders", 0), ("orders", 1), ("orders", 2)
    ]  # fmt: skip
    assert found["next_skip"] is None


def test_a_group_that_is_not_there_is_one_sentence(node: Node) -> None:
    node.cluster.explainer = explainer = Explainer()
    explainer.error = UnknownSubject("there is no share, consumer or classic group 'g'")
    result = explain("g")
    assert isinstance(result.exception, ClusterRefused)
    assert str(result.exception) == "there is no share, consumer or classic group 'g'"
