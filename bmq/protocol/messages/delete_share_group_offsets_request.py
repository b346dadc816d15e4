"""DeleteShareGroupOffsetsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteShareGroupOffsetsRequestTopic(Message):
    """A part of DeleteShareGroupOffsetsRequest."""

    topic_name: str

    def __init__(
        self,
        *,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteShareGroupOffsetsRequest(Message):
    """The message."""

    group_id: str
    topics: Sequence[DeleteShareGroupOffsetsRequestTopic]

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: Sequence[DeleteShareGroupOffsetsRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


_DELETE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC: Final = Format(
    DeleteShareGroupOffsetsRequestTopic,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("topic_name", "string"),),
)
FORMAT: Final = Format(
    DeleteShareGroupOffsetsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string"),
        FormatField("topics", entity=_DELETE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC, is_array=True),
    ),
)
