"""Records as JSON lines, in the form of `bmq topic consume --json`. Pure."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from bmq.databus.intake_record import NewRecord
from bmq.databus.record_fields import BadFields, encoded_headers
from bmq.protocol.errors import BmqError

RECORDS_MAX: Final = 100_000
_KNOWN: Final = frozenset({"key", "value", "headers", "timestamp_ms"})
_IGNORED: Final = frozenset({"topic", "partition", "offset", "timestamp"})
"""Of records that were read somewhere."""
_INT64_MAX: Final = (1 << 63) - 1


class BadLine(BmqError):
    """A line is no record; one sentence with its number."""


def records_of_lines(body: bytes) -> list[NewRecord]:
    """Empty lines are left out. Raises BadLine."""
    records: list[NewRecord] = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line.strip():
            continue
        if len(records) >= RECORDS_MAX:
            raise BadLine(f"the body has more than {RECORDS_MAX} records")
        try:
            records.append(_record(line))
        except BadLine as error:
            raise BadLine(f"line {number}: {error}") from None
        except RecursionError:
            raise BadLine(f"line {number}: its JSON is too deep") from None
    return records


def _record(line: bytes) -> NewRecord:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise BadLine("it is no JSON") from None
    if not isinstance(found, dict) or "value" not in found:
        raise BadLine('it is not an object with a "value"')
    if unknown := found.keys() - _KNOWN - _IGNORED:
        raise BadLine(f"{json.dumps(min(unknown))[:100]} is not known; {', '.join(sorted(_KNOWN))} are")
    timestamp_ms = found.get("timestamp_ms", -1)
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int) or not -1 <= timestamp_ms <= _INT64_MAX:
        raise BadLine(f"timestamp_ms is no number from 0 to {_INT64_MAX}")
    return NewRecord(
        timestamp_ms,
        _content(found.get("key"), "key"),
        _content(found["value"], "value"),
        _headers(found.get("headers") or []),
    )


def _content(found: Any, name: str) -> bytes | None:
    """A text in UTF-8, {"base64": …}, null, or any other JSON as its text."""
    match found:
        case None:
            return None
        case str():
            return found.encode("utf-8", "surrogatepass")
        case {"base64": str(content)} if len(found) == 1:
            try:
                return base64.b64decode(content, validate=True)
            except ValueError:
                raise BadLine(f"{name} is not base64") from None
        case _:
            return json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _headers(found: Any) -> bytes:
    if not isinstance(found, list):
        raise BadLine("headers are no list of pairs")
    pairs = []
    for pair in found:
        match pair:
            case [str(name), None | str() | {"base64": str()} as content]:
                pairs.append((name, _content(content, "a header")))
            case _:
                raise BadLine('a header is not ["name", "text"], ["name", null] or ["name", {"base64": "…"}]')
    try:
        return encoded_headers(pairs)
    except (BadFields, UnicodeEncodeError):
        raise BadLine("the headers are too many or too long, or a name is no text") from None
