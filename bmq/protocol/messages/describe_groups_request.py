"""DescribeGroupsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeGroupsRequest(Message):
    """The message."""

    groups: Sequence[str]
    include_authorized_operations: bool

    def __init__(
        self,
        *,
        groups: Sequence[str] = (),
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = groups
        self.include_authorized_operations = include_authorized_operations


FORMAT: Final = Format(
    DescribeGroupsRequest,
    version_min=0,
    version_max=6,
    flexible_from=5,
    fields=(
        FormatField("groups", "string", is_array=True),
        FormatField("include_authorized_operations", "bool", since=3),
    ),
)
