"""Whether a member may commit or fetch the offsets of a streams group. Decisions only (KIP-1071, KIP-1251)."""

from __future__ import annotations

from collections.abc import Iterable

from bmq.coordinator.streams.member import StreamsMember
from bmq.coordinator.streams.streams_group import StreamsGroup
from bmq.coordinator.streams.tasks import TaskId
from bmq.protocol.error_codes import ErrorCode


def check_commit(group: StreamsGroup, member_id: str, epoch: int, partitions: Iterable[tuple[str, int]]) -> ErrorCode:
    """The error of the whole request for these (topic, partition) pairs.

    A member may lag behind: it may commit with an older epoch for partitions its active tasks have read since then or
    before.
    """
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch:
        return ErrorCode.NONE
    if 0 <= epoch < member.epoch and all(_reads_since(group, member, *place, epoch) for place in partitions):
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH


def check_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """The error of the whole group."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def _reads_since(group: StreamsGroup, member: StreamsMember, topic: str, partition: int, epoch: int) -> bool:
    subtopology = group.subtopology_of(topic)
    if subtopology is None:
        return False
    task = TaskId(subtopology, partition)
    since = member.tasks.active.get(task, member.pending.active.get(task))
    return since is not None and since <= epoch
