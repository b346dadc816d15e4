"""ElectLeadersRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicPartitions(Message):
    """A part of ElectLeadersRequest."""

    topic: str
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ElectLeadersRequest(Message):
    """The message."""

    election_type: int
    topic_partitions: Sequence[TopicPartitions] | None
    timeout_ms: int

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: Sequence[TopicPartitions] | None = (),
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms


_TOPIC_PARTITIONS: Final = Format(
    TopicPartitions,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("topic", "string"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
FORMAT: Final = Format(
    ElectLeadersRequest,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("election_type", "int8", since=1),
        FormatField("topic_partitions", entity=_TOPIC_PARTITIONS, is_array=True, nullable_since=0),
        FormatField("timeout_ms", "int32"),
    ),
)
