"""JoinGroupRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class JoinGroupRequestProtocol:
    name: str = ""
    metadata: bytes = b""


@dataclasses.dataclass(slots=True, kw_only=True)
class JoinGroupRequest:
    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: Sequence[JoinGroupRequestProtocol] = ()
    reason: str | None = None
