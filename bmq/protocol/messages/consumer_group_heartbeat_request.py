"""ConsumerGroupHeartbeatRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicPartitions:
    topic_id: UUID | None = None
    partitions: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: Sequence[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: Sequence[TopicPartitions] | None = ()


_TOPIC_PARTITIONS: Final = Format(
    TopicPartitions,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("topic_id", "uuid"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
FORMAT: Final = Format(
    ConsumerGroupHeartbeatRequest,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string"),
        FormatField("member_id", "string"),
        FormatField("member_epoch", "int32"),
        FormatField("instance_id", "string", nullable_since=0),
        FormatField("rack_id", "string", nullable_since=0),
        FormatField("rebalance_timeout_ms", "int32"),
        FormatField("subscribed_topic_names", "string", is_array=True, nullable_since=0),
        FormatField("subscribed_topic_regex", "string", since=1, nullable_since=0),
        FormatField("server_assignor", "string", nullable_since=0),
        FormatField("topic_partitions", entity=_TOPIC_PARTITIONS, is_array=True, nullable_since=0),
    ),
)
