"""A field more in a schema, which tells a value of nulls from one that cannot be read."""

from __future__ import annotations

import copy
import json

import pytest

from bmq.spark.tables.markers import MARKER, marked_avro_schema
from tests.unit.table_definitions.definitions import ORDER_SCHEMA

pytestmark = pytest.mark.unit

MARK = {"name": MARKER, "type": "boolean", "default": True}


@pytest.mark.parametrize(
    "wrap", [lambda schema: schema, lambda schema: ["null", schema], lambda schema: {"type": schema}]
)
def test_an_avro_record_gets_a_field_with_a_default(wrap: object) -> None:
    assert callable(wrap)
    schema = wrap(copy.deepcopy(ORDER_SCHEMA))
    before = copy.deepcopy(schema)
    expected = wrap({**ORDER_SCHEMA, "fields": [*ORDER_SCHEMA["fields"], MARK]})
    assert json.loads(marked_avro_schema(schema)) == expected
    assert schema == before
