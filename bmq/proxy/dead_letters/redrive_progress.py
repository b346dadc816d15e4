"""The progress of redrives: committed offsets of consumer groups without members, at the groups' coordinators."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.metadata.image import TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bmq.protocol.request_context import by_itself
from bmq.proxy.services import Groups


class CommittedProgress:
    """Implements bmq.proxy.dead_letters.redrive.Progress."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    async def read(self, group_id: str, topic: TopicImage) -> Sequence[int]:
        """Implements Progress.read."""
        await self._groups.prepare(group_id)
        numbers = list(range(len(topic.partitions)))
        asked = OffsetFetchRequestTopics(topic_id=topic.topic_id, partition_indexes=numbers)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[asked])])
        answer = await self._groups.handle(ApiKey.OFFSET_FETCH, request, by_itself(ApiKey.OFFSET_FETCH))
        (group,) = answer.groups
        _require(group.error_code, group_id)
        found = {}
        for one in (part for each in group.topics for part in each.partitions):
            _require(one.error_code, group_id)
            found[one.partition_index] = one.committed_offset
        return [found.get(number, -1) for number in numbers]

    async def write(self, group_id: str, topic: TopicImage, partition: int, offset: int) -> None:
        """Implements Progress.write."""
        part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        named = OffsetCommitRequestTopic(topic_id=topic.topic_id, partitions=[part])
        request = OffsetCommitRequest(group_id=group_id, topics=[named])
        answer = await self._groups.handle(ApiKey.OFFSET_COMMIT, request, by_itself(ApiKey.OFFSET_COMMIT))
        for one in (part for each in answer.topics for part in each.partitions):
            _require(one.error_code, group_id)


def _require(code: int, group_id: str) -> None:
    if code:
        name = ErrorCode(code).name
        raise KafkaError(ErrorCode(code), f"the progress of the redrive, in group {group_id}: {name}")
