"""Tables whose records change rows: their keys, and what is read of an envelope."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bmq.table_definitions.definition import InvalidDefinition, TableDefinition
from bmq.table_definitions.evolution import AlterationRefused, alterations
from tests.unit.table_definitions.definitions import definition

pytestmark = pytest.mark.unit

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long", "path": "order.id"},
    {"name": "city", "type": "string"},
    {"name": "key", "type": "string", "source": "key"},
    {"name": "weight", "type": "double"},
]


def table(format: str = "json", **changes: Any) -> TableDefinition:
    return definition(fields=FIELDS, partitioning=[], format=format, changes=changes)


def paths(found: TableDefinition) -> dict[str, str]:
    return {each.name: ".".join(each.steps) for each in found.value_fields}


def test_a_record_is_read_as_it_is_or_as_an_envelope() -> None:
    plain = {"id": "order.id", "city": "city", "weight": "weight"}
    assert paths(definition(fields=FIELDS, partitioning=[])) == paths(table(key=["id"])) == plain
    assert paths(table(key=["id", "key"], mode="debezium")) == {
        "id": "after.order.id",
        "city": "after.city",
        "weight": "after.weight",
        "before.id": "before.order.id",
        "envelope.op": "op",
    }
    found = paths(table(key=["id"], mode="debezium", envelope="payload"))
    assert (found["city"], found["before.id"], found["envelope.op"]) == (
        "payload.after.city",
        "payload.before.order.id",
        "payload.op",
    )


def test_json_has_the_key_only_where_there_is_one() -> None:
    found = table(key=["id"])
    assert TableDefinition.from_json(found.to_json()) == found
    assert '"changes":{"key":["id"],"mode":"upsert"' in found.to_json()
    assert "changes" not in definition().to_json(), "earlier releases refuse a key that they do not know"


def test_the_fields_of_a_key_are_required() -> None:
    found = table(key=["id", "key"])
    assert [each.name for each in found.fields if found.is_required(each)] == ["id", "key"]


def test_a_record_without_a_value_deletes_only_where_it_has_the_key() -> None:
    for key, mode, expected in (
        (["key"], "upsert", True),
        (["id"], "upsert", False),
        (["key", "id"], "upsert", False),
        (["key"], "debezium", False),
    ):
        assert table(key=key, mode=mode).has_tombstones is expected, (key, mode)
    assert not definition().has_tombstones


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"changes": {"key": ["ID"]}}, "changes.key: there is no field ID"),
        ({"changes": {"key": ["id", "id"]}}, "changes.key: id is there more than once"),
        ({"changes": {"key": ["weight"]}}, "changes.key: field weight is a double, and such numbers are not compared"),
        ({"changes": {"key": []}}, "changes.key: "),
        ({"changes": {"key": ["id"], "mode": "append"}}, "changes.mode: Input should be 'upsert' or 'debezium'"),
        (
            {"changes": {"key": ["id"], "envelope": "payload"}},
            "changes.envelope: only the mode debezium has an envelope",
        ),
        ({"changes": {"key": ["id"]}, "index": {"keys": [{"field": "id"}]}}, "index: it finds records"),
        (
            {
                "changes": {"key": ["v"], "mode": "debezium"},
                "format": "raw",
                "fields": [{"name": "v", "type": "string"}],
            },
            "changes: a raw value has no envelope",
        ),
    ],
)
def test_keys_that_are_refused(changed: dict[str, Any], sentence: str) -> None:
    form = {"name": "t", "topic": "t", "format": "json", "fields": FIELDS, **changed}

    with pytest.raises(InvalidDefinition) as refused:
        TableDefinition.from_json(json.dumps(form))
    assert str(refused.value).startswith(sentence)


def test_an_envelope_is_looked_up_in_its_avro_schema() -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Row"]},
            {"name": "op", "type": "string"},
        ],
    }
    form: dict[str, Any] = {
        "format": "avro",
        "avro": {"writer_schema": envelope},
        "fields": [{"name": "id", "type": "long"}],
        "partitioning": [],
        "changes": {"key": ["id"], "mode": "debezium"},
    }
    assert paths(definition(**form))["before.id"] == "before.id"
    form["avro"] = {"writer_schema": {**envelope, "fields": envelope["fields"][:2]}}
    with pytest.raises(ValueError, match=r"field envelope.op: the Avro schema: it has no op"):
        definition(**form)


def test_a_key_and_a_mode_stay() -> None:
    for other in ({"key": ["city"]}, {"key": ["id"], "mode": "debezium"}):
        with pytest.raises(AlterationRefused, match=r"changes is upsert by id and stays so: rows were written so"):
            alterations(table(key=["id"]), table(**other))
    wider = [{**each, "description": "x"} if each["name"] == "id" else each for each in FIELDS]
    assert alterations(table(key=["id"]), definition(fields=wider, partitioning=[], changes={"key": ["id"]}))
