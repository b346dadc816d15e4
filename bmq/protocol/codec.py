"""Bytes to message objects and back, for every served API and version: request frames, response frames, bodies.

The formats stand beside the classes in bmq.protocol.messages; wire.py compiles a version when it is first used (1-3 ms).
A field that a version lacks has Kafka's default after decoding and is left out when encoding. None in a field that may
not be null in a version is written as empty.
"""

from __future__ import annotations

import importlib
import struct
from functools import cache
from typing import Any, Final, NamedTuple

from bmq.protocol.apis import ALL_APIS, APIS, OWN_API_KEYS_FROM, ApiKey
from bmq.protocol.array_codec import ArrayCodec
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.formats import Format, array_codec_of, codec_of, turns_codec_of
from bmq.protocol.wire import ELEMENTS_MAX, Buffer, EntityCodec, skip_tagged_fields
from bmq.protocol.wire_turns import InTurns, TurnsCodec

RESPONSE_ELEMENTS_MAX: Final = 10_000_000
"""Array elements of one response: it comes from a server we chose, and may describe a whole cluster."""

_HEADER_V1: Final = struct.Struct(">hhih")
_INT32: Final = struct.Struct(">i")
CORRELATION_END: Final = 8
"""Bytes that API, version and correlation id take at the start of a request frame."""
_ONE_BYTE_VARINT_MAX: Final = 127


class RequestHeader(NamedTuple):
    """Request header v1 or v2. `body_position` is where the message starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def parse_request_header(frame: Buffer) -> RequestHeader:
    """Header of a request frame (without its length prefix). Raises MalformedMessage.

    Any API key and version parses, so that the caller can answer; for unknown ones `body_position` is that of header v1.
    The client id is always in the older (int16 length) form. Source: RequestHeader.json.
    """
    if len(frame) < _HEADER_V1.size:
        raise MalformedMessage(f"a request of {len(frame)} bytes is shorter than a request header")
    api_key, api_version, correlation_id, length = _HEADER_V1.unpack_from(frame)
    position = _HEADER_V1.size + max(length, 0)
    if length < -1 or position > len(frame):
        raise MalformedMessage(f"the client id of {length} bytes runs past the end of the request")
    try:
        client_id = None if length < 0 else str(frame[_HEADER_V1.size : position], "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedMessage("the client id is not UTF-8") from error
    if is_flexible(api_key, api_version):
        position = _after_header_tags(frame, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def after_correlation_id(frame: Buffer) -> bytes:
    """The rest of a request frame after API, version and correlation id: the client's id and the message."""
    return bytes(frame[CORRELATION_END:])


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether request and response of this version use compact forms and tagged fields (KIP-482)."""
    api = ALL_APIS.get(api_key)  # type: ignore[call-overload]
    return api is not None and api.flexible_from is not None and api_version >= api.flexible_from


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Response header v0 or v1. ApiVersions always has v0, so that any client can read it (KIP-511)."""
    head = correlation_id.to_bytes(4, "big", signed=True)
    return head + b"\0" if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version) else head


def decode_request(header: RequestHeader, frame: Buffer) -> Any:
    """The request message in `frame`, an instance of its class in bmq.protocol.messages.

    Raises UnsupportedVersion for an API or version that is not served, MalformedMessage for bytes that do not parse.
    """
    _require_served(header)
    return decode("request", header.api_key, header.api_version, frame, header.body_position)


def decode_request_in_turns(header: RequestHeader, frame: Buffer, elements_max: int = ELEMENTS_MAX) -> InTurns[Any]:
    """Like `decode_request`, for a large frame. Raises TooManyElements."""
    _require_served(header)
    codec = _turns_codec("request", header.api_key, header.api_version)
    return (yield from codec.read(frame, header.body_position, elements_max))


def array_codec(kind: str, api_key: int, api_version: int, name: str) -> ArrayCodec:
    """A request or response around its array `name`. Raises ValueError if it has no such array in this version."""
    return array_codec_of(message_format(kind, api_key), api_version, name)


def _require_served(header: RequestHeader) -> None:
    api = ALL_APIS.get(header.api_key)  # type: ignore[call-overload]
    if api is None or not api.version_min <= header.api_version <= api.version_max:
        raise UnsupportedVersion(f"API {header.api_key} version {header.api_version} is not served")


