"""StreamsGroupHeartbeatRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class KeyValue(Message):
    """A part of StreamsGroupHeartbeatRequest."""

    key: str
    value: str

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicInfo(Message):
    """A part of StreamsGroupHeartbeatRequest."""

    name: str
    partitions: int
    replication_factor: int
    topic_configs: Sequence[KeyValue]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: Sequence[KeyValue] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = topic_configs


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CopartitionGroup(Message):
    """A part of StreamsGroupHeartbeatRequest."""

    source_topics: Sequence[int]
    source_topic_regex: Sequence[int]
    repartition_source_topics: Sequence[int]

    def __init__(
        self,
        *,
        source_topics: Sequence[int] = (),
        source_topic_regex: Sequence[int] = (),
        repartition_source_topics: Sequence[int] = (),
    ) -> None:
        self.source_topics = source_topics
        self.source_topic_regex = source_topic_regex
        self.repartition_source_topics = repartition_source_topics


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Subtopology(Message):
    """A part of StreamsGroupHeartbeatRequest."""

    subtopology_id: str
    source_topics: Sequence[str]
    source_topic_regex: Sequence[str]
    state_changelog_topics: Sequence[TopicInfo]
    repartition_sink_topics: Sequence[str]
    repartition_source_topics: Sequence[TopicInfo]
    copartition_groups: Sequence[CopartitionGroup]

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: Sequence[str] = (),
        source_topic_regex: Sequence[str] = (),
        state_changelog_topics: Sequence[TopicInfo] = (),
        repartition_sink_topics: Sequence[str] = (),
        repartition_source_topics: Sequence[TopicInfo] = (),
        copartition_groups: Sequence[CopartitionGroup] = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = source_topics
        self.source_topic_regex = source_topic_regex
        self.state_changelog_topics = state_changelog_topics
        self.repartition_sink_topics = repartition_sink_topics
        self.repartition_source_topics = repartition_source_topics
        self.copartition_groups = copartition_groups


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Topology(Message):
    """A part of StreamsGroupHeartbeatRequest."""

    epoch: int
    subtopologies: Sequence[Subtopology]

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: Sequence[Subtopology] = (),
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TaskIds(Message):
    """A part of StreamsGroupHeartbeatRequest."""

    subtopology_id: str
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Endpoint(Message):
    """A part of StreamsGroupHeartbeatRequest."""

    host: str
    port: int

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TaskOffset(Message):
    """A part of StreamsGroupHeartbeatRequest."""

    subtopology_id: str
    partition: int
    offset: int

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class StreamsGroupHeartbeatRequest(Message):
    """The message."""

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: Topology | None
    active_tasks: Sequence[TaskIds] | None
    standby_tasks: Sequence[TaskIds] | None
    warmup_tasks: Sequence[TaskIds] | None
    process_id: str | None
    user_endpoint: Endpoint | None
    client_tags: Sequence[KeyValue] | None
    task_offsets: Sequence[TaskOffset] | None
    task_end_offsets: Sequence[TaskOffset] | None
    shutdown_application: bool

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: Sequence[TaskIds] | None = (),
        standby_tasks: Sequence[TaskIds] | None = (),
        warmup_tasks: Sequence[TaskIds] | None = (),
        process_id: str | None = None,
        user_endpoint: Endpoint | None = None,
        client_tags: Sequence[KeyValue] | None = (),
        task_offsets: Sequence[TaskOffset] | None = (),
        task_end_offsets: Sequence[TaskOffset] | None = (),
        shutdown_application: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application


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
