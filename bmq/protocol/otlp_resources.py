"""OpenTelemetry's MetricsData as clients push it, with attributes added to each resource. Bytes in, bytes out.

Clients leave out who they are: the server knows it (KIP-714). What they push has the layout of an
ExportMetricsServiceRequest, so after that it can be sent to an OTLP endpoint as it is:

    MetricsData      { repeated ResourceMetrics resource_metrics = 1; }
    ResourceMetrics  { Resource resource = 1; repeated ScopeMetrics scope_metrics = 2; string schema_url = 3; }
    Resource         { repeated KeyValue attributes = 1; … }
    KeyValue         { string key = 1; AnyValue value = 2; }    AnyValue { string string_value = 1; … }

Only the first two are walked, and only as far as their fields' bounds; the endpoint checks the rest. Parsing all of it
would take a hundred times a hostile push's bytes of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from bmq.protocol.errors import MalformedMessage
from bmq.protocol.wire import unsigned_varint

RESOURCES_MAX: Final = 1_000
"""Resources of one push: each one grows by the attributes. Clients send one."""
ATTRIBUTED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one push with the attributes: a client may name itself at length, and have many resources."""
FIELDS_MAX: Final = 10_000
"""Fields of all of them, and beside them: each one is looked at in Python."""
_FIRST: Final = 1
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX: Final = 10


class _Field(NamedTuple):
    """`start`: of the tag; `content`: of what is behind tag and length."""

    number: int
    wire_type: int
    start: int
    content: int
    end: int


def with_attributes(
    data: bytes | memoryview, attributes: Mapping[str, str], *, bytes_max: int = ATTRIBUTED_BYTES_MAX
) -> bytes:
    """`data` with these attributes on every resource, in front of its own.

    Raises MalformedMessage for what is no MetricsData, has more than RESOURCES_MAX resources, or becomes longer than
    `bytes_max`.
    """
    view = memoryview(data)
    added = b"".join(_delimited(_FIRST, _key_value(name, text)) for name, text in attributes.items())
    out = bytearray()
    count = 0
    walk = _Walk()
    for field in walk.fields(view):
        if field.number != _FIRST or field.wire_type != _LENGTH:
            out += view[field.start : field.end]
            continue
        count += 1
        if count > RESOURCES_MAX:
            raise MalformedMessage(f"metrics of more than {RESOURCES_MAX} resources")
        inner = view[field.content : field.end]
        out += _delimited(_FIRST, _resource_metrics(walk.fields(inner), inner, added))
        if len(out) > bytes_max:
            raise MalformedMessage(f"metrics of more than {bytes_max} bytes with the client's attributes")
    return bytes(out)


def _resource_metrics(fields: Iterator[_Field], view: memoryview, added: bytes) -> bytes:
    resource, rest = bytearray(added), bytearray()
    for field in fields:
        if field.number == _FIRST and field.wire_type == _LENGTH:
            resource += view[field.content : field.end]
        else:
            rest += view[field.start : field.end]
    return _delimited(_FIRST, bytes(resource)) + bytes(rest)


class _Walk:
    """Over the fields of messages, FIELDS_MAX of all together."""

    def __init__(self) -> None:
        self._left = FIELDS_MAX

    def fields(self, view: memoryview) -> Iterator[_Field]:
        position = 0
        while position < len(view):
            self._left -= 1
            if self._left < 0:
                raise MalformedMessage(f"metrics of more than {FIELDS_MAX} fields in resources")
            field = _field(view, position)
            position = field.end
            yield field


def _field(view: memoryview, start: int) -> _Field:
    tag, position = _varint(view, start)
    number, wire_type = tag >> 3, tag & 7
    content = position
    if wire_type == _VARINT:
        _, position = _varint(view, position)
    elif wire_type == _LENGTH:
        length, content = _varint(view, position)
        position = content + length
    elif wire_type in _FIXED_BYTES:
        position += _FIXED_BYTES[wire_type]
    else:
        raise MalformedMessage(f"metrics with a field of wire type {wire_type}")
    if not number or position > len(view):
        raise MalformedMessage("metrics with a field that cannot be")
    return _Field(number, wire_type, content=content, start=start, end=position)


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if position + index >= len(view):
            raise MalformedMessage("metrics that end within a number")
        byte = view[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise MalformedMessage(f"metrics with a number of more than {_VARINT_BYTES_MAX} bytes")


def _delimited(number: int, content: bytes) -> bytes:
    return bytes(unsigned_varint(number << 3 | _LENGTH)) + bytes(unsigned_varint(len(content))) + content


def _key_value(name: str, text: str) -> bytes:
    value = _delimited(_FIRST, text.encode(errors="replace"))
    return _delimited(_FIRST, name.encode()) + _delimited(2, value)
