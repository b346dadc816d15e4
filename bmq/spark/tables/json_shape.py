"""Which parts of a JSON value are parsed together: paths as nested names. Decisions only.

One parse serves all fields, unless two need one place in different ways: as a value and as a container, as two types,
or under names that differ only in case, which Spark does not distinguish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Shape: TypeAlias = "dict[str, str | Shape]"
"""Names to a type, or to a nested shape."""


@dataclass(slots=True)
class JsonParse:
    """One parse: its shape, and the fields that it provides."""

    shape: Shape = field(default_factory=dict)
    fields: set[str] = field(default_factory=set)


def parses(wanted: Iterable[tuple[str, Sequence[str], str]]) -> list[JsonParse]:
    """The fewest parses in this order. `wanted`: a field's name, its path, and the type to parse."""
    found: list[JsonParse] = []
    for name, path, kind in wanted:
        for parse in found:
            if _has_room(parse.shape, path, kind):
                break
        else:
            parse = JsonParse()
            found.append(parse)
        _put(parse.shape, path, kind)
        parse.fields.add(name)
    return found


def ddl(shape: Mapping[str, str | Shape], leaf: str | None = None) -> str:
    """The shape as a Spark type; with `leaf` every value has that type."""
    return f"struct<{','.join(f'{_quoted(name)}:{_kind(below, leaf)}' for name, below in shape.items())}>"


def _kind(below: str | Shape, leaf: str | None) -> str:
    if isinstance(below, str):
        return leaf or below
    return ddl(below, leaf)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _has_room(shape: Shape, path: Sequence[str], kind: str) -> bool:
    first, *rest = path
    there = next((name for name in shape if name.lower() == first.lower()), None)
    if there is None:
        return True
    below = shape[there]
    if there != first or isinstance(below, str):
        return there == first and not rest and below == kind
    return bool(rest) and _has_room(below, rest, kind)


def _put(shape: Shape, path: Sequence[str], kind: str) -> None:
    *above, last = path
    for step in above:
        below = shape.setdefault(step, {})
        assert not isinstance(below, str)
        shape = below
    shape[last] = kind
