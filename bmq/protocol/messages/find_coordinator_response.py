"""FindCoordinatorResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class Coordinator:
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class FindCoordinatorResponse:
    throttle_time_ms: int = 0
    coordinators: Sequence[Coordinator] = ()
    error_code: int = 0
    error_message: str | None = None
    node_id: int = 0
    host: str = ""
    port: int = 0


_COORDINATOR: Final = Format(
    Coordinator,
    version_min=0,
    version_max=6,
    flexible_from=3,
    fields=(
        FormatField("key", "string", since=4),
        FormatField("node_id", "int32", since=4),
        FormatField("host", "string", since=4),
        FormatField("port", "int32", since=4),
        FormatField("error_code", "int16", since=4),
        FormatField("error_message", "string", since=4, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    FindCoordinatorResponse,
    version_min=0,
    version_max=6,
    flexible_from=3,
    fields=(
        FormatField("throttle_time_ms", "int32", since=1),
        FormatField("coordinators", since=4, entity=_COORDINATOR, is_array=True),
        FormatField("error_code", "int16", until=3),
        FormatField("error_message", "string", since=1, until=3, nullable_since=0),
        FormatField("node_id", "int32", until=3),
        FormatField("host", "string", until=3),
        FormatField("port", "int32", until=3),
    ),
)
