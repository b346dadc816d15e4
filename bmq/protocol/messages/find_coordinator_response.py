"""FindCoordinatorResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Coordinator(Message):
    """A part of FindCoordinatorResponse."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FindCoordinatorResponse(Message):
    """The message."""

    throttle_time_ms: int
    coordinators: Sequence[Coordinator]
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        coordinators: Sequence[Coordinator] = (),
        error_code: int = 0,
        error_message: str | None = None,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.coordinators = coordinators
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port


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
