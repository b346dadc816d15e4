"""The coordinator's APIs about offsets: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.consumer.commits import MEMBER_EPOCHS_FROM, check_commit, check_fetch
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.metrics import GroupMetrics
from bmq.coordinator.offsets.commit_plans import CommitPlans
from bmq.coordinator.offsets.commit_run import CommitDone
from bmq.coordinator.offsets.offsets import NO_OFFSET, refused
from bmq.coordinator.runtime.directory import ShardDirectory
from bmq.coordinator.runtime.log_errors import coordinator_error, deletion_error
from bmq.coordinator.streams.commits import check_commit as check_streams_commit
from bmq.coordinator.streams.commits import check_fetch as check_streams_fetch
from bmq.coordinator.topics import OFFSETS_TOPIC, CurrentTopics, Topic, find_topic
from bmq.log.clock import Clock
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


class Committer(Protocol):
    """The sender's identity in an OffsetCommit."""

    @property
    def group_id(self) -> str: ...
    @property
    def generation_id_or_member_epoch(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...


class OffsetApi:
    """The offsets part of GroupCoordinator."""

    def __init__(
        self, directory: ShardDirectory[GroupShard], clock: Clock, image: CurrentTopics, metrics: GroupMetrics
    ) -> None:
        self.directory = directory
        self.metrics = metrics
        self._clock = clock
        self._image = image
        self._plans = CommitPlans()
        self._loop = asyncio.get_running_loop()

    # ---------------------------------------------------------------- commit

    async def offset_commit(self, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
        """OffsetCommit 2-10. Answers when the offsets are durable; each partition has its own error."""
        try:
            shard = await self.directory.get(request.group_id)
        except KafkaError as error:
            return OffsetCommitResponse(topics=refused(request.topics, coordinator_error(error)))
        error_code = self._check_committer(shard, request, context.api_version, self._existing_partitions(request))
        error_code = await told_by_owner(shard, error_code)
        decided = shard.offsets.commit(request, self._image(), error_code, self._clock.now_ms())
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
        shard = self.directory.find(asked.group_id)
        if shard is None:
            return False
        plan = self._plans.of(asked, self._image())
        if plan is None:
            return False
        if self._check_committer(shard, asked, asked.api_version, plan.topic_partitions()) is not ErrorCode.NONE:
            return False
        shard.commit_run(plan, asked.committed, done)
        return True

    def _check_committer(
        self, shard: GroupShard, request: Committer, api_version: int, existing: Iterator[tuple[Topic, int]]
    ) -> ErrorCode:
        """The error for the whole commit; `existing`: those of its partitions that exist."""
        generation = request.generation_id_or_member_epoch
        error = self._check_new(shard, request, api_version, existing)
        if error is not None:
            return error
        group = shard.groups.get(request.group_id)
        if group is not None:
            return group.check_offset_commit(
                request.member_id, request.group_instance_id, generation, self._loop.time() * 1000
            )
        if generation < 0:
            return ErrorCode.NONE  # a consumer that assigns its partitions itself, or an admin tool
        if shard.offsets.has_group(request.group_id):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.GROUP_ID_NOT_FOUND if api_version >= 9 else ErrorCode.ILLEGAL_GENERATION

    def _check_new(
        self, shard: GroupShard, request: Committer, api_version: int, existing: Iterator[tuple[Topic, int]]
    ) -> ErrorCode | None:
        """The error for the whole commit to a group of a new protocol; None: there is no such group.

        `api_version`: of OffsetCommit; a transactional commit passes the newest one.
        """
        generation = request.generation_id_or_member_epoch
        consumer = shard.consumer.find(request.group_id)
        if consumer is not None:
            ids = ((topic.topic_id, index) for topic, index in existing)
            return check_commit(consumer, request.member_id, generation, ids, api_version)
        streams = shard.streams.find(request.group_id)
        if streams is not None:
            if request.member_id in streams.members and api_version < MEMBER_EPOCHS_FROM:
                return ErrorCode.UNSUPPORTED_VERSION
            names = ((topic.name, index) for topic, index in existing)
            return check_streams_commit(streams, request.member_id, generation, names)
        return None

    def _existing_partitions(self, request: OffsetCommitRequest) -> Iterator[tuple[Topic, int]]:
        """The request's topics that exist; others get their own error."""
        topics = self._image()
        for asked in request.topics:
            topic = find_topic(topics, asked.name, asked.topic_id)
            if topic is not None:
                for part in asked.partitions:
                    yield topic, part.partition_index

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
                shard = await self._existing(group_id)
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
        self.metrics.fetches += 1
        topics = self._image()
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
            shard, is_there = await self._with_group(group_id)
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
        _, new = shard.find_new(group_id)
        records, topics = shard.offsets.delete(group_id, new or group, request.topics, self._image())
        if records:
            try:
                await asyncio.shield(shard.append(records))
            except BmqError as error:
                return OffsetDeleteResponse(error_code=deletion_error(error))
        return OffsetDeleteResponse(topics=topics)

    # ---------------------------------------------------------------- inside

    def _has_offsets_topic(self) -> bool:
        return OFFSETS_TOPIC in self._image().topics

    async def _existing(self, group_id: str) -> GroupShard:
        """The group's shard. Raises KafkaError.

        While our metadata has no offsets topic we must not answer "no such group" or "no offsets": the metadata may be
        old (rule 15). As in Kafka, the client has to find the coordinator, which creates the topic.
        """
        shard = self.directory.find(group_id)
        if shard is not None:
            return shard
        if not self._has_offsets_topic():
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "there is no offsets topic yet")
        return await self.directory.get(group_id)

    async def _with_group(self, group_id: str) -> tuple[GroupShard, bool]:
        """The group's shard, and whether the group exists; False is only returned after a proof (rule 15).

        Raises KafkaError.
        """
        shard = await self._existing(group_id)
        if shard.has_group(group_id):
            return shard, True
        await shard.prove()
        return shard, shard.has_group(group_id)


async def told_by_owner(shard: GroupShard, error: ErrorCode) -> ErrorCode:
    """The error that a committer gets: `error`, if the shard is still ours.

    A refused commit makes the member rejoin, and a former owner knows neither later members nor later epochs (rule 15).
    """
    if error is not ErrorCode.NONE:
        try:
            await shard.prove()
        except KafkaError as lost:
            return coordinator_error(lost)
    return error


def _check_fetch(shard: GroupShard, asked: OffsetFetchRequestGroup) -> ErrorCode:
    """The error for the whole group."""
    consumer = shard.consumer.find(asked.group_id)
    if consumer is not None:
        return check_fetch(consumer, asked.member_id, asked.member_epoch)
    streams = shard.streams.find(asked.group_id)
    if streams is not None:
        return check_streams_fetch(streams, asked.member_id, asked.member_epoch)
    return ErrorCode.NONE


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
