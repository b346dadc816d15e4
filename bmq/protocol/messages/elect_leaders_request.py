"""ElectLeadersRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicPartitions:
    topic: str = ""
    partitions: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class ElectLeadersRequest:
    election_type: int = 0
    topic_partitions: Sequence[TopicPartitions] | None = ()
    timeout_ms: int = 60000


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
