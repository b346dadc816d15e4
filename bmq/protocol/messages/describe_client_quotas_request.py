"""DescribeClientQuotasRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ComponentData(Message):
    """A part of DescribeClientQuotasRequest."""

    entity_type: str
    match_type: int
    match: str | None

    def __init__(
        self,
        *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = None,
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeClientQuotasRequest(Message):
    """The message."""

    components: Sequence[ComponentData]
    strict: bool

    def __init__(
        self,
        *,
        components: Sequence[ComponentData] = (),
        strict: bool = False,
    ) -> None:
        self.components = components
        self.strict = strict


_COMPONENT_DATA: Final = Format(
    ComponentData,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("entity_type", "string"),
        FormatField("match_type", "int8"),
        FormatField("match", "string", nullable_since=0),
    ),
)
FORMAT: Final = Format(
    DescribeClientQuotasRequest,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("components", entity=_COMPONENT_DATA, is_array=True),
        FormatField("strict", "bool"),
    ),
)
