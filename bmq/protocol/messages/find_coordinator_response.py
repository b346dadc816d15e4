"""FindCoordinatorResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


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
