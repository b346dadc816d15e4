"""Records of the tail as rows: what fits, as what value, and what does not fit."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from bmq.index.row_decoder import TailRows
from bmq.index.topic_reader import LogRecord
from bmq.table_definitions.definition import TableDefinition
from tests.unit.table_definitions.definitions import ORDER_SCHEMA, descriptor_set

pytestmark = pytest.mark.unit


def made(value_format: str, fields: list[dict[str, Any]], **more: Any) -> TableDefinition:
    form = {"name": "t", "topic": "orders", "format": value_format, "fields": fields, **more}
    return TableDefinition.from_json(json.dumps(form))


def decoded(definition: TableDefinition, value: bytes | None, **record: Any) -> dict[str, Any] | None:
    """The row of one record; None: it does not fit."""
    rows = TailRows(definition)
    given: dict[str, Any] = {"timestamp_ms": 1_500, "key": b"k", "headers": (), **record}
    rows.take(LogRecord(partition=1, offset=9, value=value, **given))
    assert len(rows) + rows.misfits == 1
    found: list[dict[str, Any]] = rows.table().to_pylist()
    return found[0] if found else None


@pytest.mark.parametrize(
    ("column_type", "text", "expected"),
    [
        ("long", "9223372036854775807", 2**63 - 1),
        ("int", "-7", -7),
        ("double", "1e3", 1000.0),
        ("double", '"Infinity"', float("inf")),
        ("float", "2", 2.0),
        ("decimal(5,2)", "1.005", Decimal("1.01")),
        ("decimal(5,2)", '"12.5"', Decimal("12.50")),
        ("decimal(5,2)", "1e-400", Decimal("0.00")),
        ("boolean", "true", True),
        ("string", "1.50", "1.5"),
        ("string", "-0", "0"),
        ("string", "1e5", "100000.0"),
        ("string", "-12e6", "-1.2E7"),
        ("string", "0.0001234", "1.234E-4"),
        ("string", "0.00123", "0.00123"),
        ("string", "-0.0", "-0.0"),
        ("string", "12345678901234567890", "12345678901234567890"),
        ("string", "[1e400, NaN]", '["Infinity","NaN"]'),
        ("string", '"\\u0001"', "\x01"),
        ("string", '["\\u001f\\n\\u00e9/"]', '["\\u001F\\né/"]'),
        ("string", "true", "true"),
        ("string", '{"a": [1, 2.50,"x}",null], "a": true }', '{"a":[1,2.5,"x}",null],"a":true}'),
        ("string", "[ ]", "[]"),
        ("string", '["\\ud83d\\ude00<>&"]', '["\\uD83D\\uDE00<>&"]'),
        ("string", '"a\\ud800b"', "a?b"),
        ("string", '["\\udfff"]', '["?"]'),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("decimal(38,10)", f"-{'9' * 28}.{'1' * 10}4", Decimal(f"-{'9' * 28}.{'1' * 10}")),
        ("decimal(5,2)", '"1e1"', Decimal("10.00")),
        ("decimal(5,2)", '"1,00"', Decimal("100.00")),
        ("binary", '"AAE="', b"\0\1"),
        ("date", '"2026-11-24"', date(2026, 11, 24)),
        ("date", '"2026-11-24T10:00:00Z"', date(2026, 11, 24)),
        ("timestamp", '"2026-11-24T10:00:00.1234567+02:00"', datetime(2026, 11, 24, 8, 0, 0, 123_456, tzinfo=UTC)),
        ("timestamp", '"2026-11-24 10:00"', datetime(2026, 11, 24, 10, tzinfo=UTC)),
        ("timestamp", '"2026-11-24 10:00:00 Europe/Berlin"', datetime(2026, 11, 24, 9, tzinfo=UTC)),
        ("timestamp", '"2026-11"', datetime(2026, 11, 1, tzinfo=UTC)),
        ("long", "null", None),
    ],
)
def test_json_values(column_type: str, text: str, expected: object) -> None:
    row = decoded(made("json", [{"name": "x", "type": column_type}]), f'{{"x":{text}}}'.encode())
    assert row is not None
    assert row["x"] == expected
    assert (row["_bmq_partition"], row["_bmq_offset"]) == (1, 9)
    assert row["_bmq_timestamp"] == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column_type", "value"),
    [
        ("long", b"no JSON"),
        ("long", b'{"x":1}{"x":2}'),
        ("long", b'{"x":1'),
        ("long", b"[1]"),
        ("long", b"\xff"),
        ("long", None),
        ("long", b'{"x":"1"}'),
        ("long", b'{"x":1.0}'),
        ("long", b'{"x":9223372036854775808}'),
        ("int", b'{"x":2147483648}'),
        ("boolean", b'{"x":1}'),
        ("double", b'{"x":"1.5"}'),
        ("decimal(5,2)", b'{"x":1000}'),
        ("decimal(5,2)", b'{"x":"cheap"}'),
        ("decimal(5,2)", b'{"x":1e400000000}'),
        ("timestamp", b'{"x":"10:00"}'),
        ("timestamp", b'{"x":"2026-13-01"}'),
        ("timestamp", b'{"x":"2026-11-24 10:00:00 Nowhere/Land"}'),
        ("timestamp", b'{"x":"2026-11-24 10:00:00 America/Indiana"}'),
        ("long", b'{"x":' + b"1" * 5_000 + b"}"),
        ("string", b'{"x":' + b"1" * 5_000 + b"}"),
        ("string", b'{"x":' + b"[" * 250 + b"]" * 250 + b"}"),
        ("long", b'{"x":' + b"[" * 250 + b"]" * 250 + b"}"),
        ("decimal(38,0)", b'{"x":1' + b"0" * 38 + b"}"),
        ("date", b'{"x":20261124}'),
        ("binary", b'{"x":"%"}'),
        ("string", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ],
)
def test_json_that_does_not_fit_has_no_row(column_type: str, value: bytes | None) -> None:
    assert decoded(made("json", [{"name": "x", "type": column_type}]), value) is None


def test_the_text_of_an_object_within_objects() -> None:
    definition = made("json", [{"name": "x", "type": "string", "path": "a.b"}])
    value = b' {"b": {"a": 0}, "a" : {"z": "\\"{", "b": [0], "b" :\t{"c": [ 1,2 ]} , "y": 1 } }'
    row = decoded(definition, value)
    assert row is not None
    assert row["x"] == '{"c":[1,2]}'


def test_json_with_the_id_of_its_schema_before_it() -> None:
    definition = made("json", [{"name": "x", "type": "long"}], json_framing="registry")
    row = decoded(definition, b"\0\0\0\0\x11" + b'{"x":1}')
    assert row is not None
    assert row["x"] == 1
    for value in (b'{"x":1}', b"\0\0\0\0", b"", b"\0\0\0\0\x11"):
        assert decoded(definition, value) is None, value
    assert decoded(made("json", [{"name": "x", "type": "long"}]), b"\0\0\0\0\x11" + b'{"x":1}') is None


def test_a_record_that_no_one_thought_of_is_a_misfit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("a fault")

    monkeypatch.setattr("bmq.index.row_decoder.from_json", fail)
    assert decoded(made("json", [{"name": "x", "type": "long"}]), b'{"x":1}') is None


def test_paths_and_required_fields() -> None:
    fields = [{"name": "city", "type": "string", "path": "customer.address.city", "required": True}]
    definition = made("json", fields)
    row = decoded(definition, b'{"customer":{"address":{"city":"Bern"}}}')
    assert row is not None
    assert row["city"] == "Bern"
    for value in (b'{"customer":{"address":{}}}', b'{"customer":null}', b"{}", b'{"customer":{"address":"Bern"}}'):
        assert decoded(definition, value) is None, value


@pytest.mark.parametrize(("unit", "number"), [("s", 2), ("ms", 2_000), ("us", 2_000_000)])
def test_times_that_are_numbers(unit: str, number: int) -> None:
    definition = made("json", [{"name": "x", "type": "timestamp", "unit": unit}])
    row = decoded(definition, f'{{"x":{number}}}'.encode())
    assert row is not None
    assert row["x"] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert decoded(definition, f'{{"x":{10**18 * 9}}}'.encode()) is None


def test_parts_of_the_record_beside_the_value() -> None:
    fields: list[dict[str, Any]] = [
        {"name": "k", "type": "string", "source": "key"},
        {"name": "h", "type": "binary", "source": "header", "path": ["trace"]},
        {"name": "t", "type": "string", "source": "topic"},
        {"name": "p", "type": "int", "source": "partition"},
        {"name": "o", "type": "long", "source": "offset"},
        {"name": "at", "type": "timestamp", "source": "timestamp"},
    ]
    definition = made("raw", fields)
    row = decoded(definition, None, headers=(("trace", b"1"), ("trace", b"2"), ("x", b"3")), timestamp_ms=None)
    assert row is not None
    assert (row["k"], row["h"], row["t"], row["p"], row["o"], row["at"]) == ("k", b"2", "orders", 1, 9, None)
    assert decoded(definition, b"", key=b"\xff") is None


def test_raw_values() -> None:
    definition = made("raw", [{"name": "v", "type": "string"}])
    row = decoded(definition, "ä".encode())
    assert row is not None
    assert row["v"] == "ä"
    assert decoded(definition, b"\xff") is None
    null = decoded(definition, None)
    assert null is not None
    assert null["v"] is None


# --- Avro

AVRO_FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "count", "type": "int"},
    {"name": "price", "type": "decimal(10,2)"},
    {"name": "at", "type": "timestamp"},
    {"name": "at_ms", "type": "long", "path": "at"},
    {"name": "day", "type": "date"},
    {"name": "state", "type": "string"},
    {"name": "customer", "type": "string", "path": "customer.name"},
]
ORDER = {
    "id": 7,
    "count": None,
    "price": Decimal("1.50"),
    "at": datetime(2026, 11, 24, 10, 0, 0, 123_000, tzinfo=UTC),
    "day": date(2026, 11, 24),
    "state": "PAID",
    "before": None,
    "tags": ["a"],
    "customer": {"name": "Ann", "next": None},
}


def avro(order: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(ORDER_SCHEMA))), order)
    return out.getvalue()


@pytest.mark.parametrize("has_id", [False, True])
def test_avro_values(has_id: bool) -> None:
    form = {"writer_schemas": {"17": ORDER_SCHEMA}} if has_id else {"writer_schema": ORDER_SCHEMA}
    definition = made("avro", AVRO_FIELDS, avro=form)
    frame = b"\0\0\0\0\x11" if has_id else b""
    row = decoded(definition, frame + avro(ORDER))
    assert row is not None
    expected = {**ORDER, "customer": "Ann", "at_ms": 1_795_514_400_123}
    assert {name: row[name] for name in ("id", "count", "price", "at", "at_ms", "day", "state", "customer")} == {
        name: expected[name] for name in ("id", "count", "price", "at", "at_ms", "day", "state", "customer")
    }
    assert decoded(definition, frame + b"\xff\xff") is None
    assert decoded(definition, b"\0\0\0\0\x12" + avro(ORDER)) is None if has_id else True
    assert decoded(definition, b"") is None


def test_avro_values_of_logical_types_that_columns_do_not_have() -> None:
    kinds = {"id": ("string", "uuid"), "ms": ("int", "time-millis"), "us": ("long", "time-micros")}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": name, "type": ["null", {"type": kind, "logicalType": logical}]}
            for name, (kind, logical) in kinds.items()
        ],
    }
    fields = [{"name": name, "type": kind} for name, (kind, _) in kinds.items()]
    values = {"id": "6f6c4f5e-0000-4000-8000-000000000001", "ms": 1_500, "us": 1_500_000}
    plain = [{"name": name, "type": ["null", kind]} for name, (kind, _) in kinds.items()]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema({**schema, "fields": plain}), values)
    row = decoded(made("avro", fields, avro={"writer_schema": schema}), out.getvalue())
    assert row is not None
    assert {name: row[name] for name in values} == values


def test_avro_decimals_of_many_digits() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}
    number = Decimal("9" * 34 + ".9999")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), {"x": number})
    row = decoded(
        made("avro", [{"name": "x", "type": "decimal(38,4)"}], avro={"writer_schema": schema}), out.getvalue()
    )
    assert row is not None
    assert row["x"] == number


# --- Protobuf


def test_protobuf_values() -> None:
    form: dict[str, Any] = {"message": "shop.Order", "descriptor_set": descriptor_set()}
    fields = [
        {"name": "id", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "at", "type": "timestamp"},
        {"name": "customer", "type": "string", "path": "customer.name"},
    ]
    definition = made("protobuf", fields, protobuf=form)
    assert definition.protobuf is not None
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(definition.protobuf.descriptor_bytes).file:
        pool.Add(file)
    message: Any = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))()
    message.id, message.price, message.customer.name = 7, 1.5, "Ann"
    message.at.seconds = 2
    row = decoded(definition, message.SerializeToString())
    assert row is not None
    assert (row["id"], row["price"], row["customer"]) == (7, 1.5, "Ann")
    assert row["at"] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert decoded(definition, b"\xff") is None
    form["message_indexes"] = {"7": [0]}
    framed = made("protobuf", fields, protobuf=form)
    assert decoded(framed, b"\0\0\0\0\7\0" + message.SerializeToString()) == row
    assert decoded(framed, b"\0\0\0\0\x08\0" + message.SerializeToString()) is None
    assert decoded(framed, message.SerializeToString()) is None
