"""What a job asks the cluster about its table, and tells it."""

from __future__ import annotations

import json
import logging
from uuid import UUID

import httpx
import pytest

from bmq.admin.rest.table_views import TableReport
from bmq.spark.tables.cluster_tables import ClusterTable
from bmq.spark.tables.errors import TableJobError, TableMismatch
from bmq.table_definitions.definition import TableDefinition
from tests.unit.spark.tables.test_progress import progress
from tests.unit.table_definitions.definitions import definition

pytestmark = pytest.mark.unit

TABLE_ID = "0d9f1e1c-3a32-4b9e-8f5e-3c3b1a1f0a11"


class Node:
    """Answers with what it is told to, and keeps what it was sent."""

    def __init__(self, status: int = 200, body: object = None) -> None:
        self.status, self.body = status, body
        self.sent: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        if self.status == 0:
            raise httpx.ConnectError("nobody is there")
        return httpx.Response(self.status, json=self.body)

    def table(self) -> ClusterTable:
        return ClusterTable("http://node:8080", "t", transport=httpx.MockTransport(self))


def table_body(table: TableDefinition) -> dict[str, object]:
    return {"table_id": TABLE_ID, "topic_id": str(UUID(int=1)), "definition": json.loads(table.to_json())}


def test_the_definition_is_the_clusters() -> None:
    node = Node(body=table_body(definition()))
    assert node.table().definition() == definition()
    assert node.sent[0].url.path == "/v1/tables/t"


def test_a_report_says_where_the_table_is() -> None:
    node = Node(body=table_body(definition()))
    table = node.table()
    table.definition()
    table.report(progress())
    sent = json.loads(node.sent[-1].content)
    assert (node.sent[-1].method, node.sent[-1].url.path) == ("PUT", "/v1/tables/t/status")
    assert sent["partitions"] == [
        {"partition": 0, "offset": 5, "end_offset": 8},
        {"partition": 1, "offset": 9, "end_offset": 9},
        {"partition": 2, "offset": 0, "end_offset": 4},
    ]
    assert (sent["table_id"], sent["topic_id"]) == (TABLE_ID, str(UUID(int=1)))
    assert (sent["rows"], sent["files"], sent["bytes"], sent["dead_letter_rows"]) == (70, 9, 1_000, 4)
    assert sent["committed_at"] == "1970-01-01T00:00:00.001000+00:00"


def test_a_job_says_that_it_runs_and_how_it_ended() -> None:
    node = Node(body=table_body(definition()))
    table = node.table()
    table.beat()
    assert not node.sent, "it does not know yet which table it is"
    table.definition()
    table.beat()
    assert json.loads(node.sent[-1].content) == {
        "table_id": TABLE_ID,
        "topic_id": str(UUID(int=1)),
        "partitions": [],
    }
    table.report(progress())
    reported = json.loads(node.sent[-1].content)
    table.beat()
    assert json.loads(node.sent[-1].content) == reported
    table.ended("x" * 2_000)
    assert json.loads(node.sent[-1].content) == {**reported, "state": "failed", "error": "x" * 1_000}
    table.ended(None)
    assert json.loads(node.sent[-1].content) == {**reported, "state": "stopped", "error": None}
    TableReport.model_validate_json(node.sent[-1].content)


def test_a_table_that_is_gone_stops_the_job() -> None:
    with pytest.raises(TableMismatch, match="has no table t"):
        Node(404, {"detail": "there is no table t"}).table().definition()
    with pytest.raises(TableMismatch, match="made anew"):
        Node(409, {"detail": "table t was made anew"}).table().report(progress())


def test_a_table_that_was_made_again_while_the_job_runs_stops_it() -> None:
    node = Node(body=table_body(definition()))
    table = node.table()
    table.definition()
    assert table.definition() == definition()
    node.body = {**table_body(definition()), "table_id": str(UUID(int=9))}
    with pytest.raises(TableMismatch, match="was dropped and made again since this job began"):
        table.definition()


@pytest.mark.parametrize("node", [Node(0), Node(503, {"detail": "no controller"}), Node(500, "x")])
def test_a_cluster_that_does_not_answer_stops_no_report(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TableJobError, match="cannot be asked for"):
        node.table().definition()
    with caplog.at_level(logging.WARNING):
        node.table().report(progress())
    assert "was not reported" in caplog.text


@pytest.mark.parametrize("status", [0, 404, 409, 500])
def test_a_heartbeat_and_an_end_that_nobody_takes_stop_nothing(status: int, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(body=table_body(definition()))
    table = node.table()
    table.definition()
    node.status, node.body = status, {"detail": "x"}
    with caplog.at_level(logging.WARNING):
        table.beat()
        table.ended(None)
    assert len(caplog.records) == 2


@pytest.mark.parametrize("body", ["<html>", '"x"', "{}", '{"table_id": "x"}'])
def test_an_answer_of_something_else_is_one_sentence(body: str) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, text=body))
    with pytest.raises(TableJobError, match=r"table t cannot be asked for: .* no node of bmq"):
        ClusterTable("http://node:8080", "t", transport=transport).definition()


def test_an_address_that_is_none_is_one_sentence() -> None:
    with pytest.raises(TableMismatch, match="no address"):
        ClusterTable("http://node:rest", "t")
