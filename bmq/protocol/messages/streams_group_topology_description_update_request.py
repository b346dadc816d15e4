"""StreamsGroupTopologyDescriptionUpdateRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopologyDescriptionNode(Message):
    """A part of StreamsGroupTopologyDescriptionUpdateRequest."""

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
    """A part of StreamsGroupTopologyDescriptionUpdateRequest."""

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
    """A part of StreamsGroupTopologyDescriptionUpdateRequest."""

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
    """A part of StreamsGroupTopologyDescriptionUpdateRequest."""

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
class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    """The message."""

    group_id: str
    member_id: str
    topology_epoch: int
    topology_description: TopologyDescription

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        topology_epoch: int = 0,
        topology_description: TopologyDescription | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.topology_epoch = topology_epoch
        self.topology_description = TopologyDescription() if topology_description is None else topology_description


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
