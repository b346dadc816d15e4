"""The columns that a schema's leaves become: names from paths, and what is left out. Decisions only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.table_definitions.column_types import is_widening
from bmq.table_definitions.definition import RESERVED_PREFIX, TableField

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_NAME_CHARACTERS_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value of a schema that fits a column of `column_type`; `steps` lead to it. `unit`: as a field's."""

    steps: tuple[str, ...]
    column_type: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of a schema that no column can hold."""

    steps: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class SchemaLeaves:
    leaves: tuple[Leaf, ...]
    left_out: tuple[LeftOut, ...]


def fields_of(leaves: Iterable[Leaf], present: Sequence[TableField] = ()) -> list[TableField]:
    """A column for each leaf, behind the `present` ones, which keep all but a type that is widened.

    No column is required: records of earlier versions of the schema may lack it. A name is the path with underscores;
    a number makes it unlike the others.
    """
    fields = list(present)
    by_steps = {each.steps: at for at, each in enumerate(fields) if each.source.value == "value"}
    names = {each.name.lower() for each in fields}
    for leaf in leaves:
        at = by_steps.get(leaf.steps)
        if at is not None:
            if is_widening(fields[at].type, leaf.column_type):
                fields[at] = fields[at].model_copy(update={"type": leaf.column_type})
            continue
        name = _free_name(leaf.steps, names)
        names.add(name.lower())
        form: dict[str, Any] = {"name": name, "type": leaf.column_type, "unit": leaf.unit}
        if leaf.steps != (name,):
            form["path"] = list(leaf.steps)
        fields.append(TableField.model_validate(form))
    return fields


def _free_name(steps: Sequence[str], taken: set[str]) -> str:
    name = _NO_NAME.sub("_", "_".join(steps))[: _NAME_CHARACTERS_MAX - 5]
    if not name or name[0].isdigit() or name.lower().startswith(RESERVED_PREFIX):
        name = f"f_{name}"
    found, number = name, 2
    while found.lower() in taken:
        found, number = f"{name}_{number}", number + 1
    return found
