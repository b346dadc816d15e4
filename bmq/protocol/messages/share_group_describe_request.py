"""ShareGroupDescribeRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ShareGroupDescribeRequest(Message):
    """The message."""

    group_ids: Sequence[str]
    include_authorized_operations: bool

    def __init__(
        self,
        *,
        group_ids: Sequence[str] = (),
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = group_ids
        self.include_authorized_operations = include_authorized_operations


FORMAT: Final = Format(
    ShareGroupDescribeRequest,
    version_min=1,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("group_ids", "string", is_array=True),
        FormatField("include_authorized_operations", "bool"),
    ),
)
