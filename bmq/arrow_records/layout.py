"""The columns to read from records, and their Arrow types. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from bmq.dataclass import dataclass

COLUMNS: Final = (
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "is_transactional",
    "is_control",
)
"""All columns. `timestamp_type`: 0 create time, 1 log append time; `producer_id` and `producer_epoch`: -1 is none."""

_FIXED_TYPES: Final[Mapping[str, pa.DataType]] = {
    "offset": pa.int64(),
    "timestamp_type": pa.int32(),
    "leader_epoch": pa.int32(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "is_transactional": pa.bool_(),
    "is_control": pa.bool_(),
}
_BINARY: Final = pa.binary()
_TIMESTAMPS: Final = (pa.int64(), pa.timestamp("ms"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"))


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns in their order, and the types of those that can have several.

    `timestamp`: int64 (milliseconds since 1970), timestamp("ms"), either with UTC or without, or timestamp("us", "UTC"), in
    which times too far away become the last one there is. `content`: of keys and values, binary (copied once) or
    binary_view (of an uncompressed batch not copied at all, so the buffer lives as long as the column). `header_name`:
    binary, or string, in which bytes that are no UTF-8 are replaced as Kafka's own consumer does.
    Raises ValueError for a column or type that is not there.
    """

    columns: tuple[str, ...] = COLUMNS
    timestamp: pa.DataType = _TIMESTAMPS[0]
    content: pa.DataType = _BINARY
    header_name: pa.DataType = _BINARY

    def __post_init__(self) -> None:
        if unknown := [name for name in self.columns if name not in COLUMNS]:
            raise ValueError(f"no such columns of records: {', '.join(unknown)}")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError(f"a column twice: {', '.join(self.columns)}")
        if self.timestamp not in _TIMESTAMPS:
            raise ValueError(f"timestamps as {self.timestamp} are not supported")
        if self.content not in (_BINARY, pa.binary_view()) or self.header_name not in (_BINARY, pa.string()):
            raise ValueError(f"content as {self.content} with names as {self.header_name} is not supported")

    @property
    def header(self) -> pa.DataType:
        """The type of one header."""
        return pa.struct([pa.field("key", self.header_name, nullable=False), pa.field("value", _BINARY)])

    @property
    def schema(self) -> pa.Schema:
        """Only key and value can be null; a record without headers has an empty list."""
        types = {
            **_FIXED_TYPES,
            "timestamp": self.timestamp,
            "key": self.content,
            "value": self.content,
            "headers": pa.list_(pa.field("element", self.header, nullable=False)),
        }
        return pa.schema([pa.field(name, types[name], nullable=name in ("key", "value")) for name in self.columns])
