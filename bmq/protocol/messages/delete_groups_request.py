"""DeleteGroupsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteGroupsRequest(Message):
    """The message."""

    groups_names: Sequence[str]

    def __init__(
        self,
        *,
        groups_names: Sequence[str] = (),
    ) -> None:
        self.groups_names = groups_names


FORMAT: Final = Format(
    DeleteGroupsRequest,
    version_min=0,
    version_max=3,
    flexible_from=2,
    fields=(FormatField("groups_names", "string", is_array=True),),
)
