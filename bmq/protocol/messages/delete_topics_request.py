"""DeleteTopicsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteTopicState(Message):
    """A part of DeleteTopicsRequest."""

    name: str | None
    topic_id: UUID | None

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: UUID | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteTopicsRequest(Message):
    """The message."""

    topics: Sequence[DeleteTopicState]
    timeout_ms: int
    topic_names: Sequence[str]

    def __init__(
        self,
        *,
        topics: Sequence[DeleteTopicState] = (),
        timeout_ms: int = 0,
        topic_names: Sequence[str] = (),
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.topic_names = topic_names


_DELETE_TOPIC_STATE: Final = Format(
    DeleteTopicState,
    version_min=1,
    version_max=6,
    flexible_from=4,
    fields=(
        FormatField("name", "string", since=6, nullable_since=0),
        FormatField("topic_id", "uuid", since=6),
    ),
)
FORMAT: Final = Format(
    DeleteTopicsRequest,
    version_min=1,
    version_max=6,
    flexible_from=4,
    fields=(
        FormatField("topics", since=6, entity=_DELETE_TOPIC_STATE, is_array=True),
        FormatField("topic_names", "string", until=5, is_array=True),
        FormatField("timeout_ms", "int32"),
    ),
)
