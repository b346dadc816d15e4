"""AlterPartitionReassignmentsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ReassignablePartitionResponse(Message):
    """A part of AlterPartitionReassignmentsResponse."""

    partition_index: int
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ReassignableTopicResponse(Message):
    """A part of AlterPartitionReassignmentsResponse."""

    name: str
    partitions: Sequence[ReassignablePartitionResponse]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[ReassignablePartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterPartitionReassignmentsResponse(Message):
    """The message."""

    throttle_time_ms: int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: Sequence[ReassignableTopicResponse]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = None,
        responses: Sequence[ReassignableTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses


_REASSIGNABLE_PARTITION_RESPONSE: Final = Format(
    ReassignablePartitionResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
    ),
)
_REASSIGNABLE_TOPIC_RESPONSE: Final = Format(
    ReassignableTopicResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_REASSIGNABLE_PARTITION_RESPONSE, is_array=True),
    ),
)
FORMAT: Final = Format(
    AlterPartitionReassignmentsResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("allow_replication_factor_change", "bool", since=1),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("responses", entity=_REASSIGNABLE_TOPIC_RESPONSE, is_array=True),
    ),
)
