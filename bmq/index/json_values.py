"""Values of JSON records for a column's type, as the job on Spark takes them (bmq/spark/tables/decoding.py). Pure.

Numbers keep their text until their column is known: a decimal has all its digits, and a string column the text as it was.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final
from zoneinfo import ZoneInfo

from bmq.index.values import Value
from bmq.table_definitions.column_types import precision_and_scale
from bmq.table_definitions.definition import TableField, TimeUnit

NESTED_MAX: Final = 200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND: Final = {TimeUnit.SECONDS: 1, TimeUnit.MILLISECONDS: 1_000, TimeUnit.MICROSECONDS: 1_000_000}
_SECONDS_MIN: Final = -62_135_596_800
_SECONDS_MAX: Final = 253_402_300_799
_BITS: Final = {"int": 31, "long": 63}
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()
_INTEGER: Final = re.compile(r"-?\d+")
_MOMENT: Final = re.compile(
    r"\s*(?P<year>\d{4})(-(?P<month>\d{1,2})(-(?P<day>\d{1,2})"
    r"([ T](?P<hour>\d{1,2})(:(?P<minute>\d{1,2})(:(?P<second>\d{1,2})([.](?P<fraction>\d{1,9}))?)?)?)?)?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{1,2}(:\d{2})?|[A-Za-z]+/[A-Za-z_/]+)?\s*"
)
_DAY: Final = re.compile(r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\s*")
_NOT_NUMBERS: Final = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "INF": math.inf,
    "+INF": math.inf,
    "-Infinity": -math.inf,
    "-INF": -math.inf,
}


class DoesNotFit(Exception):
    """The record does not fit the definition; the message says why."""


class Number(str):
    """A number's text."""


def json_object(data: bytes) -> tuple[str, dict[str, Any]]:
    """A record's value as text, and what it says. Raises DoesNotFit."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DoesNotFit("the value is no UTF-8") from None
    try:
        found = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DoesNotFit("the value is no JSON object with the paths of the table")
    return text, found


def at_path(root: dict[str, Any], steps: Sequence[str]) -> Any:
    """The JSON value at a path; None where it is not. Raises DoesNotFit: something on the way is no object."""
    found: Any = root
    for step in steps:
        if found is None:
            return None
        if not isinstance(found, dict):
            raise DoesNotFit("the value is no JSON object with the paths of the table")
        found = found.get(step)
    return found


def exact_text(text: str, steps: Sequence[str]) -> str:
    """The text of the value at a path, with its spaces, as Spark gives it. The value is there."""
    start, end = _after_blank(text, 0), len(text)
    for step in steps:
        start, end = _member(text, start, step)
    return text[start:end]


def _member(text: str, at: int, wanted: str) -> tuple[int, int]:
    """Where the value of a name is, in the object that begins at `at`; of several the last one."""
    found = (at, at)
    at = _after_blank(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _after_blank(text, _after_blank(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        if name == wanted:
            found = (at, end)
        at = _after_blank(text, end)
        if text[at] == ",":
            at = _after_blank(text, at + 1)
    return found


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def from_json(field: TableField, found: Any, text: str = "") -> Value | None:
    """`text`: of the whole value, in which a string column finds what is no string. Raises DoesNotFit."""
    if found is None:
        return None
    if field.type == "string" and isinstance(found, dict | list):
        return exact_text(text, field.steps)
    try:
        value = _converted(field, found)
    except (ValueError, OverflowError, InvalidOperation, KeyError):
        value = None
    if value is None:
        raise DoesNotFit(f"field {field.name}: {compact(found)[:100]} is no {field.type}")
    return value


def moment_of(number: int, unit: TimeUnit) -> datetime | None:
    """A time that is a number; None outside of the years 1 to 9999."""
    per_second = _PER_SECOND[unit]
    if not _SECONDS_MIN * per_second <= number <= _SECONDS_MAX * per_second:
        return None
    return _EPOCH + timedelta(microseconds=number * (1_000_000 // per_second))


def compact(found: Any) -> str:
    """JSON text without spaces; a string is itself at the top."""
    if isinstance(found, str):
        return found
    return _compact(found, 0)


def _compact(found: Any, depth: int) -> str:
    if depth > NESTED_MAX:
        raise ValueError("nested too deep")
    match found:
        case Number():
            return str(found)
        case dict():
            inner = (
                f"{json.dumps(name, ensure_ascii=False)}:{_compact(each, depth + 1)}" for name, each in found.items()
            )
            return f"{{{','.join(inner)}}}"
        case list():
            return f"[{','.join(_compact(each, depth + 1) for each in found)}]"
        case _:
            return json.dumps(found, ensure_ascii=False)


def _converted(field: TableField, found: Any) -> Value | None:
    digits = precision_and_scale(field.type)
    if digits is not None:
        return _decimal(found, *digits) if isinstance(found, str) else None
    match field.type:
        case "string":
            return compact(found)
        case "boolean":
            return found if isinstance(found, bool) else None
        case "int" | "long":
            return _integer(found, _BITS[field.type])
        case "float" | "double":
            return _double(found)
        case "timestamp" if field.unit is not None:
            number = _integer(found, 63)
            return None if number is None else moment_of(number, field.unit)
        case "timestamp":
            return _moment(compact(found))
        case "date":
            return _day(compact(found))
        case _:
            return base64.b64decode(found, validate=True) if type(found) is str else None


def _integer(found: Any, bits: int) -> int | None:
    if not isinstance(found, Number) or _INTEGER.fullmatch(found) is None:
        return None
    number = int(found)
    return number if -(1 << bits) <= number < 1 << bits else None


def _double(found: Any) -> float | None:
    if isinstance(found, Number):
        return _NOT_NUMBERS.get(found) if found in _NOT_NUMBERS else float(found)
    return _NOT_NUMBERS.get(found) if isinstance(found, str) else None


def _decimal(found: str, precision: int, scale: int) -> Decimal | None:
    number = Decimal(found if isinstance(found, Number) else found.replace(",", ""))
    if not number.is_finite() or number.adjusted() > precision:
        return None
    if number.adjusted() < -precision - scale - 1:
        return Decimal(0).scaleb(-scale)
    placed = number.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
    return placed if abs(placed) < Decimal(10) ** (precision - scale) else None


def _moment(text: str) -> datetime | None:
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    part = {name: match[name] for name in match.groupdict()}
    fraction = (part["fraction"] or "").ljust(6, "0")[:6]
    return datetime(
        int(part["year"]),
        int(part["month"] or 1),
        int(part["day"] or 1),
        int(part["hour"] or 0),
        int(part["minute"] or 0),
        int(part["second"] or 0),
        int(fraction or 0),
        _zone(part["zone"]),
    ).astimezone(UTC)


def _zone(text: str | None) -> tzinfo:
    if text is None or text in ("Z", "UTC", "GMT"):
        return UTC
    if text[0] not in "+-":
        return ZoneInfo(text)
    hours, _, minutes = text[1:].partition(":")
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-offset if text[0] == "-" else offset)


def _day(text: str) -> date | None:
    match = _DAY.fullmatch(text)
    return None if match is None else date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
