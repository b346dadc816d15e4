"""FetchRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ReplicaState(Message):
    """A part of FetchRequest."""

    replica_id: int
    replica_epoch: int

    def __init__(
        self,
        *,
        replica_id: int = -1,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FetchPartition(Message):
    """A part of FetchRequest."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: UUID | None
    high_watermark: int

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: UUID | None = None,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FetchTopic(Message):
    """A part of FetchRequest."""

    topic_id: UUID | None
    partitions: Sequence[FetchPartition]
    topic: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[FetchPartition] = (),
        topic: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.topic = topic


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ForgottenTopic(Message):
    """A part of FetchRequest."""

    topic_id: UUID | None
    partitions: Sequence[int]
    topic: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[int] = (),
        topic: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.topic = topic


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FetchRequest(Message):
    """The message."""

    cluster_id: str | None
    replica_state: ReplicaState
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: Sequence[FetchTopic]
    forgotten_topics_data: Sequence[ForgottenTopic]
    rack_id: str
    replica_id: int

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_state: ReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: Sequence[FetchTopic] = (),
        forgotten_topics_data: Sequence[ForgottenTopic] = (),
        rack_id: str = "",
        replica_id: int = -1,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_state = ReplicaState() if replica_state is None else replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten_topics_data = forgotten_topics_data
        self.rack_id = rack_id
        self.replica_id = replica_id


_REPLICA_STATE: Final = Format(
    ReplicaState,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("replica_id", "int32", since=15),
        FormatField("replica_epoch", "int64", since=15),
    ),
)
_FETCH_PARTITION: Final = Format(
    FetchPartition,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("partition", "int32"),
        FormatField("current_leader_epoch", "int32", since=9),
        FormatField("fetch_offset", "int64"),
        FormatField("last_fetched_epoch", "int32", since=12),
        FormatField("log_start_offset", "int64", since=5),
        FormatField("partition_max_bytes", "int32"),
        FormatField("replica_directory_id", "uuid", since=17, tag=0),
        FormatField("high_watermark", "int64", since=18, tag=1, default=9223372036854775807),
    ),
)
_FETCH_TOPIC: Final = Format(
    FetchTopic,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("topic_id", "uuid", since=13),
        FormatField("topic", "string", until=12),
        FormatField("partitions", entity=_FETCH_PARTITION, is_array=True),
    ),
)
_FORGOTTEN_TOPIC: Final = Format(
    ForgottenTopic,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("topic_id", "uuid", since=13),
        FormatField("topic", "string", since=7, until=12),
        FormatField("partitions", "int32", since=7, is_array=True),
    ),
)
FORMAT: Final = Format(
    FetchRequest,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("cluster_id", "string", since=12, nullable_since=0, tag=0),
        FormatField("replica_state", since=15, entity=_REPLICA_STATE, tag=1),
        FormatField("replica_id", "int32", until=14),
        FormatField("max_wait_ms", "int32"),
        FormatField("min_bytes", "int32"),
        FormatField("max_bytes", "int32"),
        FormatField("isolation_level", "int8"),
        FormatField("session_id", "int32", since=7),
        FormatField("session_epoch", "int32", since=7),
        FormatField("topics", entity=_FETCH_TOPIC, is_array=True),
        FormatField("forgotten_topics_data", since=7, entity=_FORGOTTEN_TOPIC, is_array=True),
        FormatField("rack_id", "string", since=11),
    ),
)
