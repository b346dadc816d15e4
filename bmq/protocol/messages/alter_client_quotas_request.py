"""AlterClientQuotasRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class EntityData(Message):
    """A part of AlterClientQuotasRequest."""

    entity_type: str
    entity_name: str | None

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = None,
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OpData(Message):
    """A part of AlterClientQuotasRequest."""

    key: str
    value: float
    remove: bool

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class EntryData(Message):
    """A part of AlterClientQuotasRequest."""

    entity: Sequence[EntityData]
    ops: Sequence[OpData]

    def __init__(
        self,
        *,
        entity: Sequence[EntityData] = (),
        ops: Sequence[OpData] = (),
    ) -> None:
        self.entity = entity
        self.ops = ops


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterClientQuotasRequest(Message):
    """The message."""

    entries: Sequence[EntryData]
    validate_only: bool

    def __init__(
        self,
        *,
        entries: Sequence[EntryData] = (),
        validate_only: bool = False,
    ) -> None:
        self.entries = entries
        self.validate_only = validate_only


_ENTITY_DATA: Final = Format(
    EntityData,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("entity_type", "string"),
        FormatField("entity_name", "string", nullable_since=0),
    ),
)
_OP_DATA: Final = Format(
    OpData,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("key", "string"),
        FormatField("value", "float64"),
        FormatField("remove", "bool"),
    ),
)
_ENTRY_DATA: Final = Format(
    EntryData,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("entity", entity=_ENTITY_DATA, is_array=True),
        FormatField("ops", entity=_OP_DATA, is_array=True),
    ),
)
FORMAT: Final = Format(
    AlterClientQuotasRequest,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("entries", entity=_ENTRY_DATA, is_array=True),
        FormatField("validate_only", "bool"),
    ),
)
