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
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final
from zoneinfo import ZoneInfo

from bmq.index.values import Value
from bmq.table_definitions.column_types import precision_and_scale
from bmq.table_definitions.definition import TableField, TimeUnit

NESTED_MAX: Final = 200
_SHOWN_MAX: Final = 100
_CONTEXT: Final = Context(prec=100)
"""Python's own context has 28 digits."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND: Final = {TimeUnit.SECONDS: 1, TimeUnit.MILLISECONDS: 1_000, TimeUnit.MICROSECONDS: 1_000_000}
_SECONDS_MIN: Final = -62_135_596_800
_SECONDS_MAX: Final = 253_402_300_799
_BITS: Final = {"int": 31, "long": 63}
_ESCAPE: Final = re.compile(r"\\(u00[01][0-9a-f]|.)")
_TWO_UNITS: Final = re.compile("[\U00010000-\U0010ffff]")
_PLAIN_FROM: Final = 1e-3
_PLAIN_TO: Final = 1e7
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


class JsonObject(dict[str, Any]):
    """An object; `pairs` has a name that comes twice twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def json_object(data: bytes) -> dict[str, Any]:
    """A record's value. Raises DoesNotFit."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DoesNotFit("the value is no UTF-8") from None
    try:
        found = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=JsonObject
        )
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DoesNotFit("the value is no JSON object with the paths of the table")
    return found


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


def from_json(field: TableField, found: Any) -> Value | None:
    """Raises DoesNotFit."""
    if found is None:
        return None
    try:
        value = _converted(field, found)
    except (ValueError, OverflowError, InvalidOperation, KeyError, OSError):  # OSError: a zone's name is a directory
        value = None
    if value is None:
        raise DoesNotFit(f"field {field.name}: {_shown(found)} is no {field.type}")
    return value


def moment_of(number: int, unit: TimeUnit) -> datetime | None:
    """A time that is a number; None outside of the years 1 to 9999."""
    per_second = _PER_SECOND[unit]
    if not _SECONDS_MIN * per_second <= number <= _SECONDS_MAX * per_second:
        return None
    return _EPOCH + timedelta(microseconds=number * (1_000_000 // per_second))


def written(found: Any) -> str:
    """The text of a value in a string column: a string is itself, others are as Jackson writes them for Spark."""
    return found if isinstance(found, str) and not isinstance(found, Number) else _written(found, 0)


def _shown(found: Any) -> str:
    try:
        return written(found)[:_SHOWN_MAX]
    except ValueError:
        return "a value that is too large"


def _written(found: Any, depth: int) -> str:
    """Raises ValueError."""
    if depth > NESTED_MAX:
        raise ValueError("nested too deep")
    match found:
        case Number():
            return _written_number(found)
        case str():
            return _written_text(found)
        case JsonObject():
            inner = (f"{_written_text(name)}:{_written(each, depth + 1)}" for name, each in found.pairs)
            return f"{{{','.join(inner)}}}"
        case list():
            return f"[{','.join(_written(each, depth + 1) for each in found)}]"
        case _:
            return json.dumps(found)


def _written_text(text: str) -> str:
    """Control characters have capital digits, and what UTF-16 needs two units for is escaped."""
    quoted = _ESCAPE.sub(
        lambda match: f"\\u{match[1][1:].upper()}" if match[1][1:] else match[0], json.dumps(text, ensure_ascii=False)
    )
    return _TWO_UNITS.sub(lambda match: _units(match[0]), quoted)


def _units(character: str) -> str:
    data = character.encode("utf-16-be").hex().upper()
    return f"\\u{data[:4]}\\u{data[4:]}"


def _written_number(number: Number) -> str:
    """Source: Double.toString of Java 19 and later."""
    if _INTEGER.fullmatch(number) is not None:
        return str(int(number))
    value = _NOT_NUMBERS.get(number) if number in _NOT_NUMBERS else float(number)
    if value is None or not math.isfinite(value):
        return '"NaN"' if value != value else '"Infinity"' if value is not None and value > 0 else '"-Infinity"'
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, minus = "".join(map(str, digits)), "-" if sign else ""
    point = len(text) + int(exponent)  # where the point is in the digits
    if value == 0:
        return f"{minus}0.0"
    if not _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


def _converted(field: TableField, found: Any) -> Value | None:
    digits = precision_and_scale(field.type)
    if digits is not None:
        return _decimal(found, *digits) if isinstance(found, str) else None
    match field.type:
        case "string":
            return written(found)
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
            return _moment(written(found))
        case "date":
            return _day(written(found))
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
    placed = number.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_CONTEXT)
    return placed if placed.copy_abs() < Decimal(10) ** (precision - scale) else None


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
