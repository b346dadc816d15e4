"""Bytes to message objects and back, for every served API and version: kio's machinery behind our own classes.

For each version a *wire class* is made: a subclass of the message class whose dataclass fields are that version's, in
wire order. kio reads straight into it (no conversion, fields a version lacks are class attributes holding Kafka's
default) and writes any message object through it. Wire classes are made when first used and kept.

Decoding is bounded by kio: lengths are checked against the bytes that are there before anything is allocated.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.later_fields import LATER_FIELDS
from bmq.protocol.schema_fields import wire_fields

Reader = Callable[[bytes | memoryview, int], tuple[Any, int]]
Writer = Callable[[io.BytesIO, Any], None]

_HEADER_V1_BYTES_MIN: Final = 10


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """Request header v1 or v2. `body_position` is where the message starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def parse_request_header(frame: bytes | bytearray | memoryview) -> RequestHeader:
    """Header of a request frame (without its length prefix). Raises MalformedMessage.

    Any API key and version parses, so that the caller can answer; for unknown ones `body_position` is that of header v1.
    The client id is always in the older (int16 length) form. Source: RequestHeader.json.
    """
    if len(frame) < _HEADER_V1_BYTES_MIN:
        raise MalformedMessage(f"a request of {len(frame)} bytes is shorter than a request header")
    view = memoryview(frame)
    api_key = int.from_bytes(view[0:2], "big", signed=True)
    api_version = int.from_bytes(view[2:4], "big", signed=True)
    correlation_id = int.from_bytes(view[4:8], "big", signed=True)
    length = int.from_bytes(view[8:10], "big", signed=True)
    position = 10 + max(length, 0)
    if position > len(frame):
        raise MalformedMessage(f"the client id of {length} bytes runs past the end of the request")
    try:
        client_id = None if length < 0 else str(view[10:position], "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedMessage("the client id is not UTF-8") from error
    if is_flexible(api_key, api_version):
        position = _skip_tagged_fields(view, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether request and response of this version use compact forms and tagged fields (KIP-482)."""
    api = APIS.get(api_key)  # type: ignore[call-overload]
    return api is not None and api.flexible_from is not None and api_version >= api.flexible_from


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Response header v0 or v1. ApiVersions always has v0, so that any client can read it (KIP-511)."""
    head = correlation_id.to_bytes(4, "big", signed=True)
    return head + b"\0" if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version) else head


def decode_request(header: RequestHeader, frame: bytes | bytearray | memoryview) -> Any:
    """The request message in `frame`, an instance of its class in bmq.protocol.messages.

    Raises UnsupportedVersion for an API or version that is not served, MalformedMessage for bytes that do not parse.
    """
    api = APIS.get(header.api_key)  # type: ignore[call-overload]
    if api is None or not api.version_min <= header.api_version <= api.version_max:
        raise UnsupportedVersion(f"API {header.api_key} version {header.api_version} is not served")
    return decode("request", header.api_key, header.api_version, frame, header.body_position)


def decode(kind: str, api_key: int, api_version: int, data: bytes | bytearray | memoryview, position: int = 0) -> Any:
    """A request or response body. Raises MalformedMessage."""
    reader = _codec(kind, api_key, api_version)[0]
    return read_entity(reader, data, position)


def read_entity(reader: Reader, data: bytes | bytearray | memoryview, position: int) -> Any:
    """Run a kio reader and turn whatever it raises on hostile bytes into MalformedMessage."""
    try:
        return reader(memoryview(data).toreadonly(), position)[0]
    except (ValueError, OverflowError, TypeError, AttributeError, MemoryError) as error:
        raise MalformedMessage(f"the message does not parse: {error}") from error
    except Exception as error:
        if type(error).__module__.startswith("kio."):
            raise MalformedMessage(f"the message does not parse: {error}") from error
        raise


def encode(kind: str, api_key: int, api_version: int, message: Any) -> bytes:
    """The body of `message` (an instance of its class in bmq.protocol.messages) in this version."""
    buffer = io.BytesIO()
    _codec(kind, api_key, api_version)[1](buffer, message)
    return buffer.getvalue()


def encode_response(api_key: int, api_version: int, correlation_id: int, message: Any) -> bytes:
    """A whole response frame without its length prefix."""
    buffer = io.BytesIO()
    buffer.write(encode_response_header(api_key, api_version, correlation_id))
    _codec("response", api_key, api_version)[1](buffer, message)
    return buffer.getvalue()


def encode_request(api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Any) -> bytes:
    """A whole request frame without its length prefix (for clients: tests, tools, one role talking to another)."""
    name = b"" if client_id is None else client_id.encode()
    buffer = io.BytesIO()
    for number, size in ((api_key, 2), (api_version, 2), (correlation_id, 4)):
        buffer.write(number.to_bytes(size, "big", signed=True))
    buffer.write((-1 if client_id is None else len(name)).to_bytes(2, "big", signed=True) + name)
    if is_flexible(api_key, api_version):
        buffer.write(b"\0")
    _codec("request", api_key, api_version)[1](buffer, message)
    return buffer.getvalue()


def decode_response(api_key: int, api_version: int, frame: bytes | bytearray | memoryview) -> tuple[int, Any]:
    """(correlation id, message) of a response frame without its length prefix. Raises MalformedMessage."""
    if len(frame) < 4:
        raise MalformedMessage("a response shorter than its header")
    position = 4
    if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version):
        position = _skip_tagged_fields(memoryview(frame), position)
    return int.from_bytes(frame[:4], "big", signed=True), decode("response", api_key, api_version, frame, position)


