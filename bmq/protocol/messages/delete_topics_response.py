"""DeleteTopicsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class DeletableTopicResult:
    name: str | None = None
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteTopicsResponse:
    throttle_time_ms: int = 0
    responses: Sequence[DeletableTopicResult] = ()
