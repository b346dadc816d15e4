"""SyncGroupRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    member_id: str = ""
    assignment: bytes = b""


@dataclasses.dataclass(slots=True, kw_only=True)
class SyncGroupRequest:
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[SyncGroupRequestAssignment] = ()
