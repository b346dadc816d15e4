"""The conditions of `find` in Spark SQL, which Spark compiles. Pure.

User input enters the text as hexadecimal digits, so nothing has to be escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from bmq.spark.jobs.outcome import JobFailed

_FIELD: Final = re.compile(r"[^.\[\]']+")


@dataclass(frozen=True, slots=True)
class NamedValue:
    """`value` None: any value."""

    name: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> NamedValue:
        """Parse NAME or NAME=VALUE. Raises JobFailed."""
        name, has_value, value = text.partition("=")
        if not name:
            raise JobFailed(f"{text!r} has no name: write NAME=VALUE, or NAME alone")
        return cls(name, value if has_value else None)


@dataclass(frozen=True, slots=True)
class FindQuery:
    """All given conditions must hold; times are milliseconds since 1970, [from_ms, to_ms)."""

    key: str | None = None
    headers: tuple[NamedValue, ...] = ()
    json_fields: tuple[NamedValue, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def condition(self) -> str:
        """True for matching records. Raises JobFailed for a field that is no path."""
        parts = []
        if self.key is not None:
            parts.append(f"key = {_binary(self.key)}")
        for header in self.headers:
            of_name = f"h.key = {_text(header.name)}"
            value = "" if header.value is None else f" AND h.value = {_binary(header.value)}"
            parts.append(f"exists(headers, h -> {of_name}{value})")
        for field in self.json_fields:
            found = f"get_json_object(CAST(value AS STRING), {_text(json_path(field.name))})"
            parts.append(f"{found} IS NOT NULL" if field.value is None else f"{found} = {_text(field.value)}")
        if self.from_ms is not None:
            parts.append(f"timestamp >= timestamp_millis({self.from_ms}L)")
        if self.to_ms is not None:
            parts.append(f"timestamp < timestamp_millis({self.to_ms}L)")
        return " AND ".join(f"({part})" for part in parts) or "TRUE"


def json_path(field: str) -> str:
    """`$['a']['b'][0]` for `a.b[0]`. Raises JobFailed."""
    path = ["$"]
    for part in field.split("."):
        name, bracket, rest = part.partition("[")
        indexes = re.fullmatch(r"(?:\d+\]\[)*\d+\]", rest, re.ASCII) if bracket else None
        if not _FIELD.fullmatch(name) or (bracket and indexes is None):
            raise JobFailed(f"{field!r} is no field of a JSON document: write a.b or a.list[0].b")
        path.append(f"['{name}']{bracket}{rest}")
    return "".join(path)


def _binary(text: str) -> str:
    return f"X'{text.encode().hex()}'"


def _text(text: str) -> str:
    return f"CAST({_binary(text)} AS STRING)"
