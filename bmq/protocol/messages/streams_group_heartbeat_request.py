"""StreamsGroupHeartbeatRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class KeyValue:
    key: str = ""
    value: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicInfo:
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: Sequence[KeyValue] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class CopartitionGroup:
    source_topics: Sequence[int] = ()
    source_topic_regex: Sequence[int] = ()
    repartition_source_topics: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Subtopology:
    subtopology_id: str = ""
    source_topics: Sequence[str] = ()
    source_topic_regex: Sequence[str] = ()
    state_changelog_topics: Sequence[TopicInfo] = ()
    repartition_sink_topics: Sequence[str] = ()
    repartition_source_topics: Sequence[TopicInfo] = ()
    copartition_groups: Sequence[CopartitionGroup] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Topology:
    epoch: int = 0
    subtopologies: Sequence[Subtopology] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class TaskIds:
    subtopology_id: str = ""
    partitions: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Endpoint:
    host: str = ""
    port: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class TaskOffset:
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class StreamsGroupHeartbeatRequest:
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: Sequence[TaskIds] | None = ()
    standby_tasks: Sequence[TaskIds] | None = ()
    warmup_tasks: Sequence[TaskIds] | None = ()
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: Sequence[KeyValue] | None = ()
    task_offsets: Sequence[TaskOffset] | None = ()
    task_end_offsets: Sequence[TaskOffset] | None = ()
    shutdown_application: bool = False


_KEY_VALUE: Final = Format(
    KeyValue,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("key", "string"),
        FormatField("value", "string"),
    ),
)
_TOPIC_INFO: Final = Format(
    TopicInfo,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", "int32"),
        FormatField("replication_factor", "int16"),
        FormatField("topic_configs", entity=_KEY_VALUE, is_array=True),
    ),
)
_COPARTITION_GROUP: Final = Format(
    CopartitionGroup,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("source_topics", "int16", is_array=True),
        FormatField("source_topic_regex", "int16", is_array=True),
        FormatField("repartition_source_topics", "int16", is_array=True),
    ),
)
_SUBTOPOLOGY: Final = Format(
    Subtopology,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("subtopology_id", "string"),
        FormatField("source_topics", "string", is_array=True),
        FormatField("source_topic_regex", "string", is_array=True),
        FormatField("state_changelog_topics", entity=_TOPIC_INFO, is_array=True),
        FormatField("repartition_sink_topics", "string", is_array=True),
        FormatField("repartition_source_topics", entity=_TOPIC_INFO, is_array=True),
        FormatField("copartition_groups", entity=_COPARTITION_GROUP, is_array=True),
    ),
)
_TOPOLOGY: Final = Format(
    Topology,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("epoch", "int32"),
        FormatField("subtopologies", entity=_SUBTOPOLOGY, is_array=True),
    ),
)
_TASK_IDS: Final = Format(
    TaskIds,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("subtopology_id", "string"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
_ENDPOINT: Final = Format(
    Endpoint,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("host", "string"),
        FormatField("port", "uint16"),
    ),
)
_TASK_OFFSET: Final = Format(
    TaskOffset,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("subtopology_id", "string"),
        FormatField("partition", "int32"),
        FormatField("offset", "int64"),
    ),
)
FORMAT: Final = Format(
    StreamsGroupHeartbeatRequest,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string"),
        FormatField("member_id", "string"),
        FormatField("member_epoch", "int32"),
        FormatField("endpoint_information_epoch", "int32"),
        FormatField("instance_id", "string", nullable_since=0),
        FormatField("rack_id", "string", nullable_since=0),
        FormatField("rebalance_timeout_ms", "int32"),
        FormatField("topology", entity=_TOPOLOGY, nullable_since=0),
        FormatField("active_tasks", entity=_TASK_IDS, is_array=True, nullable_since=0),
        FormatField("standby_tasks", entity=_TASK_IDS, is_array=True, nullable_since=0),
        FormatField("warmup_tasks", entity=_TASK_IDS, is_array=True, nullable_since=0),
        FormatField("process_id", "string", nullable_since=0),
        FormatField("user_endpoint", entity=_ENDPOINT, nullable_since=0),
        FormatField("client_tags", entity=_KEY_VALUE, is_array=True, nullable_since=0),
        FormatField("task_offsets", entity=_TASK_OFFSET, is_array=True, nullable_since=0),
        FormatField("task_end_offsets", entity=_TASK_OFFSET, is_array=True, nullable_since=0),
        FormatField("shutdown_application", "bool"),
    ),
)
