"""StreamsGroupDescribeResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

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
class Subtopology:
    subtopology_id: str = ""
    source_topics: Sequence[str] = ()
    repartition_sink_topics: Sequence[str] = ()
    state_changelog_topics: Sequence[TopicInfo] = ()
    repartition_source_topics: Sequence[TopicInfo] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Topology:
    epoch: int = 0
    subtopologies: Sequence[Subtopology] | None = ()


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
class TaskIds:
    subtopology_id: str = ""
    partitions: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Assignment:
    active_tasks: Sequence[TaskIds] = ()
    standby_tasks: Sequence[TaskIds] = ()
    warmup_tasks: Sequence[TaskIds] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Member:
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Sequence[KeyValue] = ()
    task_offsets: Sequence[TaskOffset] = ()
    task_end_offsets: Sequence[TaskOffset] = ()
    assignment: Assignment = dataclasses.field(default_factory=lambda: Assignment())
    target_assignment: Assignment = dataclasses.field(default_factory=lambda: Assignment())
    is_classic: bool = False


@dataclasses.dataclass(slots=True, kw_only=True)
class TopologyDescriptionNode:
    name: str = ""
    node_type: int = 0
    source_topics: Sequence[str] = ()
    sink_topic: str | None = None
    stores: Sequence[str] = ()
    successors: Sequence[str] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class TopologyDescriptionSubtopology:
    subtopology_id: str = ""
    nodes: Sequence[TopologyDescriptionNode] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode = dataclasses.field(default_factory=lambda: TopologyDescriptionNode())
    processor: TopologyDescriptionNode = dataclasses.field(default_factory=lambda: TopologyDescriptionNode())


@dataclasses.dataclass(slots=True, kw_only=True)
class TopologyDescription:
    subtopologies: Sequence[TopologyDescriptionSubtopology] = ()
    global_stores: Sequence[TopologyDescriptionGlobalStore] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: Topology | None = None
    members: Sequence[Member] = ()
    authorized_operations: int = -2147483648
    topology_description: TopologyDescription | None = None
    topology_description_status: int = 0
    assignor_name: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class StreamsGroupDescribeResponse:
    throttle_time_ms: int = 0
    groups: Sequence[DescribedGroup] = ()


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
_SUBTOPOLOGY: Final = Format(
    Subtopology,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("subtopology_id", "string"),
        FormatField("source_topics", "string", is_array=True),
        FormatField("repartition_sink_topics", "string", is_array=True),
        FormatField("state_changelog_topics", entity=_TOPIC_INFO, is_array=True),
        FormatField("repartition_source_topics", entity=_TOPIC_INFO, is_array=True),
    ),
)
_TOPOLOGY: Final = Format(
    Topology,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("epoch", "int32"),
        FormatField("subtopologies", entity=_SUBTOPOLOGY, is_array=True, nullable_since=0),
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
_ASSIGNMENT: Final = Format(
    Assignment,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("active_tasks", entity=_TASK_IDS, is_array=True),
        FormatField("standby_tasks", entity=_TASK_IDS, is_array=True),
        FormatField("warmup_tasks", entity=_TASK_IDS, is_array=True),
    ),
)
_MEMBER: Final = Format(
    Member,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("member_id", "string"),
        FormatField("member_epoch", "int32"),
        FormatField("instance_id", "string", nullable_since=0),
        FormatField("rack_id", "string", nullable_since=0),
        FormatField("client_id", "string"),
        FormatField("client_host", "string"),
        FormatField("topology_epoch", "int32"),
        FormatField("process_id", "string"),
        FormatField("user_endpoint", entity=_ENDPOINT, nullable_since=0),
        FormatField("client_tags", entity=_KEY_VALUE, is_array=True),
        FormatField("task_offsets", entity=_TASK_OFFSET, is_array=True),
        FormatField("task_end_offsets", entity=_TASK_OFFSET, is_array=True),
        FormatField("assignment", entity=_ASSIGNMENT),
        FormatField("target_assignment", entity=_ASSIGNMENT),
        FormatField("is_classic", "bool"),
    ),
)
_TOPOLOGY_DESCRIPTION_NODE: Final = Format(
    TopologyDescriptionNode,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("name", "string", since=1),
        FormatField("node_type", "int8", since=1),
        FormatField("source_topics", "string", since=1, is_array=True),
        FormatField("sink_topic", "string", since=1, nullable_since=0),
        FormatField("stores", "string", since=1, is_array=True),
        FormatField("successors", "string", since=1, is_array=True),
    ),
)
_TOPOLOGY_DESCRIPTION_SUBTOPOLOGY: Final = Format(
    TopologyDescriptionSubtopology,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("subtopology_id", "string", since=1),
        FormatField("nodes", since=1, entity=_TOPOLOGY_DESCRIPTION_NODE, is_array=True),
    ),
)
_TOPOLOGY_DESCRIPTION_GLOBAL_STORE: Final = Format(
    TopologyDescriptionGlobalStore,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("source", since=1, entity=_TOPOLOGY_DESCRIPTION_NODE),
        FormatField("processor", since=1, entity=_TOPOLOGY_DESCRIPTION_NODE),
    ),
)
_TOPOLOGY_DESCRIPTION: Final = Format(
    TopologyDescription,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("subtopologies", since=1, entity=_TOPOLOGY_DESCRIPTION_SUBTOPOLOGY, is_array=True),
        FormatField("global_stores", since=1, entity=_TOPOLOGY_DESCRIPTION_GLOBAL_STORE, is_array=True),
    ),
)
_DESCRIBED_GROUP: Final = Format(
    DescribedGroup,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("group_id", "string"),
        FormatField("group_state", "string"),
        FormatField("group_epoch", "int32"),
        FormatField("assignment_epoch", "int32"),
        FormatField("topology", entity=_TOPOLOGY, nullable_since=0),
        FormatField("members", entity=_MEMBER, is_array=True),
        FormatField("authorized_operations", "int32"),
        FormatField("topology_description", since=1, entity=_TOPOLOGY_DESCRIPTION, nullable_since=0),
        FormatField("topology_description_status", "int8", since=1),
        FormatField("assignor_name", "string", since=1, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    StreamsGroupDescribeResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("groups", entity=_DESCRIBED_GROUP, is_array=True),
    ),
)
