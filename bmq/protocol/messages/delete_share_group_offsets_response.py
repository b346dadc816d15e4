"""DeleteShareGroupOffsetsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteShareGroupOffsetsResponseTopic(Message):
    """A part of DeleteShareGroupOffsetsResponse."""

    topic_name: str
    topic_id: UUID | None
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: UUID | None = None,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteShareGroupOffsetsResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: Sequence[DeleteShareGroupOffsetsResponseTopic]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: Sequence[DeleteShareGroupOffsetsResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses


_DELETE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC: Final = Format(
    DeleteShareGroupOffsetsResponseTopic,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("topic_id", "uuid"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
    ),
)
FORMAT: Final = Format(
    DeleteShareGroupOffsetsResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("responses", entity=_DELETE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC, is_array=True),
    ),
)
