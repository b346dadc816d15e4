"""Protobuf values as columns: presence, defaults, and bytes that are no message."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.tables.markers import MARKER
from bmq.spark.tables.protobuf_values import REASON, protobuf_columns
from tests.unit.table_definitions.definitions import descriptor_set

pytestmark = pytest.mark.unit

SCHEMA = base64.b64decode(descriptor_set())
PATHS = (("id",), ("count",), ("price",), ("at",), ("customer", "name"))
COLUMNS = protobuf_columns(SCHEMA, "shop.Order", PATHS)


def order_class() -> Any:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(SCHEMA).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


ORDER = order_class()


def decoded(*values: bytes | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = COLUMNS.decode(pa.array(values, pa.binary())).to_pylist()
    return rows


def test_types_are_those_of_the_schema() -> None:
    assert COLUMNS.spark_type == (
        f"struct<{MARKER}:boolean,{REASON}:string,c0:bigint,c1:int,c2:double,c3:timestamp,c4:string>"
    )


def test_what_is_absent_is_null_or_its_default() -> None:
    assert decoded(b"") == [{MARKER: True, REASON: None, "c0": 0, "c1": 0, "c2": 0.0, "c3": None, "c4": None}]


def test_what_is_no_message_is_null_in_all() -> None:
    late = ORDER()
    late.at.seconds = 2**60
    nothing = {
        MARKER: None,
        REASON: "the value is no message shop.Order",
        "c0": None,
        "c1": None,
        "c2": None,
        "c3": None,
        "c4": None,
    }
    assert decoded(b"\xff\xff", None, late.SerializeToString()) == [nothing] * 3
    assert decoded() == []


@pytest.mark.parametrize("nanos", [-1, 1_000_000_000])
def test_a_timestamp_with_impossible_nanoseconds_is_no_time(nanos: int) -> None:
    wrong = ORDER()
    wrong.at.seconds, wrong.at.nanos = 253_402_300_799, nanos
    assert decoded(wrong.SerializeToString())[0][MARKER] is None


def test_a_text_of_proto2_that_is_no_utf8_does_not_fit() -> None:
    file = FileDescriptorProto(name="a.proto", syntax="proto2")
    file.message_type.add(name="A").field.add(
        name="text", number=1, type=FieldDescriptorProto.TYPE_STRING, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    columns = protobuf_columns(FileDescriptorSet(file=[file]).SerializeToString(), "A", (("text",),))
    rows = columns.decode(pa.array([b"\x0a\x01\xff", b"\x0a\x02\xc3\xa4", b""], pa.binary())).to_pylist()
    assert [(row[MARKER], row["c0"]) for row in rows] == [(None, None), (True, "ä"), (True, None)]


def test_values_behind_a_schemas_id() -> None:
    columns = protobuf_columns(SCHEMA, "shop.Order", (("id",),), ((7, (0,)), (9, (1,))))
    body = ORDER(id=5).SerializeToString()
    values = [b"\0\0\0\0\7\0" + body, b"\0\0\0\0\x09\2\2" + body, b"\0\0\0\0\x08\0" + body, body, b"\0\0\0\0\7\0\xff"]
    rows = columns.decode(pa.array(values, pa.binary())).to_pylist()
    assert [(row[REASON], row["c0"]) for row in rows] == [
        (None, 5),
        (None, 5),
        ("the table has no schema with id 8", None),
        ("the value has no schema id before its Protobuf message", None),
        ("the value is no message shop.Order", None),
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-(2**31), 2**31 - 1),
            st.floats(allow_nan=False),
            st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),
            st.text(st.characters(exclude_categories=["Cs"])),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_columns_are_what_the_messages_say(orders: list[tuple[int, int, float, datetime, str]]) -> None:
    messages = []
    for number, count, price, at, name in orders:
        message = ORDER(id=number, count=count, price=price)
        message.at.FromDatetime(at)
        message.customer.name = name
        messages.append(message)
    rows = decoded(*(message.SerializeToString() for message in messages))
    for row, (number, count, price, at, name), message in zip(rows, orders, messages, strict=True):
        expected = {"c0": number, "c1": count, "c2": price, "c3": at.replace(tzinfo=UTC), "c4": name}
        assert row == {MARKER: True, REASON: None, **expected}
        assert MessageToDict(message, always_print_fields_with_no_presence=True)["id"] == str(row["c0"])
