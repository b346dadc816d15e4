"""Rules about the start offsets of share groups (KIP-932)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from bmq.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from bmq.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponseTopic,
)
from bmq.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from bmq.proxy.authorization.asked import GROUP_DENIED, SAID, TOPIC_DENIED, Answer, Asked, parted
from bmq.security.acls import Operation

_NO_ID: Final = UUID(int=0)


async def describe_offsets(asked: Asked, answer: Answer) -> Any:
    """The rule of DescribeShareGroupOffsets. A topic that may not be described is refused if named, else left out."""
    allowed, denied = parted(asked.request.groups, lambda one: asked.group(Operation.DESCRIBE, one.group_id))
    missing = []
    groups = []
    for group in allowed:
        seen, hidden = parted(group.topics or (), lambda one: asked.topic(Operation.DESCRIBE, one.topic_name))
        groups.append(group if group.topics is None else replace(group, topics=seen))
        missing.append(hidden)
    response = await answer(replace(asked.request, groups=groups))
    for group, wanted, hidden in zip(response.groups, groups, missing, strict=False):
        if wanted.topics is None:
            group.topics = [
                one for one in group.topics if asked.topic(Operation.DESCRIBE, one.topic_name, is_quiet=True)
            ]
        elif hidden and not group.error_code:
            group.topics = [*group.topics, *(_described_topic(one) for one in hidden)]
    response.groups = [
        *response.groups,
        *(
            DescribeShareGroupOffsetsResponseGroup(
                group_id=one.group_id, error_code=GROUP_DENIED, error_message=SAID[GROUP_DENIED]
            )
            for one in denied
        ),
    ]
    return response


def _described_topic(asked: Any) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=_NO_ID,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=one, start_offset=-1, error_code=TOPIC_DENIED, error_message=SAID[TOPIC_DENIED]
            )
            for one in asked.partitions
        ],
    )


async def alter_offsets(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if not asked.group(Operation.READ, request.group_id):
        return asked.refused(GROUP_DENIED)
    allowed, denied = parted(request.topics, lambda one: asked.topic(Operation.READ, one.topic_name))
    if not denied:
        return await answer(request)
    response = await answer(replace(request, topics=allowed)) if allowed else AlterShareGroupOffsetsResponse()
    refused = [
        AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            topic_id=_NO_ID,
            partitions=[
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=one.partition_index, error_code=TOPIC_DENIED, error_message=SAID[TOPIC_DENIED]
                )
                for one in topic.partitions
            ],
        )
        for topic in denied
    ]
    response.responses = [*response.responses, *refused]
    return response


async def delete_offsets(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if not asked.group(Operation.DELETE, request.group_id):
        return asked.refused(GROUP_DENIED)
    allowed, denied = parted(request.topics, lambda one: asked.topic(Operation.READ, one.topic_name))
    if not denied:
        return await answer(request)
    response = await answer(replace(request, topics=allowed))
    if response.error_code:
        return response
    refused = [
        DeleteShareGroupOffsetsResponseTopic(
            topic_name=one.topic_name, topic_id=_NO_ID, error_code=TOPIC_DENIED, error_message=SAID[TOPIC_DENIED]
        )
        for one in denied
    ]
    response.responses = [*response.responses, *refused]
    return response
