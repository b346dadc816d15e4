"""StreamsGroupDescribeResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class KeyValue(Message):
    """A part of StreamsGroupDescribeResponse."""

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
    """A part of StreamsGroupDescribeResponse."""

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
class Subtopology(Message):
    """A part of StreamsGroupDescribeResponse."""

    subtopology_id: str
    source_topics: Sequence[str]
    repartition_sink_topics: Sequence[str]
    state_changelog_topics: Sequence[TopicInfo]
    repartition_source_topics: Sequence[TopicInfo]

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: Sequence[str] = (),
        repartition_sink_topics: Sequence[str] = (),
        state_changelog_topics: Sequence[TopicInfo] = (),
        repartition_source_topics: Sequence[TopicInfo] = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = source_topics
        self.repartition_sink_topics = repartition_sink_topics
        self.state_changelog_topics = state_changelog_topics
        self.repartition_source_topics = repartition_source_topics


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Topology(Message):
    """A part of StreamsGroupDescribeResponse."""

    epoch: int
    subtopologies: Sequence[Subtopology] | None

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: Sequence[Subtopology] | None = (),
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Endpoint(Message):
    """A part of StreamsGroupDescribeResponse."""

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
    """A part of StreamsGroupDescribeResponse."""

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
class TaskIds(Message):
    """A part of StreamsGroupDescribeResponse."""

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
class Assignment(Message):
    """A part of StreamsGroupDescribeResponse."""

    active_tasks: Sequence[TaskIds]
    standby_tasks: Sequence[TaskIds]
    warmup_tasks: Sequence[TaskIds]

    def __init__(
        self,
        *,
        active_tasks: Sequence[TaskIds] = (),
        standby_tasks: Sequence[TaskIds] = (),
        warmup_tasks: Sequence[TaskIds] = (),
    ) -> None:
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Member(Message):
    """A part of StreamsGroupDescribeResponse."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: Sequence[KeyValue]
    task_offsets: Sequence[TaskOffset]
    task_end_offsets: Sequence[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: bool

    def __init__(
        self,
        *,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: Sequence[KeyValue] = (),
        task_offsets: Sequence[TaskOffset] = (),
        task_end_offsets: Sequence[TaskOffset] = (),
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        is_classic: bool = False,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.assignment = Assignment() if assignment is None else assignment
        self.target_assignment = Assignment() if target_assignment is None else target_assignment
        self.is_classic = is_classic


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopologyDescriptionNode(Message):
    """A part of StreamsGroupDescribeResponse."""

    name: str
    node_type: int
    source_topics: Sequence[str]
    sink_topic: str | None
    stores: Sequence[str]
    successors: Sequence[str]

    def __init__(
        self,
        *,
        name: str = "",
        node_type: int = 0,
        source_topics: Sequence[str] = (),
        sink_topic: str | None = None,
        stores: Sequence[str] = (),
        successors: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.node_type = node_type
        self.source_topics = source_topics
        self.sink_topic = sink_topic
        self.stores = stores
        self.successors = successors


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopologyDescriptionSubtopology(Message):
    """A part of StreamsGroupDescribeResponse."""

    subtopology_id: str
    nodes: Sequence[TopologyDescriptionNode]

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        nodes: Sequence[TopologyDescriptionNode] = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.nodes = nodes


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopologyDescriptionGlobalStore(Message):
    """A part of StreamsGroupDescribeResponse."""

    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode

    def __init__(
        self,
        *,
        source: TopologyDescriptionNode | None = None,
        processor: TopologyDescriptionNode | None = None,
    ) -> None:
        self.source = TopologyDescriptionNode() if source is None else source
        self.processor = TopologyDescriptionNode() if processor is None else processor


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopologyDescription(Message):
    """A part of StreamsGroupDescribeResponse."""

    subtopologies: Sequence[TopologyDescriptionSubtopology]
    global_stores: Sequence[TopologyDescriptionGlobalStore]

    def __init__(
        self,
        *,
        subtopologies: Sequence[TopologyDescriptionSubtopology] = (),
        global_stores: Sequence[TopologyDescriptionGlobalStore] = (),
    ) -> None:
        self.subtopologies = subtopologies
        self.global_stores = global_stores


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribedGroup(Message):
    """A part of StreamsGroupDescribeResponse."""

    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    topology: Topology | None
    members: Sequence[Member]
    authorized_operations: int
    topology_description: TopologyDescription | None
    topology_description_status: int
    assignor_name: str | None

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: Topology | None = None,
        members: Sequence[Member] = (),
        authorized_operations: int = -2147483648,
        topology_description: TopologyDescription | None = None,
        topology_description_status: int = 0,
        assignor_name: str | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members = members
        self.authorized_operations = authorized_operations
        self.topology_description = topology_description
        self.topology_description_status = topology_description_status
        self.assignor_name = assignor_name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class StreamsGroupDescribeResponse(Message):
    """The message."""

    throttle_time_ms: int
    groups: Sequence[DescribedGroup]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups


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
