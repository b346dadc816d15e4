"""What a node says of its partitions' sizes."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.broker.manager import PartitionManager
from bmq.log.partition_log import TopicPartition
from bmq.server.own_log import ManagedLog
from bmq.server.settings import Settings
from tests.unit.broker.world import CONFIG, KEY, World, produce, virtual

pytestmark = pytest.mark.unit


def test_the_sizes_are_those_of_written_partitions_and_of_new_ones() -> None:
    async def main() -> None:
        world = World()
        manager: PartitionManager = world.owner().manager
        log = ManagedLog(Settings(data="d"), manager)
        assert dict(log.sizes()) == {}, "nobody has looked whether it has files"
        new = TopicPartition(UUID(int=9), 1)
        manager.assign(new, 0, "topic", CONFIG)
        assert dict(log.sizes()) == {new: 0}
        await produce(await manager.leader_of(KEY), b"some")
        sizes = dict(log.sizes())
        assert sizes.keys() == {KEY, new} and sizes[KEY] > 0
        await manager.close()

    virtual(main)
