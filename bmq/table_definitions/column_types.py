"""Types of a table's columns: Iceberg's scalars, with Spark's names where only the names differ.

boolean, int (32 bits), long (64 bits), float, double, decimal(precision,scale), date, timestamp (microseconds, UTC),
string (UTF-8), binary. Nested values have no type here: a `string` takes their JSON text.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

SCALARS: Final = ("boolean", "int", "long", "float", "double", "date", "timestamp", "string", "binary")
DECIMAL_DIGITS_MAX: Final = 38
TYPE_PATTERN: Final = rf"^({'|'.join(SCALARS)}|decimal\([1-9][0-9]?,(0|[1-9][0-9]?)\))$"
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_WIDER: Final = {("int", "long"), ("float", "double")}
_SHOWN_MAX: Final = 40


def precision_and_scale(column_type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None for any other type."""
    match = _DECIMAL.fullmatch(column_type)
    return None if match is None else (int(match[1]), int(match[2]))


def is_widening(old: str, new: str) -> bool:
    """Whether a column may change from `old` to `new` without rewriting its files (Iceberg's promotions)."""
    before, after = precision_and_scale(old), precision_and_scale(new)
    if before is not None and after is not None:
        return after[0] > before[0] and after[1] == before[1]
    return (old, new) in _WIDER


def _checked(column_type: object) -> object:
    if not isinstance(column_type, str):
        return column_type
    digits = precision_and_scale(column_type)
    if re.fullmatch(TYPE_PATTERN, column_type) is None:
        raise PydanticCustomError(
            "column_type",
            "{type} is no type; there are {types} and decimal(PRECISION,SCALE)",
            {"type": column_type[:_SHOWN_MAX], "types": ", ".join(SCALARS)},
        )
    if digits is not None and (digits[0] > DECIMAL_DIGITS_MAX or digits[1] > digits[0]):
        raise PydanticCustomError(
            "column_type",
            "{type} is no type: a decimal has at most {digits} digits, and no more of them after the point than in all",
            {"type": column_type, "digits": DECIMAL_DIGITS_MAX},
        )
    return column_type


ColumnType = Annotated[
    str,
    Field(pattern=TYPE_PATTERN, description=f"{', '.join(SCALARS)} or decimal(PRECISION,SCALE)"),
    BeforeValidator(_checked),
]
