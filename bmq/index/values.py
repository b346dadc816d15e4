"""Values of columns: from a query's JSON, into an answer's JSON, and their names in DuckDB and Arrow. Pure.

boolean, numbers and texts are themselves; a decimal, a date (2026-11-24) and a timestamp (RFC 3339, UTC) are texts, and a
binary is Base64. A query may give a timestamp as milliseconds since 1970, too.
"""

from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Final, TypeAlias

import pyarrow as pa

from bmq.index.errors import QueryRefused
from bmq.table_definitions.column_types import precision_and_scale

Value: TypeAlias = bool | int | float | Decimal | date | datetime | str | bytes
VALUE_CHARACTERS_MAX: Final = 64 * 1024
_SHOWN_MAX: Final = 60
_CONTEXT: Final = Context(prec=100)
"""Python's own context has 28 digits."""
_INT_BITS: Final = {"int": 31, "long": 63}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS_MIN: Final = -62_135_596_800_000
_MS_MAX: Final = 253_402_300_799_999
_SQL_TYPES: Final = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "string": "VARCHAR",
    "binary": "BLOB",
}
_ARROW_TYPES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def sql_type(column_type: str) -> str:
    """DuckDB's name of a definition's column type."""
    digits = precision_and_scale(column_type)
    return _SQL_TYPES[column_type] if digits is None else f"DECIMAL({digits[0]},{digits[1]})"


def arrow_type(column_type: str) -> pa.DataType:
    digits = precision_and_scale(column_type)
    return _ARROW_TYPES[column_type] if digits is None else pa.decimal128(*digits)


def value_of(given: object, column_type: str, field: str) -> Value:
    """A query's value for a column. Raises QueryRefused."""
    if isinstance(given, str) and len(given) > VALUE_CHARACTERS_MAX:
        raise QueryRefused(f"field {field}: a value has at most {VALUE_CHARACTERS_MAX} characters")
    try:
        found = _parsed(given, column_type)
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        found = None
    if found is None:
        raise QueryRefused(f"field {field}: {str(given)[:_SHOWN_MAX]!r} is no {column_type}{_form(column_type)}")
    return found


def time_of(given: object, what: str) -> datetime:
    """A point in time, as text or in milliseconds. Raises QueryRefused."""
    try:
        return _time(given)
    except (ValueError, TypeError, OverflowError):
        raise QueryRefused(
            f"{what}: {str(given)[:_SHOWN_MAX]!r} is no time; write 2026-11-24T10:00:00Z, or milliseconds since 1970"
        ) from None


def json_of(value: Value | None) -> bool | int | float | str | None:
    """The form in an answer. A number that JSON does not have (NaN, infinity) becomes text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date() | Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()


def from_micros(micros: int | None) -> datetime | None:
    """Microseconds since 1970; None, too, for what Python's calendar does not have."""
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def after_prefix(prefix: str) -> str | None:
    """The least text that is greater than all that begin so, by code points; None: there is none."""
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place]) + 1
        if 0xD800 <= code <= 0xDFFF:  # surrogates are no characters
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[:place] + chr(code)
    return None


def _parsed(given: object, column_type: str) -> Value | None:
    """None, or an exception, for what is no such value."""
    digits = precision_and_scale(column_type)
    if digits is not None:
        return _decimal(given, *digits)
    match column_type:
        case "boolean":
            return given if isinstance(given, bool) else {"true": True, "false": False}.get(str(given))
        case "int" | "long":
            return _integer(given, _INT_BITS[column_type])
        case "float" | "double":
            number = float(given) if isinstance(given, int | float | str) and not isinstance(given, bool) else None
            return number if number is not None and math.isfinite(number) else None
        case "date":
            return date.fromisoformat(given) if isinstance(given, str) else None
        case "timestamp":
            return _time(given)
        case "binary":
            return base64.b64decode(given, validate=True) if isinstance(given, str) else None
        case _:
            if not isinstance(given, str):
                return None
            given.encode()  # a lone surrogate is no text of UTF-8
            return given


def _integer(given: object, bits: int) -> int | None:
    if isinstance(given, bool) or not isinstance(given, int | str):
        return None
    number = int(given)
    return number if -(1 << bits) <= number < 1 << bits else None


def _decimal(given: object, precision: int, scale: int) -> Decimal | None:
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    number = Decimal(str(given))
    if not number.is_finite() or abs(number.adjusted()) > precision + scale + 1:
        return Decimal(0).scaleb(-scale) if number == 0 else None
    placed = number.quantize(Decimal(1).scaleb(-scale), context=_CONTEXT)
    return placed if placed == number and placed.copy_abs() < Decimal(10) ** (precision - scale) else None


def _time(given: object) -> datetime:
    if isinstance(given, str) and given.lstrip("-").isdigit() and len(given) > 8:
        given = int(given)
    if isinstance(given, int) and not isinstance(given, bool):
        if not _MS_MIN <= given <= _MS_MAX:
            raise ValueError(given)
        return _EPOCH + timedelta(milliseconds=given)
    if not isinstance(given, str):
        raise TypeError(given)
    found = datetime.fromisoformat(given)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _form(column_type: str) -> str:
    digits = precision_and_scale(column_type)
    if digits is not None:
        return f": at most {digits[0] - digits[1]} digits before the point and {digits[1]} after it"
    return {
        "boolean": "; write true or false",
        "date": "; write 2026-11-24",
        "timestamp": "; write 2026-11-24T10:00:00Z, or milliseconds since 1970",
        "binary": "; write Base64",
        "string": "; write a text",
    }.get(column_type, "")
