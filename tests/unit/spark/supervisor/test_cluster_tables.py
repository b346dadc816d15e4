"""What a supervisor asks of a cluster and tells it, and what it makes of bad answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from bmq.rest_client.client import RestClient
from bmq.rest_client.login import RestLogin
from bmq.spark.supervisor.cluster_tables import (
    ERROR_CHARACTERS_MAX,
    ClusterSilent,
    ClusterTables,
    ReportUnwanted,
    report_body,
)
from bmq.spark.supervisor.effects import Say, TableState, WantedTable

pytestmark = pytest.mark.unit

TABLE = WantedTable("orders", "id-1", "topic-1", 3)
Handler = Callable[[httpx.Request], httpx.Response]


def cluster(handler: Handler, prefix: str = "") -> ClusterTables:
    client = RestClient("http://node:1", RestLogin(), timeout=1, transport=httpx.MockTransport(handler))
    return ClusterTables(client, prefix)


def line(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "table_id": "id-1", "topic_id": "topic-1", "version": 3, "definition_error": None, **changes}


def test_tables_are_listed_page_by_page() -> None:
    pages = {
        "": {"tables": [line("a"), line("b", definition_error="a later release wrote it")], "next_after": "b"},
        "b": {"tables": [line("c", version=4)], "next_after": None},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/tables" and request.url.params["prefix"] == "x"
        return httpx.Response(200, json=pages[request.url.params["after"]])

    listing = cluster(answer, "x").listing()
    assert listing.tables == {
        "a": WantedTable("a", "id-1", "topic-1", 3),
        "c": WantedTable("c", "id-1", "topic-1", 4),
    }
    assert listing.unreadable == {"b": "a later release wrote it"}


def refused(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


@pytest.mark.parametrize(
    ("handler", "sentence"),
    [
        (refused, "the cluster cannot be asked at http://node:1: connection refused"),
        (lambda _: httpx.Response(503, json={"detail": "no controller"}), "does not list its tables: no controller"),
        (lambda _: httpx.Response(500, text="?"), "does not list its tables: it answered 500"),
        (lambda _: httpx.Response(200, text="<html>"), "is no node of bmq"),
        (lambda _: httpx.Response(200, json=[1]), "is no node of bmq"),
        (
            lambda _: httpx.Response(
                200, json={"tables": [{"name": "a", "definition_error": None}], "next_after": None}
            ),
            "upgrade the nodes first",
        ),
    ],
)
def test_a_bad_answer_is_a_sentence(handler: Handler, sentence: str) -> None:
    with pytest.raises(ClusterSilent) as raised:
        cluster(handler).listing()
    assert sentence in str(raised.value) and "\n" not in str(raised.value)


def test_a_listing_without_an_end_is_cut_off() -> None:
    asked = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.Response(200, json={"tables": [line(f"t{n}") for n in range(500)], "next_after": "t"})

    cluster(answer).listing()
    assert asked == 3


def test_a_state_is_reported_without_offsets() -> None:
    bodies: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert (request.method, request.url.path) == ("PUT", "/v1/tables/orders/status")
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={})

    told = cluster(answer)
    told.report(Say(TABLE, TableState.FAILED, "HDFS is away", 4.2))
    told.report(Say(TABLE, TableState.RUNNING))
    told.report(Say(TABLE, TableState.TAKEN, "another job has it"))
    told.report(Say(TABLE, TableState.DROPPED))
    ids = {"table_id": "id-1", "topic_id": "topic-1", "partitions": []}
    assert bodies == [
        {**ids, "state": "failed", "error": "HDFS is away; it is started again 4 s later"},
        {**ids, "state": "running", "error": None},
    ]


def test_a_long_error_fits_the_report() -> None:
    body = report_body(Say(TABLE, TableState.FAILED, "x" * 5_000, 60))
    assert body is not None and len(body["error"]) == ERROR_CHARACTERS_MAX
    assert body["error"].endswith("; it is started again 60 s later")


@pytest.mark.parametrize("status", [404, 409])
def test_a_report_of_another_table_is_unwanted(status: int) -> None:
    with pytest.raises(ReportUnwanted):
        cluster(lambda _: httpx.Response(status)).report(Say(TABLE, TableState.RUNNING))


def test_an_earlier_release_does_not_know_that_a_job_starts() -> None:
    told = cluster(lambda _: httpx.Response(422, json={"detail": "state: no such one"}))
    told.report(Say(TABLE, TableState.STARTING))
    with pytest.raises(ClusterSilent, match="does not take the state of table orders: state: no such one"):
        told.report(Say(TABLE, TableState.RUNNING))
