"""CreatePartitionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreatePartitionsAssignment(Message):
    """A part of CreatePartitionsRequest."""

    broker_ids: Sequence[int]

    def __init__(
        self,
        *,
        broker_ids: Sequence[int] = (),
    ) -> None:
        self.broker_ids = broker_ids


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreatePartitionsTopic(Message):
    """A part of CreatePartitionsRequest."""

    name: str
    count: int
    assignments: Sequence[CreatePartitionsAssignment] | None

    def __init__(
        self,
        *,
        name: str = "",
        count: int = 0,
        assignments: Sequence[CreatePartitionsAssignment] | None = (),
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = assignments


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreatePartitionsRequest(Message):
    """The message."""

    topics: Sequence[CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool

    def __init__(
        self,
        *,
        topics: Sequence[CreatePartitionsTopic] = (),
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


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
