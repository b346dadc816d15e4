"""Markers for partitions that are owned here: groups' partitions take theirs through the group coordinator."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bmq.internode_server.local_markers import LocalMarkers
from bmq.log.partition_log import TopicPartition
from bmq.log.transactions import TransactionMarker
from bmq.metadata.image import OFFSETS_TOPIC_NAME
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.unit.proxy.harness import TOPIC_ID, image_of, topic_image

pytestmark = pytest.mark.unit

OFFSETS_ID = UUID(int=0x0FF5)
MARKER = TransactionMarker(7, 1, 2, is_commit=True)


class Recorder:
    """A partition's log, all partitions, or the group coordinator."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    async def write_marker(self, *arguments: Any) -> None:
        self.written.append(arguments)

    async def leader_of(self, topic_partition: TopicPartition) -> Recorder:
        if topic_partition.partition > 5:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.written.append(topic_partition)
        return self


async def test_where_a_marker_goes() -> None:
    partitions, groups = Recorder(), Recorder()
    image = image_of(topic_image("t", TOPIC_ID, 2))
    markers = LocalMarkers(partitions, groups, lambda: image)
    await markers.write(TopicPartition(TOPIC_ID, 1), MARKER)
    assert partitions.written == [TopicPartition(TOPIC_ID, 1), (MARKER,)] and not groups.written
    image = image_of(topic_image("t", TOPIC_ID, 2), topic_image(OFFSETS_TOPIC_NAME, OFFSETS_ID, 9))
    await markers.write(TopicPartition(OFFSETS_ID, 8), MARKER)
    assert groups.written == [(8, MARKER)] and len(partitions.written) == 2
    with pytest.raises(KafkaError) as refused:
        await markers.write(TopicPartition(TOPIC_ID, 6), MARKER)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
