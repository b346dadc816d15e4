"""SyncGroupResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class SyncGroupResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


FORMAT: Final = Format(
    SyncGroupResponse,
    version_min=0,
    version_max=5,
    flexible_from=4,
    fields=(
        FormatField("throttle_time_ms", "int32", since=1),
        FormatField("error_code", "int16"),
        FormatField("protocol_type", "string", since=5, nullable_since=0),
        FormatField("protocol_name", "string", since=5, nullable_since=0),
        FormatField("assignment", "bytes"),
    ),
)
