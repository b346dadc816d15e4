"""MetadataRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class MetadataRequestTopic(Message):
    """A part of MetadataRequest."""

    topic_id: UUID | None
    name: str | None

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        name: str | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class MetadataRequest(Message):
    """The message."""

    topics: Sequence[MetadataRequestTopic] | None
    allow_auto_topic_creation: bool
    include_topic_authorized_operations: bool
    include_cluster_authorized_operations: bool

    def __init__(
        self,
        *,
        topics: Sequence[MetadataRequestTopic] | None = (),
        allow_auto_topic_creation: bool = True,
        include_topic_authorized_operations: bool = False,
        include_cluster_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_topic_authorized_operations = include_topic_authorized_operations
        self.include_cluster_authorized_operations = include_cluster_authorized_operations


_METADATA_REQUEST_TOPIC: Final = Format(
    MetadataRequestTopic,
    version_min=0,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("topic_id", "uuid", since=10),
        FormatField("name", "string", since=10, nullable_since=0),
        FormatField("name", "string", until=9),
    ),
)
FORMAT: Final = Format(
    MetadataRequest,
    version_min=0,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("topics", since=1, entity=_METADATA_REQUEST_TOPIC, is_array=True, nullable_since=0),
        FormatField("allow_auto_topic_creation", "bool", since=4),
        FormatField("include_cluster_authorized_operations", "bool", since=8, until=10),
        FormatField("include_topic_authorized_operations", "bool", since=8),
        FormatField("topics", until=0, entity=_METADATA_REQUEST_TOPIC, is_array=True),
    ),
)
