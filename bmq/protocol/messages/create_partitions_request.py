"""CreatePartitionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatePartitionsAssignment:
    broker_ids: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatePartitionsTopic:
    name: str = ""
    count: int = 0
    assignments: Sequence[CreatePartitionsAssignment] | None = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatePartitionsRequest:
    topics: Sequence[CreatePartitionsTopic] = ()
    timeout_ms: int = 0
    validate_only: bool = False