def decode(
    kind: str, api_key: int, api_version: int, data: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX
) -> Any:
    """A request or response body, an instance of its class in bmq.protocol.messages. Raises MalformedMessage.

    `kind` is "request" or "response". `elements_max` bounds the elements of all arrays together. Bytes behind the message
    are ignored, as Kafka does.
    """
    return _codec(kind, api_key, api_version).read(data, position, elements_max)


def encode(kind: str, api_key: int, api_version: int, message: Any) -> bytes:
    """The body of `message` (an instance of its class in bmq.protocol.messages) in this version."""
    out = bytearray()
    _codec(kind, api_key, api_version).write(out, message)
    return bytes(out)


def encode_response(api_key: int, api_version: int, correlation_id: int, message: Any) -> bytes:
    """A whole response frame without its length prefix."""
    out = bytearray(encode_response_header(api_key, api_version, correlation_id))
    _codec("response", api_key, api_version).write(out, message)
    return bytes(out)


def encode_response_in_turns(api_key: int, api_version: int, correlation_id: int, message: Any) -> InTurns[bytearray]:
    """Like `encode_response`, for a message that may be large."""
    out = bytearray(encode_response_header(api_key, api_version, correlation_id))
    yield from _turns_codec("response", api_key, api_version).write_to(out, message)
    return out


def encode_request(api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Any) -> bytes:
    """A whole request frame without its length prefix (for clients: tests, tools, one role talking to another)."""
    name = b"" if client_id is None else client_id.encode()
    out = bytearray(_HEADER_V1.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name)))
    out += name
    if is_flexible(api_key, api_version):
        out.append(0)
    _codec("request", api_key, api_version).write(out, message)
    return bytes(out)


def decode_response(api_key: int, api_version: int, frame: Buffer) -> tuple[int, Any]:
    """(correlation id, message) of a response frame without its length prefix. Raises MalformedMessage."""
    if len(frame) < _INT32.size:
        raise MalformedMessage("a response shorter than its header")
    position = _INT32.size
    if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version):
        position = _after_header_tags(frame, position)
    message = decode("response", api_key, api_version, frame, position, RESPONSE_ELEMENTS_MAX)
    return _INT32.unpack_from(frame)[0], message


def decode_response_in_turns(api_key: int, api_version: int, frame: Buffer) -> InTurns[Any]:
    """The message of a response frame that may be large. Raises MalformedMessage."""
    if len(frame) < _INT32.size:
        raise MalformedMessage("a response shorter than its header")
    position = _INT32.size
    if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version):
        position = _after_header_tags(frame, position)
    codec = _turns_codec("response", api_key, api_version)
    return (yield from codec.read(frame, position, RESPONSE_ELEMENTS_MAX))


def leading_string(data: Buffer, position: int) -> str | None:
    """The compact string at `position`, where a flexible message begins with one; None: there is no short one."""
    length = data[position] - 1 if position < len(data) else -1
    begin, end = position + 1, position + 1 + length
    if not 0 < length < _ONE_BYTE_VARINT_MAX or end > len(data):
        return None
    try:
        return str(data[begin:end], "utf-8")
    except UnicodeDecodeError:
        return None


def unsupported_api_versions_response(correlation_id: int) -> bytes:
    """The answer to an ApiVersions request of an unserved version, in a form any client can read (KIP-511).

    Shaped as version 0, with UNSUPPORTED_VERSION and the range of ApiVersions alone, from which the client picks again.
    """
    from bmq.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse

    api = APIS[ApiKey.API_VERSIONS]
    served = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=api.advertised_min, max_version=api.version_max)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(served,))
    return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, response)


def message_format(kind: str, api_key: int) -> Format:
    """The format of an API's "request" or "response" in all versions served."""
    if api_key >= OWN_API_KEYS_FROM:
        from bmq.protocol.internal_messages import FORMATS

        return FORMATS[ApiKey(api_key)][kind]
    module = importlib.import_module(f"bmq.protocol.messages.{ApiKey(api_key).name.lower()}_{kind}")
    found: Format = module.FORMAT
    return found


@cache
def _codec(kind: str, api_key: int, api_version: int) -> EntityCodec:
    return codec_of(message_format(kind, api_key), api_version)


@cache
def _turns_codec(kind: str, api_key: int, api_version: int) -> TurnsCodec:
    return turns_codec_of(message_format(kind, api_key), api_version)


def _after_header_tags(frame: Buffer, position: int) -> int:
    try:
        return skip_tagged_fields(frame, position)
    except IndexError as error:
        raise MalformedMessage("the header runs past the end of the message") from error
