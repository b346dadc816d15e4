"""SyncGroupResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class SyncGroupResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
