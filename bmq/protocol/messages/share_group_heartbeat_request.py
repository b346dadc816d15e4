"""ShareGroupHeartbeatRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ShareGroupHeartbeatRequest(Message):
    """The message."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: Sequence[str] | None

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: Sequence[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names


FORMAT: Final = Format(
    ShareGroupHeartbeatRequest,
    version_min=1,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string"),
        FormatField("member_id", "string"),
        FormatField("member_epoch", "int32"),
        FormatField("rack_id", "string", nullable_since=0),
        FormatField("subscribed_topic_names", "string", is_array=True, nullable_since=0),
    ),
)
