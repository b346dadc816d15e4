"""HeartbeatRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class HeartbeatRequest(Message):
    """The message."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


FORMAT: Final = Format(
    HeartbeatRequest,
    version_min=0,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("group_id", "string"),
        FormatField("generation_id", "int32"),
        FormatField("member_id", "string"),
        FormatField("group_instance_id", "string", since=3, nullable_since=0),
    ),
)
