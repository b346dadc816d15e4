"""`bmq lane` against a node's REST application."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from bmq.protocol.error_codes import ErrorCode
from tests.unit.admin.rest.test_lane_pages import Lanes
from tests.unit.cli.rest_node import Node

pytestmark = pytest.mark.unit


def listed(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lane", "list", *arguments])


def test_each_interval_is_a_line_and_each_reason_a_sentence(node: Node) -> None:
    node.cluster.lanes = Lanes(node.cluster.image.topics["orders"].topic_id)
    result = listed("g", "--limit", "1")
    assert result.exit_code == 0, (result.output, result.exception)
    assert ["orders", "1", "blue", "5", "8", "6", "0"] in [line.split() for line in result.stdout.splitlines()]
    assert "the lane red is not taken in orders-2: no members" in result.stdout
    assert "the lane blue waits in orders-1: too large" in result.stdout
    assert "there are more than these 1 intervals" in result.stderr
    assert json.loads(listed("g", "--json").stdout)["intervals"][1]["end"] is None


def test_coordinator_that_is_away_is_one_sentence(node: Node) -> None:
    node.cluster.lanes = Lanes(node.cluster.image.topics["orders"].topic_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    result = listed("g")
    assert result.exit_code != 0 and "COORDINATOR_NOT_AVAILABLE" in str(result.exception)


def test_reader_of_a_record_is_explained(node: Node) -> None:
    node.cluster.lanes = Lanes(node.cluster.image.topics["orders"].topic_id)

    def explained(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["lane", "explain", "g", "orders", "--partition", "1", *arguments])

    result = explained("--lane", "blue")
    assert result.exit_code == 0, (result.output, result.exception)
    assert [line.split(maxsplit=1) for line in result.stdout.splitlines()] == [
        ["lane", "blue"],
        ["group", "g@blue in orders"],
        ["why", "the lane blue is taken from offset 9 on"],
    ]
    copied = explained("-H", "baggage=x-lane=blue", "--offset", "7", "--json")
    assert json.loads(copied.stdout)["topic"] == "orders.retry.g"
    assert "is not NAME=VALUE" in explained("-H", "x-lane").output
