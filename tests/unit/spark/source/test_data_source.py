"""What Spark creates for each load."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.datasource")
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bmq.spark.source.columns import COLUMNS
from bmq.spark.source.data_source import BmqDataSource
from bmq.spark.source.options import BadOption

pytestmark = pytest.mark.unit

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
OWN = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", ArrayType(HEADER)),
    ]
)


def source(columns: str) -> BmqDataSource:
    return BmqDataSource({"kafka.bootstrap.servers": "a:1", "subscribe": "t", "columns": columns})


def test_the_columns_are_those_of_the_options() -> None:
    for number in range(1, len(COLUMNS) + 1):
        found = source(",".join(COLUMNS[:number]))
        found.reader(StructType(OWN.fields[:number]))
        found.streamReader(StructType(OWN.fields[:number]))


@pytest.mark.parametrize("schema", [StructType([OWN["value"], OWN["key"]]), StructType([OWN["key"]])])
def test_another_schema_is_refused(schema: StructType) -> None:
    """Spark 4.1 takes columns by their place, and would give one under the name of another."""
    for read in (source("key,value").reader, source("key,value").streamReader):
        with pytest.raises(BadOption, match=r"has a schema of its own: .* the option columns"):
            read(schema)
