"""A definition as the statements that make its table."""

from __future__ import annotations

import pytest

from bmq.spark.tables.columns import (
    changes_properties,
    create_statement,
    dead_letter_columns,
    evolution_statements,
    index_properties,
    partition_terms,
    table_columns,
    text,
    transform,
)
from bmq.spark.tables.errors import TableMismatch
from bmq.table_definitions.definition import Partitioning, Transform
from bmq.table_definitions.index_identity import index_identity
from tests.unit.table_definitions.definitions import definition

pytestmark = pytest.mark.unit

T = "`c`.`n`.`t`"


def test_columns_are_the_fields_and_where_a_row_comes_from() -> None:
    columns = table_columns(
        definition(partitioning=[], fields=[{"name": "id", "type": "long"}, {"name": "Price", "type": "decimal(9,2)"}])
    )
    assert columns == {"id": "bigint", "Price": "decimal(9,2)", "_bmq_partition": "int", "_bmq_offset": "bigint"}
    assert dead_letter_columns()["offset"] == "bigint"


@pytest.mark.parametrize(
    ("partitioning", "expected"),
    [
        (Partitioning(by=Transform.HOUR, field="at"), "hours(`at`)"),
        (Partitioning(by=Transform.DAY, field="at"), "days(`at`)"),
        (Partitioning(by=Transform.MONTH, field="at"), "months(`at`)"),
        (Partitioning(by=Transform.IDENTITY, field="country"), "`country`"),
        (Partitioning(by=Transform.BUCKET, field="id", buckets=16), "bucket(16, `id`)"),
    ],
)
def test_transforms(partitioning: Partitioning, expected: str) -> None:
    assert transform(partitioning) == expected


def test_a_table_is_made_with_its_topic_and_partitions() -> None:
    made = create_statement(T, {"id": "bigint"}, "it's", ["`id`"])
    assert made.startswith(
        f"CREATE TABLE IF NOT EXISTS {T} (`id` bigint) USING iceberg PARTITIONED BY (`id`) TBLPROPERTIES ("
    )
    assert "'bmq.topic' = 'it\\'s'" in made
    assert "'write.wap.enabled' = 'true'" in made


def test_an_index_has_the_records_time_partitions_by_it_and_bloom_filters() -> None:
    fields = [{"name": "city", "type": "string"}, {"name": "paid_at", "type": "timestamp", "unit": "ms"}]
    index = {"keys": [{"field": "city"}, {"field": "paid_at", "by": "range"}]}
    partitioning = [{"by": "bucket", "field": "city", "buckets": 4}]
    made = definition(fields=fields, index=index, partitioning=partitioning)
    assert table_columns(made)["_bmq_timestamp"] == "timestamp"
    statement = create_statement(T, table_columns(made), "orders", partition_terms(made), index_properties(made))
    assert "PARTITIONED BY (hours(`_bmq_timestamp`), bucket(4, `city`))" in statement
    assert "'write.parquet.bloom-filter-enabled.column.city' = 'true'" in statement
    assert "column.paid_at" not in statement
    assert f"'bmq.index' = '{index_identity(made)}'" in statement
    plain = definition(fields=fields, partitioning=partitioning)
    assert (partition_terms(plain), index_properties(plain)) == (["bucket(4, `city`)"], {})
    assert "'write.parquet.row-group-size-bytes' = '8388608'" in statement


def test_text_ends_nowhere_but_at_its_end() -> None:
    assert text("a\\'b") == "'a\\\\\\'b'"


def test_columns_are_added_and_widened_and_never_dropped() -> None:
    existing = {"ID": "int", "price": "decimal(9,2)", "old": "string", "wide": "bigint"}
    wanted = {"id": "bigint", "price": "decimal(12,2)", "wide": "int", "new": "date", "newer": "string"}
    assert evolution_statements(T, existing, wanted, "t") == [
        f"ALTER TABLE {T} ALTER COLUMN `id` TYPE bigint",
        f"ALTER TABLE {T} ALTER COLUMN `price` TYPE decimal(12,2)",
        f"ALTER TABLE {T} ADD COLUMNS (`new` date, `newer` string)",
    ]
    assert evolution_statements(T, wanted, wanted, "t") == []


@pytest.mark.parametrize(("old", "new"), [("string", "int"), ("bigint", "string"), ("decimal(9,2)", "decimal(9,3)")])
def test_another_type_is_refused(old: str, new: str) -> None:
    with pytest.raises(TableMismatch, match="column a of table t"):
        evolution_statements(T, {"a": old}, {"a": new}, "t")


def test_a_table_whose_records_change_rows_marks_deleted_ones() -> None:
    assert changes_properties(definition()) == {}
    found = changes_properties(definition(changes={"key": ["id", "city"], "mode": "debezium"}))
    assert found["bmq.changes"] == "debezium by id, city"
    statement = create_statement(T, {"id": "bigint"}, "t", properties=found)
    assert "'format-version' = '3'" in statement and "'format-version' = '2'" not in statement
    assert "'write.merge.mode' = 'merge-on-read'" in statement
