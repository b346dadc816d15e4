"""Tables of topics on a cluster: asked for at any node, kept over the end of the controller that wrote them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from testing.cluster import BmqCluster, ClusterNode
from testing.patience import Patience
from testing.processes import eventually
from testing.servers import bmq_command
from tests.e2e.cluster.conftest import TopicMaker

pytestmark = [pytest.mark.faults, pytest.mark.bmq_only, pytest.mark.timeout(240)]

SHOWN_WAIT_S = 60.0


def table(node: ClusterNode, *arguments: str) -> Any:
    """What `bmq table … --json` says at this node. Raises AssertionError with its sentence."""
    ran = subprocess.run(
        [bmq_command(), "table", *arguments, "--rest", f"http://{node.rest}", "--json"],
        capture_output=True,
        text=True,
        timeout=Patience(60).limit_s,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def names(node: ClusterNode) -> list[str]:
    status, page = node.get("/v1/tables")
    return [each["name"] for each in page["tables"]] if status == 200 else []


def test_a_table_outlives_the_controller(cluster: BmqCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic = make_topic(cluster, 2)
    fields = [{"name": "id", "type": "long", "required": True}]
    definition = {"name": "orders", "topic": topic, "format": "json", "fields": fields}
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(definition), encoding="utf-8")
    controller = cluster.controller()
    asked, another = (node for node in cluster.nodes.values() if node is not controller)

    made = table(asked, "create", str(file))["table"]
    eventually(lambda: names(another) == ["orders"], SHOWN_WAIT_S, "another node shows the table")
    report = {
        "table_id": made["table_id"],
        "topic_id": made["topic_id"],
        "partitions": [{"partition": 0, "offset": 7}],
        "rows": 7,
    }
    assert controller.call("PUT", "/v1/tables/orders/status", report)[0] == 200
    eventually(lambda: table(another, "status", "orders")["rows"] == 7, SHOWN_WAIT_S, "another node shows the report")

    controller.kill()
    cluster.wait_settled()
    eventually(lambda: names(another) == names(asked) == ["orders"], SHOWN_WAIT_S, "both nodes show the table")
    assert table(another, "describe", "orders") == made
    assert table(asked, "status", "orders")["reported_at"] is None
    definition["fields"] = [*fields, {"name": "note", "type": "string"}]
    file.write_text(json.dumps(definition), encoding="utf-8")
    altered = table(another, "alter", str(file))
    assert altered["changes"] == ["field note (string) is added; rows that are there have null"]
    assert (altered["table"]["table_id"], altered["table"]["version"]) == (made["table_id"], 2)
    controller.start()
    eventually(lambda: names(controller) == ["orders"], SHOWN_WAIT_S, "the node that was killed shows the table")
    table(controller, "drop", "orders")
    eventually(lambda: names(asked) == names(another) == [], SHOWN_WAIT_S, "the table is dropped everywhere")
