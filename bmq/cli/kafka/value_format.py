"""Keys and values as text and as bytes: UTF-8, JSON, hexadecimal, base64; avro_format.py and protobuf_format.py have the others. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from enum import StrEnum
from typing import Any, Final, Protocol

from bmq.cli.kafka.model import KafkaFailed
from bmq.protocol.error_codes import ErrorCode

_SHOWN_MAX: Final = 60


class ValueFormat(StrEnum):
    """`avro-id`: behind a zero byte and a four-byte id of the schema, as registries' serializers write it. `protobuf-id`: behind
    these and the indexes of the message.
    """

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"
    AVRO = "avro"
    AVRO_ID = "avro-id"
    PROTOBUF = "protobuf"
    PROTOBUF_ID = "protobuf-id"


class BadValue(KafkaFailed):
    """Bytes or a text that is not of the format."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.INVALID_RECORD)


class Codec(Protocol):
    """One format. Every method raises BadValue."""

    def decode(self, data: bytes) -> Any:
        """To something that JSON can hold."""

    def encode(self, value: Any) -> bytes:
        """From what `decode` returns."""

    def parse(self, text: str) -> bytes:
        """From a line of text. Characters that stand for bytes outside UTF-8 are surrogates (PEP 383)."""


class TextCodec:
    r"""UTF-8. Other bytes are shown as \xNN, so they do not survive reading and writing again."""

    def decode(self, data: bytes) -> str:
        return data.decode("utf-8", "backslashreplace")

    def encode(self, value: Any) -> bytes:
        return _utf8(value if isinstance(value, str) else compact_json(value))

    def parse(self, text: str) -> bytes:
        return _utf8(text)


class JsonCodec:
    """Checked in both directions; a text goes out as it was written."""

    def decode(self, data: bytes) -> Any:
        return parsed_json(data.decode("utf-8", "backslashreplace"))

    def encode(self, value: Any) -> bytes:
        return _utf8(compact_json(value))

    def parse(self, text: str) -> bytes:
        parsed_json(text)
        return _utf8(text)


class HexCodec:
    """Two digits for a byte; spaces between bytes are allowed."""

    def decode(self, data: bytes) -> str:
        return data.hex()

    def encode(self, value: Any) -> bytes:
        return self.parse(_string(value))

    def parse(self, text: str) -> bytes:
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise BadValue(f"{_cut(text)} is not hexadecimal") from None


class Base64Codec:
    """RFC 4648, with padding."""

    def decode(self, data: bytes) -> str:
        return base64.b64encode(data).decode()

    def encode(self, value: Any) -> bytes:
        return self.parse(_string(value))

    def parse(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise BadValue(f"{_cut(text)} is not base64") from None


PLAIN_CODECS: Final[dict[ValueFormat, Codec]] = {
    ValueFormat.TEXT: TextCodec(),
    ValueFormat.JSON: JsonCodec(),
    ValueFormat.HEX: HexCodec(),
    ValueFormat.BASE64: Base64Codec(),
}


def parsed_json(text: str) -> Any:
    """Raises BadValue."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadValue(f"{_cut(text)} is not JSON") from None


def compact_json(value: Any) -> str:
    """One line, in which characters stand as they are unless UTF-8 cannot have them."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def text_of_value(value: Any) -> str:
    """A decoded value on a line: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else compact_json(value)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadValue(f"{_cut(text)} has half of a surrogate pair, which UTF-8 cannot have") from None


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise BadValue(f"{_cut(compact_json(value))} is not a string")


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…")
