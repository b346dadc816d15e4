"""DeleteTopicsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteTopicState:
    name: str | None = None
    topic_id: UUID | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteTopicsRequest:
    topics: Sequence[DeleteTopicState] = ()
    timeout_ms: int = 0
    topic_names: Sequence[str] = ()
