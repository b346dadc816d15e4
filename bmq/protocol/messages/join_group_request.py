"""JoinGroupRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class JoinGroupRequestProtocol(Message):
    """A part of JoinGroupRequest."""

    name: str
    metadata: bytes

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class JoinGroupRequest(Message):
    """The message."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: Sequence[JoinGroupRequestProtocol]
    reason: str | None

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: Sequence[JoinGroupRequestProtocol] = (),
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.reason = reason


_JOIN_GROUP_REQUEST_PROTOCOL: Final = Format(
    JoinGroupRequestProtocol,
    version_min=0,
    version_max=9,
    flexible_from=6,
    fields=(
        FormatField("name", "string"),
        FormatField("metadata", "bytes"),
    ),
)
FORMAT: Final = Format(
    JoinGroupRequest,
    version_min=0,
    version_max=9,
    flexible_from=6,
    fields=(
        FormatField("group_id", "string"),
        FormatField("session_timeout_ms", "int32"),
        FormatField("rebalance_timeout_ms", "int32", since=1),
        FormatField("member_id", "string"),
        FormatField("group_instance_id", "string", since=5, nullable_since=0),
        FormatField("protocol_type", "string"),
        FormatField("protocols", entity=_JOIN_GROUP_REQUEST_PROTOCOL, is_array=True),
        FormatField("reason", "string", since=8, nullable_since=0),
    ),
)
