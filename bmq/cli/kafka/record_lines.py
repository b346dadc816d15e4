"""Records as lines: what a terminal shows, and what is read from one. Pure.

JSON lines are the same in both directions: `key` and `value` as their formats show them, `headers` as pairs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from bmq.cli.kafka.value_format import BadValue, Codec, compact_json, parsed_json, text_of_value
from bmq.dataclass import dataclass
from bmq.spark.jobs.time_text import text_of

Header = tuple[str, bytes | None]

CSV_NAMES: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_KNOWN: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestamp_ms", "key", "value", "headers"})
_INT64_MAX: Final = (1 << 63) - 1
_INT32_MAX: Final = (1 << 31) - 1
_BYTES_KEY: Final = "base64"


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """As it lies in the log. `timestamp_ms` None: it has none. `fault`: what of it could not be read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class NewRecord:
    """To be written. `partition` and `timestamp_ms` None: as the producer has it."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


# --- from the log


def decoded(record: ReadRecord, keys: Codec, values: Codec) -> tuple[Any, Any]:
    """Its key and value. Raises BadValue, which names the record."""
    try:
        key = None if record.key is None else keys.decode(record.key)
    except BadValue as error:
        raise BadValue(f"the key of {place_of(record)}: {error}") from None
    try:
        return key, None if record.value is None else values.decode(record.value)
    except BadValue as error:
        raise BadValue(f"the value of {place_of(record)}: {error}") from None


def place_of(record: ReadRecord) -> str:
    return f"{record.topic}-{record.partition} offset {record.offset}"


def json_line(record: ReadRecord, keys: Codec, values: Codec) -> str:
    """Raises BadValue."""
    key, value = decoded(record, keys, values)
    return compact_json(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "timestamp": None if record.timestamp_ms is None else text_of(record.timestamp_ms),
            "key": key,
            "value": value,
            "headers": _json_headers(record.headers),
        }
    )


def csv_row(record: ReadRecord, keys: Codec, values: Codec) -> list[str]:
    """In the order of CSV_NAMES; headers as JSON. Raises BadValue."""
    key, value = decoded(record, keys, values)
    return [
        record.topic,
        str(record.partition),
        str(record.offset),
        "" if record.timestamp_ms is None else text_of(record.timestamp_ms),
        "" if key is None else text_of_value(key),
        "" if value is None else text_of_value(value),
        compact_json(_json_headers(record.headers)) if record.headers else "",
    ]


def table_cells(record: ReadRecord, keys: Codec, values: Codec) -> list[str]:
    """Partition, offset, time, key, value, headers. Raises BadValue."""
    key, value = decoded(record, keys, values)
    headers = " ".join(f"{_name_text(name)}={_header_text(content)}" for name, content in record.headers)
    return [
        f"{record.topic}-{record.partition}",
        str(record.offset),
        text_of(record.timestamp_ms),
        "-" if key is None else text_of_value(key),
        "-" if value is None else text_of_value(value),
        headers,
    ]


def _json_headers(headers: Sequence[Header]) -> list[list[Any]]:
    return [[name, _json_header(content)] for name, content in headers]


def _json_header(content: bytes | None) -> Any:
    """Text where it is UTF-8, else {"base64": …}."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {_BYTES_KEY: base64.b64encode(content).decode()}


def _name_text(name: str) -> str:
    """Bytes that are not UTF-8 are surrogates in it (PEP 383), which no terminal takes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _header_text(content: bytes | None) -> str:
    return "-" if content is None else content.decode("utf-8", "backslashreplace")


# --- to the log


@dataclass(frozen=True, slots=True)
class LineForm:
    """How plain lines become records.

    `key_separator` None: the whole line is the value, and `key` the key of all. `null_value`: a value that means none, which
    deletes a key from a compacted topic.
    """

    keys: Codec
    values: Codec
    key_separator: str | None = None
    key: str | None = None
    null_value: str | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    keeps_partitions: bool = field(default=False)


def from_plain_line(line: bytes, form: LineForm) -> NewRecord:
    """Raises BadValue."""
    text = line.decode("utf-8", "surrogateescape")
    key_text = form.key
    if form.key_separator is not None:
        key_text, separator, text = text.partition(form.key_separator)
        if not separator:
            raise BadValue(f"there is no {form.key_separator!r} between a key and a value")
    key = None if key_text is None else form.keys.parse(key_text)
    value = None if text == form.null_value else form.values.parse(text)
    return NewRecord(key, value, form.headers, form.partition, form.timestamp_ms)


def from_json_line(line: bytes, form: LineForm) -> NewRecord:
    """An object as `json_line` writes it; `timestamp` is left out in favour of `timestamp_ms`. Raises BadValue."""
    found = parsed_json(line.decode("utf-8", "surrogateescape"))
    if not isinstance(found, dict) or "value" not in found:
        raise BadValue('it is not an object with a "value"')
    if unknown := found.keys() - _KNOWN:
        raise BadValue(f"{json.dumps(min(unknown))} is not known; {', '.join(sorted(_KNOWN))} are")
    partition = form.partition
    if form.keeps_partitions and partition is None:
        partition = _number(found, "partition", _INT32_MAX)
    timestamp_ms = _number(found, "timestamp_ms", _INT64_MAX) if form.timestamp_ms is None else form.timestamp_ms
    key = found.get("key")
    return NewRecord(
        (None if form.key is None else form.keys.parse(form.key)) if key is None else form.keys.encode(key),
        None if found["value"] is None else form.values.encode(found["value"]),
        (*form.headers, *_headers(found.get("headers") or [])),
        partition,
        timestamp_ms,
    )


def numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines from 1 on, without their ends."""
    for number, line in enumerate(lines, 1):
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")


def _number(found: Mapping[str, Any], name: str, greatest: int) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= greatest:
        raise BadValue(f"{name} {compact_json(value)} is no number from 0 to {greatest}")
    return value


def _headers(found: Any) -> Iterator[Header]:
    if not isinstance(found, list):
        raise BadValue("headers are no list of pairs")
    for pair in found:
        match pair:
            case [str(name), None]:
                yield name, None
            case [str(name), str(content)]:
                yield name, content.encode("utf-8", "surrogatepass")
            case [str(name), {"base64": str(content)}] if len(pair[1]) == 1:
                try:
                    yield name, base64.b64decode(content, validate=True)
                except ValueError:
                    raise BadValue(f"header {name!r} is not base64") from None
            case _:
                raise BadValue('a header is not ["name", "text"], ["name", null] or ["name", {"base64": "…"}]')
