"""One of the processes that own the partition one after the other, and its way to the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from bmq.broker.manager import PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.log.partition_log import TopicPartition
from tests.fakes.namespace import File
from tests.fakes.store import FakeClient, FakeStore
from tests.simulation.process import Process

PARTITION = TopicPartition(UUID(int=7), 0)


class WatchedClient(FakeClient):
    """Tells when a file of this client has just come into being, before the client hears of it."""

    def __init__(self, store: FakeStore, name: str, on_create: Callable[[str], None]) -> None:
        super().__init__(store, name)
        self._on_create = on_create

    def _create(self, path: str, holder: str) -> File:
        file = super()._create(path, holder)
        self._on_create(path)
        return file


@dataclass(slots=True)
class Owner:
    """A process that was told to own the partition at `leader_epoch`."""

    process: Process
    leader_epoch: int
    floor: int
    damaged_reads_before: int  # of the store, when it was appointed
    client: FakeClient | None = None
    manager: PartitionManager | None = None
    log: PartitionRuntime | None = None
    high_watermark: int = 0  # as last seen
    is_stopping: bool = False

    @property
    def runtime(self) -> PartitionRuntime | None:
        """The partition's runtime from the first moment of its start on."""
        return None if self.manager is None else self.manager.runtime(PARTITION)
