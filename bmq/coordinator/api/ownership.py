"""Proofs of ownership before answers from memory: a former owner must not let a member go on, nor refuse it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, TypeVar

from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

T = TypeVar("T")
_GO_ON: Final = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
_REFUSALS: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)


async def answered_by_owner(shard: GroupShard, answer: Awaitable[T], *, is_joining: bool = False) -> T:
    """The answer to a heartbeat, or its error, if the shard is still ours; else KafkaError NOT_COORDINATOR.

    A success lets the member go on for another session, so it needs a recent proof of ownership (rule 34); any proof
    begun since the heartbeat came will do, such as that of its own append. A refusal makes the member drop all its
    partitions, and GROUP_ID_NOT_FOUND makes it give up; a former owner knows neither later members nor later epochs
    (rule 15), so an error needs a new proof. So does a join: it names no epoch that would expose a former owner, which
    would hand out the member's old assignment.
    """
    asked_ms = shard.elapsed_ms()
    try:
        answered = await answer
    except KafkaError:
        await shard.prove()
        raise
    if is_joining:
        await shard.prove_since(asked_ms)
    elif not shard.is_proven(asked_ms):
        await shard.prove()
    return answered


async def require_owner(shard: GroupShard, code: int, asked_ms: float) -> None:
    """Await this before telling a member that asked at `asked_ms` to go on (rule 34), or refusing it (rule 15).

    Raises KafkaError NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.
    """
    if code in _REFUSALS or (code in _GO_ON and not shard.is_proven(asked_ms)):
        await shard.prove()


async def require_owner_to_join(shard: GroupShard, code: int, asked_ms: float) -> None:
    """Await this before telling a member its generation, however recent the last proof is (rule 34).

    JoinGroup names no generation, so a former owner cannot notice that its own is old; SyncGroup would then return
    partitions that the member has revoked since. Raises KafkaError NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.
    """
    if code == ErrorCode.NONE or code in _REFUSALS:
        await shard.prove_since(asked_ms)


async def proven_error(shard: GroupShard, error: ErrorCode) -> ErrorCode:
    """The error that a committer gets: `error`, if the shard is still ours.

    A refused commit makes the member rejoin, and a former owner knows neither later members nor later epochs (rule 15).
    """
    if error is not ErrorCode.NONE:
        try:
            await shard.prove()
        except KafkaError as lost:
            return coordinator_error(lost)
    return error
