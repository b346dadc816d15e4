"""Spark's columns: the connector's names, order and types, built from the decoder's tables. Pure.

Spark takes columns by position and requires exactly the Arrow schema that it derives from its own: all nullable,
`binary`, `timestamp[us, UTC]`. A record without headers has null there, as in the connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from bmq.arrow_records.layout import Layout

DEFAULT_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
COLUMNS: Final = (*DEFAULT_COLUMNS, "headers")

_TIMESTAMP: Final = pa.timestamp("us", "UTC")
_HEADER_FIELDS: Final = (pa.field("key", pa.string()), pa.field("value", pa.binary()))
_HEADERS: Final = pa.list_(pa.field("element", pa.struct(_HEADER_FIELDS)))
_TYPES: Final[Mapping[str, tuple[str, pa.DataType]]] = {
    "key": ("BINARY", pa.binary()),
    "value": ("BINARY", pa.binary()),
    "topic": ("STRING", pa.string()),
    "partition": ("INT", pa.int32()),
    "offset": ("BIGINT", pa.int64()),
    "timestamp": ("TIMESTAMP", _TIMESTAMP),
    "timestampType": ("INT", pa.int32()),
    "headers": ("ARRAY<STRUCT<key: STRING, value: BINARY>>", _HEADERS),
}
_DECODED: Final[Mapping[str, str]] = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    "headers": "headers",
}


def ddl(columns: tuple[str, ...]) -> str:
    """Spark's schema as DDL."""
    return ", ".join(f"`{name}` {_TYPES[name][0]}" for name in columns)


def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """The same schema in Arrow, as Spark derives it."""
    return pa.schema([pa.field(name, _TYPES[name][1]) for name in columns])


def layout(columns: tuple[str, ...]) -> Layout:
    """What has to be decoded for these columns; only the offset if just the number of records matters."""
    decoded = tuple(_DECODED[name] for name in columns if name in _DECODED)
    return Layout(decoded or ("offset",), timestamp=_TIMESTAMP, header_name=pa.string())


class RowMaker:
    """Makes Spark's batches from one partition's decoded tables. Constant columns are created once."""

    def __init__(self, columns: tuple[str, ...], topic: str, partition: int) -> None:
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._constants = {
            "topic": pa.scalar(topic, pa.string()),
            "partition": pa.scalar(partition, pa.int32()),
        }
        self._repeated: dict[str, pa.Array] = {}

    def rows(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a decoded table with the columns of `layout`."""
        return pa.RecordBatch.from_arrays([self._column(name, decoded) for name in self._columns], schema=self._schema)

    def _column(self, name: str, decoded: pa.RecordBatch) -> pa.Array:
        if name in self._constants:
            return self._constant(name, decoded.num_rows)
        column = decoded.column(_DECODED[name])
        return _nullable_headers(column) if name == "headers" else column

    def _constant(self, name: str, count: int) -> pa.Array:
        repeated = self._repeated.get(name)
        if repeated is None or len(repeated) < count:
            repeated = self._repeated[name] = pa.repeat(self._constants[name], count)
        return repeated.slice(0, count)


def _nullable_headers(lists: pa.ListArray) -> pa.ListArray:
    offsets = lists.offsets.to_numpy()
    pairs = lists.values
    pairs = pa.StructArray.from_arrays([pairs.field(0), pairs.field(1)], fields=list(_HEADER_FIELDS))
    is_empty = offsets[1:] == offsets[:-1]
    return pa.ListArray.from_arrays(
        pa.array(np.ascontiguousarray(offsets)), pairs, type=_HEADERS, mask=pa.array(is_empty)
    )
