"""Descriptions of topologies for people, as in `Topology#describe()`: when to ask, what to keep and show. Decisions
only.

Kafka hands descriptions to a plugin (KIP-1331). Here the shard's owner keeps them in memory, as the bytes it received,
and writes no record: the next owner asks a member again. Kafka's limits on asking apply: once in 30 seconds, then less
often, and never again for a topology whose description was refused for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum
from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, encode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages import streams_group_describe_response as shown
from bmq.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescriptionNode,
)

ASKED_FROM: Final = 1
"""First version of StreamsGroupHeartbeat whose answer can ask for a description."""
DESCRIPTION_BYTES_MAX: Final = 256 * 1024
"""Limit per group: some thousand nodes."""
DESCRIPTIONS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Limit for all groups of a shard together."""
_ASK_AGAIN_MS: Final = 30_000
_ASK_AGAIN_MS_MAX: Final = 3_600_000
_DOUBLED_MAX: Final = 7
_UPDATE: Final = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
_NO_EPOCH: Final = -1


class DescriptionStatus(IntEnum):
    """Values of StreamsGroupDescribe. ERROR means a failed plugin, which does not exist here."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


class NodeType(IntEnum):
    """The role of a topology's node."""

    SOURCE = 1
    PROCESSOR = 2
    SINK = 3


_NODE_TYPES: Final = frozenset(map(int, NodeType))


@dataclass(frozen=True, slots=True)
class KnownDescription:
    """Whether the description of one topology epoch has been received. `encoded`: the update request with it, None before.

    `is_refused`: it was too large, so no member is asked again. `asked`: number of requests; `next_ask_ms`: loop time.
    """

    topology_epoch: int = _NO_EPOCH
    encoded: bytes | None = None
    is_refused: bool = False
    asked: int = 0
    next_ask_ms: float = float("-inf")

    @property
    def size_bytes(self) -> int:
        return 0 if self.encoded is None else len(self.encoded)

    def of(self, topology_epoch: int) -> KnownDescription:
        """Return this state, or an empty one if `topology_epoch` is another topology."""
        return self if topology_epoch == self.topology_epoch else KnownDescription(topology_epoch)

    def is_wanted(self, now_ms: float) -> bool:
        """Whether to ask a member for it now."""
        return self.encoded is None and not self.is_refused and now_ms >= self.next_ask_ms

    def asked_at(self, now_ms: float) -> KnownDescription:
        """The state after asking a member."""
        wait_ms = min(_ASK_AGAIN_MS << min(self.asked, _DOUBLED_MAX), _ASK_AGAIN_MS_MAX)
        return replace(self, asked=self.asked + 1, next_ask_ms=now_ms + wait_ms)

    def brought(self, update: StreamsGroupTopologyDescriptionUpdateRequest) -> KnownDescription:
        """The state after a member's update, which may be too large. Raises KafkaError INVALID_REQUEST."""
        _check(update)
        encoded = encode("request", _UPDATE, 0, update)
        if len(encoded) > DESCRIPTION_BYTES_MAX:
            return replace(self, is_refused=True)
        return replace(self, encoded=encoded, is_refused=False)

    def described(self) -> shown.TopologyDescription | None:
        """The description for StreamsGroupDescribe; None: there is none."""
        if self.encoded is None:
            return None
        described = decode("request", _UPDATE, 0, self.encoded).topology_description
        return shown.TopologyDescription(
            subtopologies=[
                shown.TopologyDescriptionSubtopology(subtopology_id=one.subtopology_id, nodes=_nodes(one.nodes))
                for one in described.subtopologies
            ],
            global_stores=[
                shown.TopologyDescriptionGlobalStore(source=source, processor=processor)
                for source, processor in (_nodes((one.source, one.processor)) for one in described.global_stores)
            ],
        )


def _check(update: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
    described = update.topology_description
    for subtopology in described.subtopologies:
        for node in subtopology.nodes:
            if node.node_type not in _NODE_TYPES:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node {node.name} has an unknown type: {node.node_type}.")
    for store in described.global_stores:
        if (store.source.node_type, store.processor.node_type) != (NodeType.SOURCE, NodeType.PROCESSOR):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A global store must have a source and a processor.")


def _nodes(described: Iterable[TopologyDescriptionNode]) -> list[shown.TopologyDescriptionNode]:
    return [
        shown.TopologyDescriptionNode(
            name=node.name,
            node_type=node.node_type,
            source_topics=node.source_topics,
            sink_topic=node.sink_topic,
            stores=node.stores,
            successors=node.successors,
        )
        for node in described
    ]
