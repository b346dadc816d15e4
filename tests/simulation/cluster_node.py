"""One incarnation of a cluster's node: the real NodeServer, with thresholds that only large clusters reach, and watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bmq.broker.partition_states import Offline
from bmq.cli.node import NodeServer
from bmq.controller.runtime import Controller
from bmq.log.partition_log import TopicPartition
from bmq.log.state_log import SnapshotPolicy
from bmq.metadata.image import MetadataImage
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
    server: SimulatedNode | None = None
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
    def has_offline_partitions(self) -> bool:
        """What an operator sees: partitions that do not serve until somebody acts."""
        manager = self.server._manager if self.is_working and self.server is not None else None
        return manager is not None and any(isinstance(one.state, Offline) for one in manager.unserved())

    @property
    def is_working(self) -> bool:
        return self.process.is_alive and not self.process.is_paused


class SimulatedNode(NodeServer):
    """`saw_image` is called with each image that the node has, `reigns` with each image that its controller acts on."""

    def __init__(
        self,
        kind: ClusterKind,
        saw_image: SawImage,
        reigns: SawImage,
        elected: Callable[[], None],
        *given: Any,
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self._kind = kind
        self._saw_image = saw_image
        self._reigns = reigns
        self._elected = elected

    def _build(self, *given: Any) -> None:
        super()._build(*given)
        assert self._groups is not None
        directory = self._groups.directory
        directory.config = replace(directory.config, snapshot_records_max=self._kind.coordinator_snapshot_records)

    def _make_controller(self, *given: Any) -> Controller:
        controller = super()._make_controller(*given)
        kind = self._kind
        controller._decisions._state_log._policy = SnapshotPolicy(records_max=kind.metadata_snapshot_records)
        stream = controller._stream
        stream._config = replace(stream._config, snapshot_age_records_max=kind.metadata_answer_age_records)
        controller._on_image = lambda _, new: self._reigns(new)
        self._elected()
        return controller

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        super()._image_changed(old, new)
        self._saw_image(new)
