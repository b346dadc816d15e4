"""CreateAclsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AclCreation(Message):
    """A part of CreateAclsRequest."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreateAclsRequest(Message):
    """The message."""

    creations: Sequence[AclCreation]

    def __init__(
        self,
        *,
        creations: Sequence[AclCreation] = (),
    ) -> None:
        self.creations = creations


_ACL_CREATION: Final = Format(
    AclCreation,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
        FormatField("resource_pattern_type", "int8"),
        FormatField("principal", "string"),
        FormatField("host", "string"),
        FormatField("operation", "int8"),
        FormatField("permission_type", "int8"),
    ),
)
FORMAT: Final = Format(
    CreateAclsRequest,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(FormatField("creations", entity=_ACL_CREATION, is_array=True),),
)
