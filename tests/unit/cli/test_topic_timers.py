"""`bmq topic timers` against a node's REST application."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from bmq.admin.orders import OrderRefused
from bmq.cli.cluster_client import ClusterRefused
from bmq.cli.commands import app
from bmq.log.timers.announcements import Position
from tests.unit.admin.rest.test_timer_pages import NOW_MS, Delayed
from tests.unit.cli.rest_node import Node

pytestmark = pytest.mark.unit


def timers(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["topic", "timers", "orders", *arguments])


def lines_of(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, (result.output, result.exception)
    return [line.split() for line in result.stdout.splitlines()]


def test_counts_come_first_and_then_each_partition(node: Node) -> None:
    node.cluster.delayed = Delayed()
    lines = lines_of(timers())
    assert ["pending", "5"] in lines and ["overdue", "(s)", "1.5"] in lines
    assert ["next", "due", "2023-11-14T22:13:18.500000Z"] in lines
    assert ["0", "5", "2023-11-14T22:13:18.500000Z", "1.5", "-"] in lines
    assert ["2", "-", "-", "-", "its", "owner", "is", "away"] in lines
    found = json.loads(timers("--json").stdout)
    assert [one["partition"] for one in found["partitions"]] == [0, 1, 2]


def test_records_of_a_partition_with_limit_and_from(node: Node) -> None:
    node.cluster.delayed = Delayed()
    result = timers("--partition", "0", "--limit", "2")
    assert [f"10,{NOW_MS}", "10", "2023-11-14T22:13:20Z"] in lines_of(result)
    assert result.stderr == "there are more than 2 records; see --limit and --from\n"
    late = json.loads(timers("-p", "0", "--from", "2023-11-14T22:13:21", "--json").stdout)
    assert [one["offset"] for one in late["timers"]] == [11, 12, 13]
    assert [one["offset"] for one in json.loads(timers("-p", "0", "--from", str(NOW_MS), "--json").stdout)["timers"]] == [
        10, 11, 12, 13
    ]  # fmt: skip


def test_all_pages_make_one_list(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.cli.topic_timers._PAGE", 2)
    node.cluster.delayed = Delayed()
    found = json.loads(timers("-p", "0", "--json").stdout)
    assert [one["offset"] for one in found["timers"]] == [7, 10, 11, 12, 13] and found["next_after"] is None
    assert len(json.loads(timers("--json").stdout)["partitions"]) == 3


def test_cancel(node: Node) -> None:
    node.cluster.delayed = delayed = Delayed()
    result = timers("-p", "1", "--cancel", f"17,{NOW_MS}")
    assert result.stdout == f"the record 17,{NOW_MS} of orders-1 is cancelled\n"
    assert delayed.cancelled == [("orders", 1, Position(NOW_MS, 17))]
    delayed.error = OrderRefused("too late: what was due at 5 has been delivered")
    refused = timers("-p", "1", "--cancel", "1,5")
    assert isinstance(refused.exception, ClusterRefused) and str(refused.exception) == str(delayed.error)


@pytest.mark.parametrize("arguments", [("--cancel", "1,2"), ("--from", "2023-11-14T22:13:21")])
def test_a_partition_has_to_be_named(node: Node, arguments: tuple[str, ...]) -> None:
    result = timers(*arguments)
    assert result.exit_code == 2 and "need --partition" in result.stderr
