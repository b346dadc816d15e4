"""Checks that the sender of a commit is a member of the group, in its present generation or epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from bmq.coordinator.classic.request_checks import check_offset_commit, check_transactional_commit
from bmq.coordinator.consumer.commits import MEMBER_EPOCHS_FROM, check_commit
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.streams.commits import check_commit as check_streams_commit
from bmq.coordinator.topics import Topic, Topics, find_topic
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.offset_commit_request import OffsetCommitRequest

_TOPIC_IDS_FROM: Final = 6
"""The first version of TxnOffsetCommit whose senders know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH."""


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


def check_committer(
    shard: GroupShard, request: Committer, api_version: int, existing: Iterator[tuple[Topic, int]], loop_ms: float
) -> ErrorCode:
    """The error for the whole commit; `existing`: those of its partitions that exist.

    A classic member's session is renewed at `loop_ms`.
    """
    generation = request.generation_id_or_member_epoch
    error = _check_modern(shard, request, api_version, existing)
    if error is not None:
        return error
    group = shard.groups.get(request.group_id)
    if group is not None:
        return check_offset_commit(group, request.member_id, request.group_instance_id, generation, loop_ms)
    if generation < 0:
        return ErrorCode.NONE  # a consumer that assigns its partitions itself, or an admin tool
    if shard.offsets.has_group(request.group_id):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.GROUP_ID_NOT_FOUND if api_version >= 9 else ErrorCode.ILLEGAL_GENERATION


def _check_modern(
    shard: GroupShard, request: Committer, api_version: int, existing: Iterator[tuple[Topic, int]]
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
    if shard.share.find(request.group_id) is not None:
        return ErrorCode.GROUP_ID_NOT_FOUND  # its records are acknowledged one by one: it has no offsets
    return None


def existing_partitions(request: OffsetCommitRequest, topics: Topics) -> Iterator[tuple[Topic, int]]:
    """The request's partitions whose topics exist; others get their own error."""
    for asked in request.topics:
        topic = find_topic(topics, asked.name, asked.topic_id)
        if topic is not None:
            for part in asked.partitions:
                yield topic, part.partition_index


def check_transactional_committer(
    shard: GroupShard, request: OffsetCommitRequest, api_version: int, topics: Topics
) -> ErrorCode:
    """The error for the whole commit. `api_version`: of TxnOffsetCommit."""
    generation = request.generation_id_or_member_epoch
    new = _check_transactional_modern(shard, request, api_version, topics)
    if new is not None:
        return new
    group = shard.groups.get(request.group_id)
    if group is not None:
        return check_transactional_commit(group, request.member_id, request.group_instance_id, generation)
    if generation < 0:
        return ErrorCode.NONE  # a producer that names no member, or whose consumer assigns partitions itself
    if shard.offsets.has_group(request.group_id):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.GROUP_ID_NOT_FOUND if api_version >= _TOPIC_IDS_FROM else ErrorCode.ILLEGAL_GENERATION


def _check_transactional_modern(
    shard: GroupShard, request: OffsetCommitRequest, api_version: int, topics: Topics
) -> ErrorCode | None:
    """Like `_check_modern`, but a producer need not name a member, and old ones do not know STALE_MEMBER_EPOCH."""
    if shard.find_new(request.group_id) == (None, None):
        return None
    if shard.share.find(request.group_id) is not None:
        return ErrorCode.GROUP_ID_NOT_FOUND if api_version >= _TOPIC_IDS_FROM else ErrorCode.ILLEGAL_GENERATION
    is_anonymous = not request.member_id and request.group_instance_id is None
    if request.generation_id_or_member_epoch < 0 and is_anonymous:
        return ErrorCode.NONE
    newest = APIS[ApiKey.OFFSET_COMMIT].version_max
    error = _check_modern(shard, request, newest, existing_partitions(request, topics))
    if error is ErrorCode.STALE_MEMBER_EPOCH and api_version < _TOPIC_IDS_FROM:
        return ErrorCode.ILLEGAL_GENERATION
    return error
