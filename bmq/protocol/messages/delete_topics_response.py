"""DeleteTopicsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


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
