"""DeleteTopicsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeletableTopicResult(Message):
    """A part of DeleteTopicsResponse."""

    name: str | None
    topic_id: UUID | None
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: UUID | None = None,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteTopicsResponse(Message):
    """The message."""

    throttle_time_ms: int
    responses: Sequence[DeletableTopicResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: Sequence[DeletableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses


_DELETABLE_TOPIC_RESULT: Final = Format(
    DeletableTopicResult,
    version_min=1,
    version_max=6,
    flexible_from=4,
    fields=(
        FormatField("name", "string", since=6, nullable_since=0),
        FormatField("topic_id", "uuid", since=6),
        FormatField("name", "string", until=5),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", since=5, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    DeleteTopicsResponse,
    version_min=1,
    version_max=6,
    flexible_from=4,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("responses", entity=_DELETABLE_TOPIC_RESULT, is_array=True),
    ),
)
