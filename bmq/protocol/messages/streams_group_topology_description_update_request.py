"""StreamsGroupTopologyDescriptionUpdateRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


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
class StreamsGroupTopologyDescriptionUpdateRequest:
    group_id: str = ""
    member_id: str = ""
    topology_epoch: int = 0
    topology_description: TopologyDescription = dataclasses.field(default_factory=lambda: TopologyDescription())


_TOPOLOGY_DESCRIPTION_NODE: Final = Format(
    TopologyDescriptionNode,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("node_type", "int8"),
        FormatField("source_topics", "string", is_array=True),
        FormatField("sink_topic", "string", nullable_since=0),
        FormatField("stores", "string", is_array=True),
        FormatField("successors", "string", is_array=True),
    ),
)
_TOPOLOGY_DESCRIPTION_SUBTOPOLOGY: Final = Format(
    TopologyDescriptionSubtopology,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("subtopology_id", "string"),
        FormatField("nodes", entity=_TOPOLOGY_DESCRIPTION_NODE, is_array=True),
    ),
)
_TOPOLOGY_DESCRIPTION_GLOBAL_STORE: Final = Format(
    TopologyDescriptionGlobalStore,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("source", entity=_TOPOLOGY_DESCRIPTION_NODE),
        FormatField("processor", entity=_TOPOLOGY_DESCRIPTION_NODE),
    ),
)
_TOPOLOGY_DESCRIPTION: Final = Format(
    TopologyDescription,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("subtopologies", entity=_TOPOLOGY_DESCRIPTION_SUBTOPOLOGY, is_array=True),
        FormatField("global_stores", entity=_TOPOLOGY_DESCRIPTION_GLOBAL_STORE, is_array=True),
    ),
)
FORMAT: Final = Format(
    StreamsGroupTopologyDescriptionUpdateRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string"),
        FormatField("member_id", "string"),
        FormatField("topology_epoch", "int32"),
        FormatField("topology_description", entity=_TOPOLOGY_DESCRIPTION),
    ),
)
