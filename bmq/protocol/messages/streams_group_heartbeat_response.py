"""StreamsGroupHeartbeatResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Status(Message):
    """A part of StreamsGroupHeartbeatResponse."""

    status_code: int
    status_detail: str

    def __init__(
        self,
        *,
        status_code: int = 0,
        status_detail: str = "",
    ) -> None:
        self.status_code = status_code
        self.status_detail = status_detail


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TaskIds(Message):
    """A part of StreamsGroupHeartbeatResponse."""

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
    """A part of StreamsGroupHeartbeatResponse."""

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
class TopicPartition(Message):
    """A part of StreamsGroupHeartbeatResponse."""

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
class EndpointToPartitions(Message):
    """A part of StreamsGroupHeartbeatResponse."""

    user_endpoint: Endpoint
    active_partitions: Sequence[TopicPartition]
    standby_partitions: Sequence[TopicPartition]

    def __init__(
        self,
        *,
        user_endpoint: Endpoint | None = None,
        active_partitions: Sequence[TopicPartition] = (),
        standby_partitions: Sequence[TopicPartition] = (),
    ) -> None:
        self.user_endpoint = Endpoint() if user_endpoint is None else user_endpoint
        self.active_partitions = active_partitions
        self.standby_partitions = standby_partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class StreamsGroupHeartbeatResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    status: Sequence[Status] | None
    active_tasks: Sequence[TaskIds] | None
    standby_tasks: Sequence[TaskIds] | None
    warmup_tasks: Sequence[TaskIds] | None
    topology_description_required: bool
    endpoint_information_epoch: int
    partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        task_offset_interval_ms: int = 0,
        acceptable_recovery_lag: int = 0,
        status: Sequence[Status] | None = (),
        active_tasks: Sequence[TaskIds] | None = (),
        standby_tasks: Sequence[TaskIds] | None = (),
        warmup_tasks: Sequence[TaskIds] | None = (),
        topology_description_required: bool = False,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.task_offset_interval_ms = task_offset_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.status = status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.topology_description_required = topology_description_required
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint


_STATUS: Final = Format(
    Status,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("status_code", "int8"),
        FormatField("status_detail", "string"),
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
_TOPIC_PARTITION: Final = Format(
    TopicPartition,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("topic", "string"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
_ENDPOINT_TO_PARTITIONS: Final = Format(
    EndpointToPartitions,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("user_endpoint", entity=_ENDPOINT),
        FormatField("active_partitions", entity=_TOPIC_PARTITION, is_array=True),
        FormatField("standby_partitions", entity=_TOPIC_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    StreamsGroupHeartbeatResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("member_id", "string"),
        FormatField("member_epoch", "int32"),
        FormatField("heartbeat_interval_ms", "int32"),
        FormatField("acceptable_recovery_lag", "int32", until=0),
        FormatField("task_offset_interval_ms", "int32"),
        FormatField("acceptable_recovery_lag", "int64", since=1),
        FormatField("status", entity=_STATUS, is_array=True, nullable_since=0),
        FormatField("active_tasks", entity=_TASK_IDS, is_array=True, nullable_since=0),
        FormatField("standby_tasks", entity=_TASK_IDS, is_array=True, nullable_since=0),
        FormatField("warmup_tasks", entity=_TASK_IDS, is_array=True, nullable_since=0),
        FormatField("topology_description_required", "bool", since=1),
        FormatField("endpoint_information_epoch", "int32"),
        FormatField("partitions_by_user_endpoint", entity=_ENDPOINT_TO_PARTITIONS, is_array=True, nullable_since=0),
    ),
)
