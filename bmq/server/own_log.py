"""This node's partitions in the shared store, for answers about log directories."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bmq.broker.manager import PartitionManager
from bmq.log.partition_log import TopicPartition
from bmq.server.settings import Settings


class ManagedLog:
    """Implements bmq.proxy.services.OwnLog over a partition manager."""

    def __init__(self, settings: Settings, manager: PartitionManager) -> None:
        self._directory = settings.store or str(Path(settings.data).absolute())
        self._manager = manager

    @property
    def directory(self) -> str:
        return self._directory

    def sizes(self) -> Iterable[tuple[TopicPartition, int]]:
        for runtime in self._manager.owned():
            files = runtime.inspect().files
            if files is not None:
                yield runtime.topic_partition, files.size_bytes
        yield from ((key, 0) for key in self._manager.unwritten())
