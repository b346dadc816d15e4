"""Tables through REST: made, altered, dropped, shown by every node, and reported on by their jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from bmq.admin.rest.body_limit import BODY_BYTES_MAX
from tests.unit.admin.rest.cluster import RestCluster
from tests.unit.table_definitions.definitions import avro_form, json_form

pytestmark = pytest.mark.unit

FORM = {**json_form(), "name": "rows", "topic": "orders"}
NOTE = {"name": "note", "type": "string"}


async def test_a_table_is_made_shown_altered_and_dropped() -> None:
    async with RestCluster() as cluster:
        response = await cluster.client.post("/v1/tables", json=FORM)
        assert response.status_code == 201
        assert response.headers["location"] == "/v1/tables/rows"
        made = response.json()
        assert made["summary"] == "Table rows is made of topic orders (3 partitions)."
        assert made["changes"] == []
        shown = await cluster.get("/v1/tables/rows")
        assert made["table"] == shown
        assert (shown["version"], shown["created_at"]) == (1, "2023-11-14T22:13:20Z")
        assert shown["topic_id"] == str(cluster.image.topics["orders"].topic_id)
        definition = shown["definition"]
        assert (definition["name"], definition["format"], definition["misfits"]) == ("rows", "json", "dead_letter")
        assert definition["fields"][1]["path"] == ["customer", "address", "city"]

        again = await cluster.post("/v1/tables", 200, definition)
        assert again == {"summary": "Table rows is there already.", "changes": [], "table": shown}

        more = {**definition, "fields": [*definition["fields"], NOTE]}
        added = ["field note (string) is added; rows that are there have null"]
        plan = await cluster.put("/v1/tables/rows", body=more, dry_run="true")
        assert (plan["changes"], plan["table"]) == (added, None)
        assert await cluster.get("/v1/tables/rows") == shown
        altered = await cluster.put("/v1/tables/rows", body=more)
        assert (altered["changes"], altered["table"]["version"]) == (added, 2)
        assert len((await cluster.get("/v1/tables/rows"))["definition"]["fields"]) == 5

        sentence = "The definition of table rows is dropped; its rows stay where they are."
        for dry_run in ("true", "false"):
            dropped = await cluster.delete("/v1/tables/rows", dry_run=dry_run)
            assert dropped == {"summary": sentence, "changes": [], "table": None}
        problem = await cluster.get("/v1/tables/rows", 404)
        assert problem["detail"] == "there is no table rows"


async def test_a_dry_run_makes_nothing() -> None:
    async with RestCluster() as cluster:
        plan = await cluster.post("/v1/tables", 200, FORM, dry_run="true")
        assert plan == {"summary": "Table rows is made of topic orders (3 partitions).", "changes": [], "table": None}
        await cluster.get("/v1/tables/rows", 404)


async def test_tables_page_by_page() -> None:
    async with RestCluster() as cluster:
        for number in range(3):
            await cluster.post("/v1/tables", 201, {**FORM, "name": f"rows{number}"})
        unreadable = {**cluster.image.tables, "rows1": '{"colour": "red"}'}
        cluster.controller.image = replace(cluster.image, tables=unreadable)
        page = await cluster.get("/v1/tables", limit=2)
        assert [each["name"] for each in page["tables"]] == ["orders", "rows0"]
        assert page["tables"][0] == {
            "name": "orders", "table_id": str(UUID(int=9_000)), "topic_id": str(UUID(int=101)),
            "topic": "orders", "format": "json", "fields": 4, "version": 1,
            "altered_at": "1970-01-01T00:00:01Z", "definition_error": None,
            "is_index": False,
        }  # fmt: skip
        page = await cluster.get("/v1/tables", limit=2, after=page["next_after"])
        assert [each["name"] for each in page["tables"]] == ["rows1", "rows2"]
        assert page["next_after"] is None
        assert page["tables"][0]["definition_error"].startswith("a later release of bmq wrote this table")
        await cluster.get("/v1/tables/rows1", 409)
        assert len((await cluster.get("/v1/tables", prefix="rows"))["tables"]) == 3


@pytest.mark.parametrize(
    ("changed", "status", "sentence"),
    [
        ({"topic": "none"}, 409, "there is no topic none; create it first"),
        ({"name": "orders", "description": "x"}, 409, "there is a table orders already, and it is another one"),
        ({"colour": "red"}, 422, "body.colour: Extra inputs are not permitted"),
        ({"fields": [{"name": "a", "type": "text"}]}, 422, "body.fields.0.type: text is no type; there are boolean"),
        ({"partitioning": [{"by": "day", "field": "x"}]}, 422, "body: partitioning by day: there is no field x"),
    ],
)
async def test_what_is_refused(changed: dict[str, Any], status: int, sentence: str) -> None:
    async with RestCluster() as cluster:
        before = cluster.image
        for dry_run in ("true", "false"):
            problem = await cluster.post("/v1/tables", status, {**FORM, **changed}, dry_run=dry_run)
            assert problem["detail"].startswith(sentence)
        assert cluster.image is before


@pytest.mark.parametrize("doc", [b'"\\ud800"', b"NaN", b"Infinity"])
async def test_a_schema_that_could_not_be_sent_again(doc: bytes) -> None:
    async with RestCluster() as cluster:
        form = json.dumps(avro_form(writer_schema={"type": "record", "name": "A", "doc": 0, "fields": []})).encode()
        content = form.replace(b'"doc": 0', b'"doc": ' + doc)
        response = await cluster.client.post(
            "/v1/tables", content=content, headers={"Content-Type": "application/json"}
        )
        assert response.status_code == 422
        assert response.json()["detail"].startswith("body.avro.writer_schema")


async def test_alterations_that_are_refused() -> None:
    async with RestCluster() as cluster:
        form = {**FORM, "name": "orders"}
        problem = await cluster.put("/v1/tables/none", 404, form)
        assert problem["detail"] == "there is no table none"
        problem = await cluster.put("/v1/tables/orders", 409, FORM)
        assert problem["detail"].startswith("name is orders and stays so")
        problem = await cluster.put(
            "/v1/tables/orders", 409, {**form, "fields": form["fields"][1:], "partitioning": []}
        )
        assert problem["detail"].startswith("partitioning is day of at, bucket of id and stays so")
        await cluster.delete("/v1/tables/none", 404)
        await cluster.delete("/v1/tables/..%2Forders", 404)


async def test_bodies_that_are_too_large_or_too_deep() -> None:
    async with RestCluster() as cluster:

        async def endless() -> Any:
            while True:
                yield b" " * 65_536

        for content in (b" " * (BODY_BYTES_MAX + 1), endless()):
            response = await cluster.client.post(
                "/v1/tables", content=content, headers={"Content-Type": "application/json"}
            )
            assert response.status_code == 413
            assert response.json()["detail"] == f"the body has more than {BODY_BYTES_MAX} bytes"
        deep = json.dumps(avro_form())[:-1] + ', "x": ' + "[" * 100_000
        response = await cluster.client.post("/v1/tables", content=deep, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 422)
        nested: Any = "long"
        for _ in range(200):
            nested = {"type": "array", "items": nested}
        schema = {"type": "record", "name": "A", "fields": [{"name": "id", "type": nested}]}
        problem = await cluster.post("/v1/tables", 422, avro_form(writer_schema=schema))
        assert problem["detail"] == "body: the Avro schema: it is nested more than 64 deep"


async def test_a_job_reports_and_everybody_sees_how_far_it_is() -> None:
    async with RestCluster() as cluster:
        orders = cluster.image.topics["orders"]
        before = await cluster.get("/v1/tables/orders/status")
        assert (before["reported_at"], before["state"], before["lag"], before["rows"]) == (None, None, None, None)
        assert before["partitions"][0] == {"partition": 0, "offset": None, "end_offset": 5, "lag": 5}
        cluster.controller.end_offsets = {(orders.topic_id, 0): 3, (orders.topic_id, 1): 30}
        report = {
            "table_id": before["table_id"],
            "topic_id": str(orders.topic_id),
            "partitions": [{"partition": 0, "offset": 4}, {"partition": 1, "offset": 10, "end_offset": 20}],
            "committed_at": "2026-01-02T03:04:05Z",
            "snapshot_id": 2**62,
            "rows": 13,
            "dead_letter_rows": 1,
            "files": 2,
            "bytes": 4096,
        }
        told = await cluster.put("/v1/tables/orders/status", body=report)
        assert told == await cluster.get("/v1/tables/orders/status")
        # What is followed here (5) is newer than what the owner reported (3).
        assert told["partitions"] == [
            {"partition": 0, "offset": 4, "end_offset": 5, "lag": 1},
            {"partition": 1, "offset": 10, "end_offset": 30, "lag": 20},
            {"partition": 2, "offset": None, "end_offset": 0, "lag": 0},
        ]
        assert (told["lag"], told["rows"], told["dead_letter_rows"], told["files"]) == (21, 13, 1, 2)
        assert (told["snapshot_id"], told["state"], told["reported_at"]) == (2**62, "running", "2023-11-14T22:13:20Z")
        assert told["committed_at"] == "2026-01-02T03:04:05Z"
        failed = await cluster.put(
            "/v1/tables/orders/status", body={**report, "state": "failed", "error": "the disk is full"}
        )
        assert (failed["state"], failed["error"]) == ("failed", "the disk is full")

        for changed, status in (
            ({"table_id": "00000000-0000-0000-0000-000000000001"}, 409),
            ({"topic_id": "00000000-0000-0000-0000-000000000001"}, 409),
            ({"rows": -1}, 422),
            ({"rows": "7"}, 422),
            ({"committed_at": "2026-01-02T03:04:05"}, 422),
            ({"partitions": [{"partition": -1, "offset": 0}]}, 422),
            ({"colour": "red"}, 422),
        ):
            await cluster.put("/v1/tables/orders/status", status, {**report, **changed})
        await cluster.put("/v1/tables/none/status", 404, report)

        topics = {name: topic for name, topic in cluster.image.topics.items() if name != "orders"}
        cluster.controller.image = replace(cluster.image, topics=topics, topics_by_id={})
        gone = await cluster.get("/v1/tables/orders/status")
        assert (gone["topic_exists"], gone["lag"], gone["partitions"], gone["rows"]) == (False, None, [], 13)


async def test_another_node_shows_tables_and_sends_on_what_the_controller_has_to_do() -> None:
    async with RestCluster(node_id=2) as cluster:
        cluster.active = None
        assert (await cluster.get("/v1/tables/orders"))["version"] == 1
        assert len((await cluster.get("/v1/tables"))["tables"]) == 1
        for method, path in (
            ("POST", "/v1/tables?dry_run=true"),
            ("PUT", "/v1/tables/orders"),
            ("DELETE", "/v1/tables/orders"),
            ("GET", "/v1/tables/orders/status"),
        ):
            body = FORM if method in ("POST", "PUT") else None
            response = await cluster.client.request(method, path, json=body)
            assert response.status_code == 307
            assert response.headers["location"] == f"http://10.0.0.1:8080{path}"
        cluster.controller.image = replace(cluster.image, controller_id=-1)
        problem = await cluster.post("/v1/tables", 503, FORM)
        assert problem["detail"] == "there is no active controller now; ask again in a moment"


async def test_a_new_controller_here_has_heard_nothing_yet() -> None:
    async with RestCluster() as cluster:
        table = await cluster.get("/v1/tables/orders")
        report = {"table_id": table["table_id"], "topic_id": table["topic_id"], "partitions": []}
        assert (await cluster.put("/v1/tables/orders/status", body=report))["reported_at"] is not None
        again = type(cluster.controller)(cluster.image, cluster.clock)
        cluster.active = again
        assert (await cluster.get("/v1/tables/orders/status"))["reported_at"] is None
