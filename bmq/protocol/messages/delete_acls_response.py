"""DeleteAclsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteAclsMatchingAcl(Message):
    """A part of DeleteAclsResponse."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteAclsFilterResult(Message):
    """A part of DeleteAclsResponse."""

    error_code: int
    error_message: str | None
    matching_acls: Sequence[DeleteAclsMatchingAcl]

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        matching_acls: Sequence[DeleteAclsMatchingAcl] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = matching_acls


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteAclsResponse(Message):
    """The message."""

    throttle_time_ms: int
    filter_results: Sequence[DeleteAclsFilterResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        filter_results: Sequence[DeleteAclsFilterResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = filter_results


_DELETE_ACLS_MATCHING_ACL: Final = Format(
    DeleteAclsMatchingAcl,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
        FormatField("pattern_type", "int8"),
        FormatField("principal", "string"),
        FormatField("host", "string"),
        FormatField("operation", "int8"),
        FormatField("permission_type", "int8"),
    ),
)
_DELETE_ACLS_FILTER_RESULT: Final = Format(
    DeleteAclsFilterResult,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("matching_acls", entity=_DELETE_ACLS_MATCHING_ACL, is_array=True),
    ),
)
FORMAT: Final = Format(
    DeleteAclsResponse,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("filter_results", entity=_DELETE_ACLS_FILTER_RESULT, is_array=True),
    ),
)
