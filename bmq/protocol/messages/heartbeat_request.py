"""HeartbeatRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class HeartbeatRequest:
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
