"""CreatePartitionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


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


_CREATE_PARTITIONS_ASSIGNMENT: Final = Format(
    CreatePartitionsAssignment,
    version_min=0,
    version_max=3,
    flexible_from=2,
    fields=(FormatField("broker_ids", "int32", is_array=True),),
)
_CREATE_PARTITIONS_TOPIC: Final = Format(
    CreatePartitionsTopic,
    version_min=0,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("name", "string"),
        FormatField("count", "int32"),
        FormatField("assignments", entity=_CREATE_PARTITIONS_ASSIGNMENT, is_array=True, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    CreatePartitionsRequest,
    version_min=0,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("topics", entity=_CREATE_PARTITIONS_TOPIC, is_array=True),
        FormatField("timeout_ms", "int32"),
        FormatField("validate_only", "bool"),
    ),
)
