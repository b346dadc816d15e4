"""Shards of this node: those that had another owner are known once their partitions are assigned here."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from bmq.internode_server.local_roles import LocalShards
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import TRANSACTIONS_TOPIC_NAME, MetadataImage
from tests.unit.proxy.harness import image_of, topic_image

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=0x7A)
ME, OTHER = 1, 2


class Assigned:
    """A partition manager; `epochs` by partition."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}

    def leader_epoch(self, topic_partition: TopicPartition) -> int | None:
        assert topic_partition.topic_id == TOPIC_ID
        return self.epochs.get(topic_partition.partition)


def test_what_was_inherited() -> None:
    image = MetadataImage()
    assigned = Assigned()
    shards = LocalShards(TRANSACTIONS_TOPIC_NAME, ME, assigned, lambda: image)  # type: ignore[arg-type]
    assert not shards.inherited() and not shards.owned()
    topic = topic_image(TRANSACTIONS_TOPIC_NAME, TOPIC_ID, 4)
    owners = ((ME, 0), (ME, 3), (OTHER, 4), (ME, 5))
    partitions = tuple(
        replace(partition, leader=leader, leader_epoch=epoch)
        for partition, (leader, epoch) in zip(topic.partitions, owners, strict=True)
    )
    image = image_of(replace(topic, partitions=partitions))
    assigned.epochs = {0: 0, 1: 3}
    assert shards.owned() == [0, 1, 3]
    assert shards.inherited() == [1], "0 is new, 2 another's, 3 not assigned yet"
    assigned.epochs[3] = 4
    assert shards.inherited() == [1], "it was assigned at another epoch"
    assigned.epochs[3] = 5
    assert shards.inherited() == [1, 3]
    partitions = (*partitions[:3], replace(partitions[3], high_watermark_floor=1))
    image = image_of(replace(topic, partitions=partitions))
    assert shards.inherited() == [3, 1], "a partition that may be empty can wait"
