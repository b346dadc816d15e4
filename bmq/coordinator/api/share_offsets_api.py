"""The coordinator's APIs for the start offsets of share groups (KIP-932): DescribeShareGroupOffsets and its like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.api.share_states_api import UNKNOWN, ShareStatesApi
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.coordinator.share_membership.heartbeat import initialized
from bmq.coordinator.share_membership.offsets import alter, with_state
from bmq.coordinator.share_membership.readable import readable_topic
from bmq.coordinator.share_membership.share_group import ShareGroup, StateTopic
from bmq.coordinator.topics import Topic
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError, as_message
from bmq.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from bmq.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from bmq.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from bmq.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from bmq.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from bmq.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from bmq.protocol.request_context import RequestContext
from bmq.protocol.share_state_messages import InitializePartition, PartitionSummary

_NO_ID = UUID(int=0)


class ShareOffsetsApi:
    """Describes, alters and deletes the start offsets of share groups."""

    def __init__(self, context: CoordinatorContext, states: ShareStatesApi) -> None:
        self._context = context
        self._states = states

    # ---------------------------------------------------------------- DescribeShareGroupOffsets

    async def describe(
        self, request: DescribeShareGroupOffsetsRequest, context: RequestContext
    ) -> DescribeShareGroupOffsetsResponse:
        """DescribeShareGroupOffsets 0-1. Each group has its own error. A group that is not there has no offsets, as in Kafka."""
        groups = []
        for asked in request.groups:
            answer = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
            try:
                answer.topics = await self._described(asked, with_lag=context.api_version > 0)
            except BmqError as error:
                answer.error_code, answer.error_message = coordinator_error(error), as_message(str(error))
            groups.append(answer)
        return DescribeShareGroupOffsetsResponse(groups=groups)

    async def _described(
        self, asked: DescribeShareGroupOffsetsRequestGroup, *, with_lag: bool
    ) -> list[DescribeShareGroupOffsetsResponseTopic]:
        """Raises KafkaError."""
        shard, _ = await self._context.with_group(asked.group_id)
        group = shard.share.find(asked.group_id)
        topics = self._context.image().topics
        if asked.topics is None:
            wanted = [
                (topic.name, sorted(topic.partitions))
                for topic_id, topic in (group.states.initialized.items() if group is not None else ())
                if topic_id in self._context.image().topics_by_id
            ]
        else:
            wanted = [(topic.topic_name, list(topic.partitions)) for topic in asked.topics]
        places = [
            (topics[name].topic_id, number)
            for name, numbers in wanted
            if name in topics
            for number in numbers
            if group is not None and _is_initialized(group, topics[name], number)
        ]
        summaries = await self._states.summaries(asked.group_id, places)
        return [
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=topics[name].topic_id if name in topics else _NO_ID,
                partitions=[
                    await self._partition(topics.get(name), number, summaries, with_lag=with_lag) for number in numbers
                ],
            )
            for name, numbers in wanted
        ]

    async def _partition(
        self,
        topic: Topic | None,
        number: int,
        summaries: Mapping[tuple[UUID, int], PartitionSummary],
        *,
        with_lag: bool,
    ) -> DescribeShareGroupOffsetsResponsePartition:
        if topic is None:
            return DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=UNKNOWN,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=_unknown_topic(),
            )
        summary = summaries.get((topic.topic_id, number))
        if summary is None or summary.error_code or summary.start_offset < 0:  # as Kafka, which hides the error
            return DescribeShareGroupOffsetsResponsePartition(partition_index=number, start_offset=UNKNOWN)
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=number,
            start_offset=summary.start_offset,
            lag=await self._states.lag(summary) if with_lag else UNKNOWN,
        )

    # ---------------------------------------------------------------- AlterShareGroupOffsets

    async def alter(
        self, request: AlterShareGroupOffsetsRequest, context: RequestContext
    ) -> AlterShareGroupOffsetsResponse:
        """AlterShareGroupOffsets 0: of a group without members, which is created if there is none."""
        try:
            if not request.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
            shard = await self._context.shard_for_heartbeat(request.group_id, is_joining=True)
            codes = await self._altered(shard, request)
        except BmqError as error:
            return AlterShareGroupOffsetsResponse(
                error_code=coordinator_error(error), error_message=as_message(str(error))
            )
        return AlterShareGroupOffsetsResponse(responses=[self._altered_topic(topic, codes) for topic in request.topics])

    async def _altered(
        self, shard: GroupShard, request: AlterShareGroupOffsetsRequest
    ) -> Mapping[tuple[str, int], ErrorCode]:
        """Codes by topic name and partition. Raises KafkaError."""
        if not request.topics:
            return {}
        topics = self._context.image()
        codes: dict[tuple[str, int], ErrorCode] = {}
        wanted: dict[tuple[UUID, int], InitializePartition] = {}
        known: dict[UUID, StateTopic] = {}
        for asked in request.topics:
            topic = readable_topic(topics, asked.topic_name)
            for one in asked.partitions:
                if topic is None or not 0 <= one.partition_index < len(topic.partitions):
                    codes[asked.topic_name, one.partition_index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                wanted[topic.topic_id, one.partition_index] = InitializePartition(
                    topic_id=topic.topic_id, partition=one.partition_index, start_offset=max(one.start_offset, 0)
                )
                before = known.get(topic.topic_id, StateTopic(topic.name, frozenset()))
                known[topic.topic_id] = StateTopic(topic.name, before.partitions | {one.partition_index})
        altered = await shard.share.decide(request.group_id, lambda draft, _: alter(draft, known))
        parts = await self._states.begin(request.group_id, altered.state_epoch, list(wanted.values()))
        done: dict[UUID, StateTopic] = {}
        for part in parts:
            name = known[part.topic_id].name
            codes[name, part.partition] = ErrorCode(part.error_code)
            if part.error_code == ErrorCode.NONE:
                before = done.get(part.topic_id, StateTopic(name, frozenset()))
                done[part.topic_id] = StateTopic(name, before.partitions | {part.partition})
        await shard.share.decide(request.group_id, lambda draft, _: initialized(draft, done))
        return codes

    def _altered_topic(
        self, asked: AlterShareGroupOffsetsRequestTopic, codes: Mapping[tuple[str, int], ErrorCode]
    ) -> AlterShareGroupOffsetsResponseTopic:
        topic = self._context.image().topics.get(asked.topic_name)
        return AlterShareGroupOffsetsResponseTopic(
            topic_name=asked.topic_name,
            topic_id=_NO_ID if topic is None else topic.topic_id,
            partitions=[
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=one.partition_index,
                    error_code=(code := codes.get((asked.topic_name, one.partition_index), ErrorCode.NONE)),
                    error_message=_message_of(code),
                )
                for one in asked.partitions
            ],
        )

    # ---------------------------------------------------------------- DeleteShareGroupOffsets

    async def delete(
        self, request: DeleteShareGroupOffsetsRequest, context: RequestContext
    ) -> DeleteShareGroupOffsetsResponse:
        """DeleteShareGroupOffsets 0: of a group without members."""
        names = [topic.topic_name for topic in request.topics]
        try:
            if not request.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
            shard, _ = await self._context.with_group(request.group_id)
            if shard.share.find(request.group_id) is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
            codes = await self._deleted(shard, request.group_id, names)
        except BmqError as error:
            return DeleteShareGroupOffsetsResponse(
                error_code=coordinator_error(error), error_message=as_message(str(error))
            )
        topics = self._context.image().topics
        return DeleteShareGroupOffsetsResponse(
            responses=[
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=topics[name].topic_id if name in topics else _NO_ID,
                    error_code=codes[name],
                    error_message=_message_of(codes[name]),
                )
                for name in names
            ]
        )

    async def _deleted(self, shard: GroupShard, group_id: str, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        """Codes by topic name. Raises KafkaError."""
        topics = self._context.image().topics
        known = {topics[name].topic_id: name for name in names if name in topics}
        there = await shard.share.decide(group_id, lambda draft, _: with_state(draft, known))
        doomed = {topic_id: name for topic_id, name in known.items() if there[topic_id]}
        codes = await self._states.delete(shard, group_id, doomed) if doomed else {}
        by_name = {known[topic_id]: code for topic_id, code in codes.items()}
        return {name: by_name.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names}


def _is_initialized(group: ShareGroup, topic: Topic, number: int) -> bool:
    state = group.states.initialized.get(topic.topic_id)
    return state is not None and number in state.partitions


def _unknown_topic() -> str:
    return "This server does not host this topic-partition."


def _message_of(code: ErrorCode) -> str | None:
    if code is ErrorCode.NONE:
        return None
    return _unknown_topic() if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else code.name
