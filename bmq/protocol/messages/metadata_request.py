"""MetadataRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class MetadataRequestTopic:
    topic_id: UUID | None = None
    name: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class MetadataRequest:
    topics: Sequence[MetadataRequestTopic] | None = ()
    allow_auto_topic_creation: bool = True
    include_topic_authorized_operations: bool = False
    include_cluster_authorized_operations: bool = False
