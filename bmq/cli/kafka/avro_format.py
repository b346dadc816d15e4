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

from bmq.cli.kafka.model import KafkaFailed
from bmq.cli.kafka.value_format import BadValue, compact_json, parsed_json
from bmq.protocol.error_codes import ErrorCode

SCHEMA_BYTES_MAX: Final = 1 << 20
_HEAD: Final = struct.Struct(">bi")
_MAGIC: Final = 0


def read_schema(path: Path) -> Any:
    """The parsed schema of an .avsc file. Raises KafkaFailed."""
    try:
        with path.open("rb") as file:
            data = file.read(SCHEMA_BYTES_MAX + 1)
    except OSError as error:
        raise _bad_schema(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > SCHEMA_BYTES_MAX:
        raise _bad_schema(f"{path} has more than {SCHEMA_BYTES_MAX} bytes")
    try:
        return fastavro.parse_schema(json.loads(data))
    except Exception as error:  # fastavro lets many kinds through for schemas that are wrong
        raise _bad_schema(f"{path} is not an Avro schema: {_reason(error)}") from None


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
        except Exception as error:  # bytes that are not Avro fail in many ways
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
        except Exception as error:  # values of another form fail in many ways
            raise BadValue(f"it does not fit the Avro schema: {_reason(error)}") from None
        return out.getvalue()

    def parse(self, text: str) -> bytes:
        return self.encode(parsed_json(text))


def _bad_schema(message: str) -> KafkaFailed:
    return KafkaFailed(message, ErrorCode.INVALID_CONFIG)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else "its end is missing"
