"""Messages as plain values, by their schemas: requests that no client would send included.

A struct is a dict by the fields' names, with durations and times in whole milliseconds (`timeout_ms`); an array is a
list. What a version lacks is left out, so one dict says all versions of a request. None is null wherever it stands, also
where the schema forbids it; `Raw` puts bytes of one's own in a field's place.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Final

from tests.conformance.schemas import API_VERSIONS, Kind, Schema, schema, schema_versions

Values = Mapping[str, Any]

_FIXED: Final = {
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
    "bool": ">?",
}
TOPIC_NAMES: Final = frozenset({"name", "topic", "topic_name", "topic_id"})
"""A topic in all the ways that requests name it: given together, whichever the version has."""
_NO_ID: Final = uuid.UUID(int=0)


class Undecodable(ValueError):
    """A response that its schema does not describe."""


@dataclass(frozen=True, slots=True)
class Raw:
    """These bytes in a field's place, whatever its type."""

    value: bytes


def request_frame(api_key: int, version: int, values: Values, correlation_id: int, client_id: str | None) -> bytes:
    """One request with its length in front: header version 2 where the version is flexible, else 1."""
    return framed(api_key, version, request_body(api_key, version, values), correlation_id, client_id)


def framed(api_key: int, version: int, body: bytes, correlation_id: int, client_id: str | None) -> bytes:
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode())) + client_id.encode()
    tags = b"\0" if schema(api_key, version, "request").flexible else b""
    payload = struct.pack(">hhi", api_key, version, correlation_id) + name + tags + body
    return struct.pack(">i", len(payload)) + payload


def request_body(api_key: int, version: int, values: Values) -> bytes:
    return message_body(api_key, version, "request", values)


def message_body(api_key: int, version: int, kind: Kind, values: Values) -> bytes:
    out = bytearray()
    _write_struct(out, schema(api_key, version, kind), values)
    return bytes(out)


def response_values(api_key: int, version: int, frame: bytes) -> dict[str, Any]:
    """A response frame without its length, behind the correlation id. Raises Undecodable."""
    form = schema(api_key, version, "response")
    reader = _Reader(frame)
    try:
        reader.take(">i")
        # ApiVersions is answered with header version 0 in all versions: the client does not know yet what we speak.
        if form.flexible and api_key != API_VERSIONS and reader.unsigned_varint():
            raise Undecodable("tagged fields in a response header")
        values = reader.struct(form)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Undecodable(f"{form.name} {version}: {error}: {frame.hex()}") from error
    if reader.position != len(frame):
        raise Undecodable(f"{form.name} {version}: {len(frame) - reader.position} bytes behind it: {frame.hex()}")
    return values


def check_names(api_key: int, values: Values) -> None:
    """Raises ValueError for a field that no version of the request has: a mistake in a case."""
    forms = [schema(api_key, version, "request") for version in schema_versions(api_key)]
    _check_names(forms, values)


def _check_names(forms: Sequence[Schema], values: Values) -> None:
    known = {field.name for form in forms for field in form.fields} | TOPIC_NAMES
    unknown = set(values) - known
    if unknown:
        raise ValueError(f"{forms[0].name} has no {sorted(unknown)}, but {sorted(known)}")
    for name, value in values.items():
        inner = [form.entities[name] for form in forms if name in form.entities]
        if inner:
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Mapping):
                    _check_names(inner, one)


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _write_struct(out: bytearray, form: Schema, values: Values) -> None:
    tagged: list[tuple[int, bytes]] = []
    for field in form.fields:
        given = field.name in values
        value = values[field.name] if given else _default(field.default)
        if field.tag is None:
            _write_field(out, form, field, value)
        elif given:
            part = bytearray()
            _write_field(part, form, field, value)
            tagged.append((field.tag, bytes(part)))
    if form.flexible:
        out += unsigned_varint(len(tagged))
        for tag, written in sorted(tagged):
            out += unsigned_varint(tag) + unsigned_varint(len(written)) + written


def _default(value: Any) -> Any:
    return {} if is_dataclass(value) else value


def _write_field(out: bytearray, form: Schema, field: Any, value: Any) -> None:
    if isinstance(value, Raw):
        out += value.value
    elif field.is_array:
        _write_length(out, form.flexible, ">i", value)
        for one in value or ():
            _write_one(out, form, field, one)
    elif field.entity is not None and field.nullable and field.tag is None:
        out += b"\xff" if value is None else b"\1"
        if value is not None:
            _write_one(out, form, field, value)
    else:
        _write_one(out, form, field, value)


def _write_one(out: bytearray, form: Schema, field: Any, value: Any) -> None:
    if isinstance(value, Raw):
        out += value.value
    elif field.entity is not None:
        _write_struct(out, form.entities[field.name], value)
    elif field.kafka_type == "uuid":
        out += (value or _NO_ID).bytes
    elif field.kafka_type == "string":
        encoded = None if value is None else value.encode("utf-8", "surrogatepass")
        _write_length(out, form.flexible, ">h", encoded)
        out += encoded or b""
    elif field.kafka_type in ("bytes", "records"):
        _write_length(out, form.flexible, ">i", value)
        out += value or b""
    else:
        out += struct.pack(_FIXED[field.kafka_type], value)


def _write_length(out: bytearray, flexible: bool, layout: str, value: Any) -> None:
    if flexible:
        out += unsigned_varint(0 if value is None else len(value) + 1)
    else:
        out += struct.pack(layout, -1 if value is None else len(value))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, layout: str) -> Any:
        (value,) = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return value

    def raw(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self.data):
            raise IndexError(f"{length} bytes at {self.position} of {len(self.data)}")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def unsigned_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def struct(self, form: Schema) -> dict[str, Any]:
        values: dict[str, Any] = {}
        by_tag = {}
        for field in form.fields:
            if field.tag is None:
                values[field.name] = self.field(form, field)
            else:
                by_tag[field.tag] = field
                values[field.name] = None if field.entity is not None and not field.is_array else field.default
        if form.flexible:
            for _ in range(self.unsigned_varint()):
                tag, length = self.unsigned_varint(), self.unsigned_varint()
                end = self.position + length
                if tag in by_tag:
                    values[by_tag[tag].name] = self.field(form, by_tag[tag])
                else:
                    values[f"tag {tag}"] = self.raw(length)
                if self.position != end:
                    raise Undecodable(f"tagged field {tag} of {form.name} is not as long as it says")
        return values

    def field(self, form: Schema, field: Any) -> Any:
        if field.is_array:
            length = self.length(form.flexible, ">i")
            return None if length < 0 else [self.one(form, field) for _ in range(length)]
        if field.entity is not None and field.nullable and field.tag is None and self.take(">b") < 0:
            return None
        return self.one(form, field)

    def one(self, form: Schema, field: Any) -> Any:
        if field.entity is not None:
            return self.struct(form.entities[field.name])
        if field.kafka_type == "uuid":
            return uuid.UUID(bytes=self.raw(16))
        if field.kafka_type == "string":
            length = self.length(form.flexible, ">h")
            return None if length < 0 else self.raw(length).decode()
        if field.kafka_type in ("bytes", "records"):
            length = self.length(form.flexible, ">i")
            return None if length < 0 else self.raw(length)
        return self.take(_FIXED[field.kafka_type])

    def length(self, flexible: bool, layout: str) -> int:
        length: int = self.unsigned_varint() - 1 if flexible else self.take(layout)
        return length
