"""DeleteAclsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteAclsFilter(Message):
    """A part of DeleteAclsRequest."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = None,
        pattern_type_filter: int = 3,
        principal_filter: str | None = None,
        host_filter: str | None = None,
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteAclsRequest(Message):
    """The message."""

    filters: Sequence[DeleteAclsFilter]

    def __init__(
        self,
        *,
        filters: Sequence[DeleteAclsFilter] = (),
    ) -> None:
        self.filters = filters


_DELETE_ACLS_FILTER: Final = Format(
    DeleteAclsFilter,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("resource_type_filter", "int8"),
        FormatField("resource_name_filter", "string", nullable_since=0),
        FormatField("pattern_type_filter", "int8"),
        FormatField("principal_filter", "string", nullable_since=0),
        FormatField("host_filter", "string", nullable_since=0),
        FormatField("operation", "int8"),
        FormatField("permission_type", "int8"),
    ),
)
FORMAT: Final = Format(
    DeleteAclsRequest,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(FormatField("filters", entity=_DELETE_ACLS_FILTER, is_array=True),),
)