@cache
def _codec(kind: str, api_key: int, api_version: int) -> tuple[Reader, Writer]:
    api = APIS[ApiKey(api_key)]
    package = api_key_map[api_key]
    class_name = "".join(part.capitalize() for part in package.split("_")) + kind.capitalize()
    schema = importlib.import_module(f"kio.schema.{package}.v{min(api_version, api.schema_max)}.{kind}")
    messages = importlib.import_module(f"bmq.protocol.messages.{package}_{kind}")
    wire = wire_class(getattr(schema, class_name), messages, api_version)
    return entity_reader(wire), entity_writer(wire)


def wire_class(schema: Any, messages: Any, version: int) -> Any:
    """A class that kio reads into and writes from, over the message class of the same name in module `messages`."""
    base = getattr(messages, schema.__name__)
    fields = wire_fields(schema) + LATER_FIELDS.get((schema.__name__, version), ())
    specs = []
    for field in fields:
        inner: Any = _PYTHON_TYPES.get(field.python_type, int)
        if field.entity is not None:
            inner = wire_class(field.entity, messages, version)
        kind: Any = tuple[inner, ...] if field.is_array else inner
        metadata: dict[str, Any] = {} if field.kafka_type is None else {"kafka_type": field.kafka_type}
        if field.tag is not None:
            metadata["tag"] = field.tag
        plain = field.default if field.entity is None or field.is_array else None
        specs.append(
            (field.name, kind | None if field.nullable else kind, dataclasses.field(metadata=metadata, default=plain))
        )
    carrier = dataclasses.make_dataclass(schema.__name__, specs, kw_only=True)
    for field in fields:
        if field.entity is not None and not field.is_array and field.default is not None:
            # kio leaves out a tagged entity that equals the default: compare with the message class's own.
            carrier.__dataclass_fields__[field.name].default = getattr(messages, field.entity.__name__)()  # type: ignore[attr-defined]
    present = {field.name for field in fields}
    defaults = {f.name: _default_of(f) for f in dataclasses.fields(base) if f.name not in present}
    return type(
        f"{schema.__name__}",
        (base,),
        {
            "__slots__": (),
            "__module__": base.__module__,
            "__dataclass_fields__": carrier.__dataclass_fields__,  # type: ignore[attr-defined]
            "__type__": schema.__type__,
            "__version__": version,
            "__flexible__": schema.__flexible__,
            **{name: getattr(schema, name) for name in ("__api_key__", "__header_schema__") if hasattr(schema, name)},
            **defaults,
        },
    )


def _default_of(field: dataclasses.Field[Any]) -> Any:
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def _python_types() -> dict[str, Any]:
    # kio chooses its reader by the type annotation, so these must be the types kio itself annotates with.
    from uuid import UUID

    from kio.static.primitive import f64, i64

    return {"int": i64, "str": str, "bytes": bytes, "bool": bool, "UUID": UUID, "float": f64}


_PYTHON_TYPES: Final = _python_types()


def _skip_tagged_fields(view: memoryview, position: int) -> int:
    count, position = _unsigned_varint(view, position)
    for _ in range(count):
        _, position = _unsigned_varint(view, position)
        size, position = _unsigned_varint(view, position)
        position += size
        if position > len(view):
            raise MalformedMessage("a tagged field of the header runs past the end of the message")
    return position


def _unsigned_varint(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35:
        if position >= len(view):
            raise MalformedMessage("a varint of the header runs past the end of the message")
        byte = view[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise MalformedMessage("a varint of the header is longer than five bytes")
