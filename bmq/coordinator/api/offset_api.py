"""The coordinator's APIs about offsets: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from bmq.coordinator.api.commit_checks import check_committer, existing_partitions
from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.api.ownership import proven_error
from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.consumer.commits import check_fetch
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.offsets.commit_plans import CommitPlans
from bmq.coordinator.offsets.commit_run import CommitDone
from bmq.coordinator.offsets.offsets import NO_OFFSET, refused
from bmq.coordinator.runtime.log_errors import coordinator_error, deletion_error
from bmq.coordinator.streams.commits import check_fetch as check_streams_fetch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.hot_commit import PlainCommit
from bmq.protocol.messages.offset_commit_request import OffsetCommitRequest
from bmq.protocol.messages.offset_commit_response import OffsetCommitResponse
from bmq.protocol.messages.offset_delete_request import OffsetDeleteRequest
from bmq.protocol.messages.offset_delete_response import OffsetDeleteResponse
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from bmq.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from bmq.protocol.request_context import RequestContext
from bmq.protocol.request_parts import Joined, parts_of

_DELETED_PARTITIONS: Final = ("topics", "partitions")


class OffsetApi:
    """OffsetCommit, OffsetFetch and OffsetDelete of every kind of group."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self.plans = CommitPlans()

    # ---------------------------------------------------------------- commit

    async def offset_commit(self, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
        """OffsetCommit 2-10. Answers when the offsets are durable; each partition has its own error."""
        try:
            shard = await self._context.directory.get(request.group_id)
        except KafkaError as error:
            return OffsetCommitResponse(topics=refused(request.topics, coordinator_error(error)))
        existing = existing_partitions(request, self._context.image())
        error_code = check_committer(shard, request, context.api_version, existing, self._context.loop.time() * 1000)
        error_code = await proven_error(shard, error_code)
        decided = shard.offsets.commit(request, self._context.image(), error_code, self._context.clock.now_ms())
        if decided.records:
            try:
                await shard.commit(request.group_id, decided.partitions, decided.records)
            except BmqError as error:
                code = coordinator_error(error)
                for topic in decided.topics:
                    for partition in topic.partitions:
                        if partition.error_code == ErrorCode.NONE:
                            partition.error_code = code
        return OffsetCommitResponse(topics=decided.topics)

    def commit_at_once(
        self, asked: PlainCommit, context: RequestContext, received_s: float, done: CommitDone, /
    ) -> bool:
        """OffsetCommit without a task, if nothing has to wait or be refused; False: nothing was done.

        `done` is called when the offsets are durable or the write failed, perhaps before this returns.
        """
        shard = self._context.directory.find(asked.group_id)
        if shard is None:
            return False
        plan = self.plans.of(asked, self._context.image())
        if plan is None:
            return False
        loop_ms = self._context.loop.time() * 1000
        error = check_committer(shard, asked, asked.api_version, plan.topic_partitions(), loop_ms)
        if error is not ErrorCode.NONE:
            return False
        shard.commit_run(plan, asked.committed, done)
        return True

    # ---------------------------------------------------------------- fetch

    async def offset_fetch(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        """OffsetFetch 1-10. Answers from memory after a proof of ownership that all waiting requests share (rule
        15)."""
        if context.api_version >= 8:
            shards = await self._proven((group.group_id for group in request.groups), request.require_stable)
            return OffsetFetchResponse(
                groups=[
                    self._fetched(group, shards[group.group_id], context.api_version, request.require_stable)
                    for group in request.groups
                ]
            )
        topics = None
        if request.topics is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ]
        shards = await self._proven((request.group_id,), request.require_stable)
        asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
        answer = self._fetched(asked, shards[request.group_id], context.api_version, request.require_stable)
        if answer.error_code != ErrorCode.NONE:
            return failed_fetch(request.topics or (), ErrorCode(answer.error_code), context.api_version)
        return OffsetFetchResponse(topics=[_as_before_v8(topic) for topic in answer.topics])

    async def _proven(self, group_ids: Iterable[str], require_stable: bool) -> dict[str, GroupShard | ErrorCode]:
        """Each group's shard, proven ours since the request came, or an error."""
        found: dict[str, GroupShard | ErrorCode] = {}
        for group_id in group_ids:
            if group_id in found:
                continue
            try:
                shard = await self._context.existing(group_id)
                found[group_id] = shard
                if require_stable:
                    await shard.settle(group_id)
            except KafkaError as error:
                found[group_id] = fetch_error(coordinator_error(error))
        shards = {shard for shard in found.values() if isinstance(shard, GroupShard)}
        failed = {}
        for shard, outcome in zip(
            shards, await asyncio.gather(*(shard.prove() for shard in shards), return_exceptions=True), strict=True
        ):
            if isinstance(outcome, KafkaError):
                failed[shard] = fetch_error(coordinator_error(outcome))
            elif outcome is not None:
                raise outcome
        return {
            group_id: failed.get(shard, shard) if isinstance(shard, GroupShard) else shard
            for group_id, shard in found.items()
        }

    def _fetched(
        self, asked: OffsetFetchRequestGroup, shard: GroupShard | ErrorCode, api_version: int, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        if isinstance(shard, ErrorCode):
            return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=shard)
        if shard.is_lost:
            # Lost while we waited for another shard's proof. Its offsets are dropped, so do not answer "no offsets".
            return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=ErrorCode.NOT_COORDINATOR)
        code = _check_fetch(shard, asked)
        if code is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code)
        self._context.metrics.fetches += 1
        topics = self._context.image()
        offsets = shard.offsets
        if asked.topics is None:
            found = offsets.fetch_all(asked.group_id, topics, by_id=api_version >= 10, require_stable=require_stable)
        else:
            found = offsets.fetch(asked.group_id, asked.topics, topics, require_stable=require_stable)
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=found)

    # ---------------------------------------------------------------- delete

    async def offset_delete(self, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
        """OffsetDelete 0."""
        group_id = request.group_id
        if not group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            shard, is_there = await self._context.with_group(group_id)
            if not is_there:
                return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        except BmqError as error:
            return OffsetDeleteResponse(error_code=coordinator_error(error))
        joined = Joined(_DELETED_PARTITIONS)
        for part in parts_of(request, _DELETED_PARTITIONS):
            if not joined.add(part, await self._delete_offsets(shard, part.request)):
                break
            await context.turns.next()
        answer: OffsetDeleteResponse = joined.response
        return answer

    async def _delete_offsets(self, shard: GroupShard, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Decide and write in one turn: nobody subscribes in between."""
        group_id = request.group_id
        if shard.is_lost:
            return OffsetDeleteResponse(error_code=ErrorCode.NOT_COORDINATOR)
        group = shard.groups.get(group_id)
        if group is not None and group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
            return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
        if shard.share.find(group_id) is not None:
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        _, new = shard.find_new(group_id)
        records, topics = shard.offsets.delete(group_id, new or group, request.topics, self._context.image())
        if records:
            try:
                await asyncio.shield(shard.append(records))
            except BmqError as error:
                return OffsetDeleteResponse(error_code=deletion_error(error))
        return OffsetDeleteResponse(topics=topics)


def _check_fetch(shard: GroupShard, asked: OffsetFetchRequestGroup) -> ErrorCode:
    """The error for the whole group."""
    consumer = shard.consumer.find(asked.group_id)
    if consumer is not None:
        return check_fetch(consumer, asked.member_id, asked.member_epoch)
    streams = shard.streams.find(asked.group_id)
    if streams is not None:
        return check_streams_fetch(streams, asked.member_id, asked.member_epoch)
    return ErrorCode.NONE if shard.share.find(asked.group_id) is None else ErrorCode.GROUP_ID_NOT_FOUND


def fetch_error(code: ErrorCode) -> ErrorCode:
    """The code that an OffsetFetch gets for a coordinator's error.

    Of these codes, consumers before 3.9 retry only NOT_COORDINATOR (Kafka's handleOffsetFetchException).
    """
    return ErrorCode.NOT_COORDINATOR if code is ErrorCode.COORDINATOR_NOT_AVAILABLE else code


def failed_fetch(topics: Iterable[OffsetFetchRequestTopic], error: ErrorCode, api_version: int) -> OffsetFetchResponse:
    """The answer to an OffsetFetch before version 8 that failed as a whole; version 1 has no error field for that."""
    if api_version >= 2:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics
        ]
    )


def _as_before_v8(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=part.partition_index,
                committed_offset=part.committed_offset,
                committed_leader_epoch=part.committed_leader_epoch,
                metadata=part.metadata,
                error_code=part.error_code,
            )
            for part in topic.partitions
        ],
    )
