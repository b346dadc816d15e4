"""The context of the active controller's APIs: the metadata log, the nodes' reports, ids, time and settings."""

from __future__ import annotations

import asyncio
from dataclasses import field
from random import Random
from typing import Final
from uuid import UUID

from bmq.controller.config import ControllerConfig
from bmq.controller.cut_off_nodes import CutOffNodes
from bmq.controller.decision_context import DecisionContext
from bmq.controller.decision_log import DecisionLog
from bmq.controller.partition_reports import PartitionReports
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.metadata.image import METADATA_TOPIC_ID, MetadataImage, Node, PartitionImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

_RESERVED_IDS: Final = frozenset({UUID(int=0), METADATA_TOPIC_ID})


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """One for all APIs of a controller. `node`: the controller's own."""

    decisions: DecisionLog
    reports: PartitionReports
    node: Node
    clock: Clock
    rng: Random
    config: ControllerConfig
    outages: CutOffNodes = field(default_factory=CutOffNodes)

    @property
    def image(self) -> MetadataImage:
        """The newest published image."""
        return self.decisions.image

    def decision_context(self) -> DecisionContext:
        """The inputs for decisions about nodes and owners, now."""
        decisions = self.decisions
        return DecisionContext(
            decisions.image,
            decisions.state.registrations,
            decisions.state.features,
            decisions.applied_offset,
            self.reports.floor_of,
            self._is_in_use,
            self.clock.now_ms(),
            self.outages.cut_off(decisions.image.nodes, asyncio.get_running_loop().time()),
        )

    def new_uuid(self) -> UUID:
        """Random (version 4), never the id of a topic, or of a deleted one whose files still exist."""
        image = self.image
        while True:
            new = UUID(int=self.rng.getrandbits(128), version=4)
            if new not in _RESERVED_IDS and new not in image.topics_by_id and new not in image.deleted_topics:
                return new

    def require_epoch(self, node_id: int, broker_epoch: int) -> None:
        """Raises KafkaError STALE_BROKER_EPOCH unless the node is registered under this epoch."""
        registration = self.decisions.state.registrations.get(node_id)
        if registration is None or registration.broker_epoch != broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH, f"node {node_id} is not registered under epoch {broker_epoch}"
            )

    def _is_in_use(self, topic_id: UUID, partition: PartitionImage) -> bool:
        return self.reports.is_in_use(topic_id, partition, asyncio.get_running_loop().time())
