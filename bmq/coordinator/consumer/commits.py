"""Whether a member may commit or fetch the offsets of a consumer group. Decisions only (KIP-848, KIP-1251)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.consumer.member import ConsumerMember
from bmq.protocol.error_codes import ErrorCode

MEMBER_EPOCHS_FROM: Final = 9
"""First version of OffsetCommit whose clients understand STALE_MEMBER_EPOCH."""


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    partitions: Iterable[tuple[UUID, int]],
    api_version: int,
) -> ErrorCode:
    """The error of the whole request for these (topic id, partition) pairs.

    A member may lag behind: it may commit with an older epoch for partitions it has held since that epoch or earlier.
    """
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and api_version < MEMBER_EPOCHS_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if 0 <= epoch < member.epoch and all(_has_since(member, topic_id, index, epoch) for topic_id, index in partitions):
        return ErrorCode.NONE
    return _stale(member)


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """The error of the whole group."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _has_since(member: ConsumerMember, topic_id: UUID, partition: int, epoch: int) -> bool:
    since = member.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = member.pending.get(topic_id, {}).get(partition)
    return since is not None and since <= epoch
