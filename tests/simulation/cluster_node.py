"""One incarnation of a cluster's node: the real NodeServer in a simulated process, and what is watched of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bmq.broker.partition_states import Offline
from bmq.coordinator.share_state.config import ShareStateConfig
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage
from bmq.server.node import NodeServer
from bmq.server.node_dependencies import NodeHooks
from bmq.server.node_roles import NodeRoles
from tests.fakes.election import FakeElection
from tests.fakes.store import FakeClient
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.process import Process

SawImage = Callable[[MetadataImage], None]


@dataclass(slots=True)
class NodeProcess:
    """`high_watermarks`, `controller_epoch`, `metadata_offset`: as last seen in this process."""

    node_id: int
    process: Process
    client: FakeClient
    election: FakeElection
    address: tuple[str, int] | None = None
    server: NodeServer | None = None
    last_error: str = ""
    is_stopping: bool = False
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    still_owned: dict[TopicPartition, float] = field(default_factory=dict)  # though asked for by another; since when
    fenced_since_s: dict[TopicPartition, float] = field(default_factory=dict)
    controller_epoch: int = -1
    metadata_offset: int = -1

    @property
    def is_controller(self) -> bool:
        """Whether it believes to be the active one."""
        return self.process.is_alive and self.server is not None and self.server.controller is not None

    @property
    def roles(self) -> NodeRoles | None:
        """What it is made of, once it has joined."""
        return None if self.server is None else self.server.inspect()

    @property
    def has_offline_partitions(self) -> bool:
        """What an operator sees: partitions that do not serve until somebody acts."""
        roles = self.roles if self.is_working else None
        return roles is not None and any(isinstance(one.state, Offline) for one in roles.manager.unserved())

    @property
    def is_working(self) -> bool:
        return self.process.is_alive and not self.process.is_paused


def hooks_of(kind: ClusterKind, saw_image: SawImage, led: SawImage, elected: Callable[[], None]) -> NodeHooks:
    """Thresholds that only large clusters reach otherwise. `saw_image` is called with each image that the node has, `led`
    with each image that its controller acts on."""
    return NodeHooks(
        on_image=lambda _, new: saw_image(new),
        on_controller_image=lambda _, new: led(new),
        on_elected=elected,
        controller_config=lambda config: replace(
            config,
            snapshot_records_max=kind.metadata_snapshot_records,
            snapshot_age_records_max=kind.metadata_answer_age_records,
        ),
        coordinator_config=lambda config: replace(config, snapshot_records_max=kind.coordinator_snapshot_records),
        share_state=ShareStateConfig(snapshot_records_max=kind.coordinator_snapshot_records),
        transaction_config=lambda config: replace(
            config, snapshot_records_max=kind.coordinator_snapshot_records, last_epoch=kind.last_producer_epoch
        ),
        run_aside=_at_once,
    )


async def _at_once(work: Callable[[], Any]) -> Any:
    """On virtual time there are no threads."""
    return work()
