"""Messages of Kafka 4.4 that kio's schemas (Kafka 4.3) do not have, in the form that kio's classes have.

Sources: StreamsGroupTopologyDescriptionUpdate (93), KIP-1331; UnregisterController (94), KIP-1312.
"""

from dataclasses import dataclass, field
from typing import Any

_STRING = {"kafka_type": "string"}
_INT32 = {"kafka_type": "int32"}


@dataclass
class TopologyDescriptionNode:
    """`node_type`: 1 source, 2 processor, 3 sink. `sink_topic`: None where records say it, and of other nodes."""

    name: str = field(metadata=_STRING)
    node_type: int = field(metadata={"kafka_type": "int8"})
    source_topics: tuple[str, ...] = field(metadata=_STRING)
    sink_topic: str | None = field(metadata=_STRING)
    stores: tuple[str, ...] = field(metadata=_STRING)
    successors: tuple[str, ...] = field(metadata=_STRING)


@dataclass
class TopologyDescriptionSubtopology:
    subtopology_id: str = field(metadata=_STRING)
    nodes: tuple[TopologyDescriptionNode, ...]


@dataclass
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


@dataclass
class TopologyDescription:
    subtopologies: tuple[TopologyDescriptionSubtopology, ...]
    global_stores: tuple[TopologyDescriptionGlobalStore, ...]


@dataclass
class StreamsGroupTopologyDescriptionUpdateRequest:
    group_id: str = field(metadata=_STRING)
    member_id: str = field(metadata=_STRING)
    topology_epoch: int = field(metadata=_INT32)
    topology_description: TopologyDescription


@dataclass
class StreamsGroupTopologyDescriptionUpdateResponse:
    throttle_time: Any = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: int = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata=_STRING)


@dataclass
class UnregisterControllerRequest:
    controller_id: int = field(metadata=_INT32)


@dataclass
class UnregisterControllerResponse:
    throttle_time: Any = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: int = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata=_STRING)


LATER_MESSAGES: dict[int, tuple[str, dict[str, type]]] = {
    93: (
        "streams_group_topology_description_update",
        {
            "request": StreamsGroupTopologyDescriptionUpdateRequest,
            "response": StreamsGroupTopologyDescriptionUpdateResponse,
        },
    ),
    94: (
        "unregister_controller",
        {"request": UnregisterControllerRequest, "response": UnregisterControllerResponse},
    ),
}
"""By API key: the name of the message's modules, and its newest version's classes."""
