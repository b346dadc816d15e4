"""How records change the rows of a table that has a key. Decisions only.

Without a key each record is a row. With one a key has at most one row: that of its last record. docs/TABLES.md describes the
form for users.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

KEY_FIELDS_MAX: Final = 16
_ENVELOPE_STEPS_MAX: Final = 8
_NO_KEY: Final = ("float", "double")
BEFORE: Final = "before"
AFTER: Final = "after"
OPERATION: Final = "op"
OPERATION_NAME: Final = "envelope.op"
"""The operation among what is read from a value; no column has such a name."""
UPDATING_OPERATIONS: Final = ("c", "u", "r")
"""Debezium's operations after which the row is `after`: created, updated, read by a snapshot."""
DELETING_OPERATION: Final = "d"
VALUE: Final = "value"


class ChangeMode(StrEnum):
    """UPSERT: a record is the whole row of its key, one without a value deletes it.

    DEBEZIUM: a value is Debezium's envelope, with the row before and after a change, and the operation.
    """

    UPSERT = "upsert"
    DEBEZIUM = "debezium"


def _split(path: object) -> object:
    return path.split(".") if isinstance(path, str) and path else path


class RowChanges(BaseModel):
    """`key`: names of fields. `envelope`: where Debezium's envelope is in the value; empty: the value is it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=128)], ...],
        Field(min_length=1, max_length=KEY_FIELDS_MAX, description="Fields that together are unlike in each row"),
    ]
    mode: ChangeMode = ChangeMode.UPSERT
    envelope: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=255)], ...],
        BeforeValidator(_split, json_schema_input_type=str | list[str]),
        Field(max_length=_ENVELOPE_STEPS_MAX, description="A text with dots, or a list of names"),
    ] = ()

    @property
    def has_envelope(self) -> bool:
        return self.mode is ChangeMode.DEBEZIUM

    def within(self, *steps: str) -> tuple[str, ...]:
        """A path in the value out of one in the envelope."""
        return (*self.envelope, *steps)

    def __str__(self) -> str:
        return f"{self.mode.value} by {', '.join(self.key)}"


def changes_fault(changes: RowChanges, types: Mapping[str, str], value_format: str) -> str | None:
    """The fault of the key of a table with these columns, as one sentence; None: it has none."""
    for number, name in enumerate(changes.key):
        kind = types.get(name)
        if kind is None:
            return f"changes.key: there is no field {name}"
        if name in changes.key[:number]:
            return f"changes.key: {name} is there more than once"
        if kind in _NO_KEY:
            return f"changes.key: field {name} is a {kind}, and such numbers are not compared for equality"
    if changes.mode is ChangeMode.DEBEZIUM and value_format == "raw":
        return "changes: a raw value has no envelope"
    if changes.mode is not ChangeMode.DEBEZIUM and changes.envelope:
        return "changes.envelope: only the mode debezium has an envelope"
    return None


def before_name(name: str) -> str:
    """The name of a key's field in the row before; no column has such a name."""
    return f"{BEFORE}.{name}"


def has_tombstones(changes: RowChanges, sources: Mapping[str, str]) -> bool:
    """Whether a record without a value names the row that it deletes: nothing of its key is in the value. `sources`: of fields."""
    return changes.mode is ChangeMode.UPSERT and all(sources[name] != VALUE for name in changes.key)
