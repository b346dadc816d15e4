"""ConsumerGroupHeartbeatRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicPartitions(Message):
    """A part of ConsumerGroupHeartbeatRequest."""

    topic_id: UUID | None
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ConsumerGroupHeartbeatRequest(Message):
    """The message."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: Sequence[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: Sequence[TopicPartitions] | None

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: Sequence[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: Sequence[TopicPartitions] | None = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions


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
