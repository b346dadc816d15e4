"""DescribeAclsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AclDescription(Message):
    """A part of DescribeAclsResponse."""

    principal: str
    host: str
    operation: int
    permission_type: int

    def __init__(
        self,
        *,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeAclsResource(Message):
    """A part of DescribeAclsResponse."""

    resource_type: int
    resource_name: str
    pattern_type: int
    acls: Sequence[AclDescription]

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: Sequence[AclDescription] = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = acls


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeAclsResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    resources: Sequence[DescribeAclsResource]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        resources: Sequence[DescribeAclsResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = resources


_ACL_DESCRIPTION: Final = Format(
    AclDescription,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("principal", "string"),
        FormatField("host", "string"),
        FormatField("operation", "int8"),
        FormatField("permission_type", "int8"),
    ),
)
_DESCRIBE_ACLS_RESOURCE: Final = Format(
    DescribeAclsResource,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
        FormatField("pattern_type", "int8"),
        FormatField("acls", entity=_ACL_DESCRIPTION, is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeAclsResponse,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("resources", entity=_DESCRIBE_ACLS_RESOURCE, is_array=True),
    ),
)
