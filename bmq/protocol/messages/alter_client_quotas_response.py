"""AlterClientQuotasResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class EntityData(Message):
    """A part of AlterClientQuotasResponse."""

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
class EntryData(Message):
    """A part of AlterClientQuotasResponse."""

    error_code: int
    error_message: str | None
    entity: Sequence[EntityData]

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        entity: Sequence[EntityData] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = entity


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterClientQuotasResponse(Message):
    """The message."""

    throttle_time_ms: int
    entries: Sequence[EntryData]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: Sequence[EntryData] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = entries


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
_ENTRY_DATA: Final = Format(
    EntryData,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("entity", entity=_ENTITY_DATA, is_array=True),
    ),
)
FORMAT: Final = Format(
    AlterClientQuotasResponse,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("entries", entity=_ENTRY_DATA, is_array=True),
    ),
)
