"""Avro values by a schema in a file, in Avro's own JSON encoding: unions and bytes as kafka-avro-console-* have them.

Source: Apache Avro 1.12 specification, "JSON Encoding". Imported late: it needs fastavro.
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any, Final

import fastavro

from bmq.cli.bounded_file import read_bounded
from bmq.cli.kafka.model import KafkaFailed
from bmq.cli.kafka.value_format import BadValue, compact_json, parsed_json
from bmq.protocol.error_codes import ErrorCode

SCHEMA_BYTES_MAX: Final = 1 << 20
_HEAD: Final = struct.Struct(">bi")
_MAGIC: Final = 0
_COMPLEX: Final = frozenset({"record", "error", "enum", "fixed", "array", "map"})


def read_schema(path: Path) -> Any:
    """The parsed schema of an .avsc file. Raises KafkaFailed."""
    data = read_bounded(path, SCHEMA_BYTES_MAX, _bad_schema)
    try:
        schema = fastavro.parse_schema(json.loads(data))
        takes_bytes(schema)
    except Exception as error:  # noqa: BLE001 fastavro lets many kinds through for schemas that are wrong
        raise _bad_schema(f"{path} is not an Avro schema: {_reason(error)}") from None
    return schema


def takes_bytes(schema: Any) -> bool:
    """Whether every value of a parsed schema takes a byte at least.

    Raises ValueError for what bytes of others could end this process with: fastavro's compiled reader follows a record
    that begins with itself until the stack ends, and makes two thousand million items of an array from five bytes.
    """
    return _takes_bytes(schema, {}, ())


def _takes_bytes(schema: Any, known: dict[str, bool], within: tuple[str, ...]) -> bool:
    if isinstance(schema, list):
        for branch in schema:
            _takes_bytes(branch, known, within)
        return True  # the number of the branch
    if isinstance(schema, str):
        if schema in within:
            raise ValueError(f"{schema} contains itself, which is not read here")
        return known.get(schema, schema != "null")
    kind = schema["type"]
    if not isinstance(kind, str) or kind not in _COMPLEX:
        return _takes_bytes(kind, known, within)
    if kind in ("array", "map"):
        if not _takes_bytes(schema["items" if kind == "array" else "values"], known, within) and kind == "array":
            raise ValueError("an array of items without bytes has no bounds")
        return True  # the number of items
    name = schema["name"]
    if kind in ("record", "error"):
        fields = [_takes_bytes(field["type"], known, (*within, name)) for field in schema["fields"]]
        known[name] = any(fields)
    else:
        known[name] = kind == "enum" or schema["size"] > 0
    return known[name]


class AvroCodec:
    """Implements Codec. `schema_id`: written before each value, whose head is then read as well; None: bare values."""

    def __init__(self, schema: Any, schema_id: int | None = None) -> None:
        self._schema = schema
        self._schema_id = schema_id

    def decode(self, data: bytes) -> Any:
        file = io.BytesIO(data)
        if self._schema_id is not None:
            if len(data) < _HEAD.size or data[0] != _MAGIC:
                raise BadValue("it has no schema id before it")
            file.seek(_HEAD.size)
        try:
            value = fastavro.schemaless_reader(file, self._schema, None)
            out = io.StringIO()
            fastavro.json_writer(out, self._schema, [value])
        except Exception as error:  # noqa: BLE001 bytes that are not Avro fail in many ways
            raise BadValue(f"it is not Avro of this schema: {_reason(error)}") from None
        if rest := len(data) - file.tell():
            raise BadValue(f"it is not Avro of this schema: {rest} bytes are left behind it")
        return json.loads(out.getvalue())

    def encode(self, value: Any) -> bytes:
        out = io.BytesIO()
        if self._schema_id is not None:
            out.write(_HEAD.pack(_MAGIC, self._schema_id))
        try:
            (datum,) = fastavro.json_reader(io.StringIO(compact_json(value)), self._schema)
            fastavro.schemaless_writer(out, self._schema, datum)
        except Exception as error:  # noqa: BLE001 values of another form fail in many ways
            raise BadValue(f"it does not fit the Avro schema: {_reason(error)}") from None
        return out.getvalue()

    def parse(self, text: str) -> bytes:
        return self.encode(parsed_json(text))


def _bad_schema(message: str) -> KafkaFailed:
    return KafkaFailed(message, ErrorCode.INVALID_CONFIG)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else "its end is missing"
