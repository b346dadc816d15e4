"""Has the state of share partitions begun, described, altered and deleted, for the group coordinator (KIP-932).

State begins in two steps: a record of the group says "initializing", the state's shard begins it, another record says
"initialized". It ends in two steps as well, with "deleting" between them. A step that fails, or that a crash prevents, is
done again: an initialization with the next heartbeat, a deletion when the group's shard is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

import structlog

from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.share_membership.assignor import Target
from bmq.coordinator.share_membership.draft import ShareDraft
from bmq.coordinator.share_membership.heartbeat import ShareContext, delete_topics, deleted
from bmq.coordinator.share_membership.share_group import StateTopic, StateTopics
from bmq.coordinator.share_membership.states import EndOffsets, ShareStates
from bmq.coordinator.topics import CurrentTopics
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.share_state_messages import (
    ANY_NODE,
    ActivePartition,
    InitializePartition,
    NamedPartition,
    PartitionSummary,
    ShareActivateRequest,
    ShareDeleteRequest,
    ShareInitializeRequest,
    ShareReleaseRequest,
    ShareSummaryRequest,
    StatePart,
)

T = TypeVar("T")
P = TypeVar("P")

PARTITIONS_PER_CALL_MAX: Final = 1_000
RELEASES_AT_ONCE_MAX: Final = 16
"""Removed members whose locks are released at the same time: a whole group may expire at once."""
UNKNOWN: Final = -1

_log = structlog.get_logger("bmq.coordinator")


class ShareStatesApi:
    """Calls the shards of share partitions. `states`: None until the process is wired up: nothing is initialized then."""

    def __init__(self, image: CurrentTopics) -> None:
        self._image = image
        self._states: ShareStates | None = None
        self._ends: EndOffsets | None = None
        self._releases = asyncio.Semaphore(RELEASES_AT_ONCE_MAX)

    def use(self, states: ShareStates, ends: EndOffsets) -> None:
        """From now on."""
        self._states = states
        self._ends = ends

    def _required(self) -> ShareStates:
        if self._states is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this process reaches no share partitions")
        return self._states

    # ---------------------------------------------------------------- beginning

    async def initialize(self, shard: GroupShard, group_id: str, missing: StateTopics) -> StateTopics:
        """Begin the state of these partitions. Returns those where it succeeded."""
        group = shard.share.find(group_id)
        with shard.share.initializing(group_id, missing):
            wanted = [
                InitializePartition(topic_id=topic_id, partition=number)
                for topic_id, topic in missing.items()
                for number in sorted(topic.partitions)
            ]
            parts = await self.begin(group_id, 0 if group is None else group.epoch, wanted)
        done: dict[UUID, set[int]] = {}
        for part in parts:
            if part.error_code == ErrorCode.NONE:
                done.setdefault(part.topic_id, set()).add(part.partition)
            else:
                _log.warning(
                    "share_state_not_initialized",
                    group=group_id,
                    topic=missing[part.topic_id].name,
                    partition=part.partition,
                    error=part.error_message or ErrorCode(part.error_code).name,
                )
        return {one: StateTopic(missing[one].name, frozenset(numbers)) for one, numbers in done.items()}

    async def begin(
        self, group_id: str, state_epoch: int, wanted: Sequence[InitializePartition]
    ) -> Sequence[StatePart]:
        """Raises KafkaError if there is nobody to ask."""
        states = self._required()

        async def call(some: Sequence[InitializePartition]) -> Sequence[StatePart]:
            request = ShareInitializeRequest(group_id=group_id, state_epoch=state_epoch, partitions=some)
            return (await states.initialize(request)).partitions

        return await _in_calls(wanted, call)

    async def activate(self, group_id: str, epoch: int, wanted: Sequence[ActivePartition]) -> Sequence[StatePart]:
        """Name the members that alone may acquire. Raises KafkaError if there is nobody to ask."""
        states = self._required()

        async def call(some: Sequence[ActivePartition]) -> Sequence[StatePart]:
            return (
                await states.activate(ShareActivateRequest(group_id=group_id, epoch=epoch, partitions=some))
            ).partitions

        return await _in_calls(wanted, call)

    # ---------------------------------------------------------------- members that are gone

    def member_expired(self, shard: GroupShard, group_id: str, member_id: str, had: Target) -> None:
        """A member's session has expired, durably: release what it has locked, in the background.

        A member of the same id that joins from now on keeps what it locks, however late the release comes.
        """
        if self._states is not None:
            shard.spawn(self._release(group_id, member_id, had, shard.now().wall_ms))

    async def _release(self, group_id: str, member_id: str, had: Target, removed_ms: int) -> None:
        states = self._required()

        async def call(some: Sequence[NamedPartition]) -> Sequence[StatePart]:
            request = ShareReleaseRequest(
                group_id=group_id,
                member_id=member_id,
                node_id=ANY_NODE,
                locked_before_ms=removed_ms,
                partitions=some,
            )
            return (await states.release(request)).partitions

        async with self._releases:
            try:
                codes = {part.error_code for part in await _in_calls(_named(had), call)} - {ErrorCode.NONE}
            except BmqError as error:
                codes = {error.code}
        if codes:  # its locks end at their deadlines
            names = sorted(ErrorCode(code).name for code in codes)
            _log.info("share_locks_not_released", group=group_id, member=member_id, error=", ".join(names))

    # ---------------------------------------------------------------- describing

    async def summaries(
        self, group_id: str, partitions: Sequence[tuple[UUID, int]]
    ) -> Mapping[tuple[UUID, int], PartitionSummary]:
        """By topic id and partition. Raises KafkaError if there is nobody to ask."""
        states = self._required()

        async def call(some: Sequence[NamedPartition]) -> Sequence[PartitionSummary]:
            return (await states.summarize(ShareSummaryRequest(group_id=group_id, partitions=some))).partitions

        named = [NamedPartition(topic_id=topic_id, partition=number) for topic_id, number in partitions]
        return {(part.topic_id, part.partition): part for part in await _in_calls(named, call)}

    async def lag(self, summary: PartitionSummary) -> int:
        """Records that are not done yet; -1: not known."""
        if self._ends is None or summary.start_offset < 0:
            return UNKNOWN
        try:
            end = await self._ends.end_offset(summary.topic_id, summary.partition)
        except BmqError:
            return UNKNOWN
        return max(end - summary.start_offset - summary.complete_count, 0)

    # ---------------------------------------------------------------- deleting

    async def delete(self, shard: GroupShard, group_id: str, topics: Mapping[UUID, str]) -> Mapping[UUID, ErrorCode]:
        """Delete the state of whole topics; an error code for each that had some. Raises KafkaError."""

        def begin(draft: ShareDraft, context: ShareContext) -> Mapping[UUID, frozenset[int]]:
            return delete_topics(draft, topics)

        doomed = dict(await shard.share.decide(group_id, begin))
        for topic_id in doomed:
            existing = self._image().topics_by_id.get(topic_id)
            if existing is not None:  # a crash may have left state that the group's records no longer name
                doomed[topic_id] |= frozenset(range(len(existing.partitions)))
        codes = await self._delete_states(group_id, doomed)
        gone = [topic_id for topic_id, code in codes.items() if code is ErrorCode.NONE]
        if gone:
            await shard.share.decide(group_id, lambda draft, context: deleted(draft, gone))
        return codes

    async def _delete_states(self, group_id: str, doomed: Mapping[UUID, frozenset[int]]) -> Mapping[UUID, ErrorCode]:
        states = self._required()

        async def call(some: Sequence[NamedPartition]) -> Sequence[StatePart]:
            return (await states.delete(ShareDeleteRequest(group_id=group_id, partitions=some))).partitions

        codes = dict.fromkeys(doomed, ErrorCode.NONE)
        for part in await _in_calls(_named(doomed), call):
            if part.error_code != ErrorCode.NONE:
                codes[part.topic_id] = ErrorCode(part.error_code)
        return codes

    def topics_gone(self, shard: GroupShard, gone: Mapping[UUID, str]) -> None:
        """Topics were deleted: delete their state in the background."""
        for group in shard.share.with_state_of(gone):
            shard.spawn(self._clean(shard, group, gone))

    def resume(self, shard: GroupShard) -> None:
        """The shard was loaded: go on with deletions that a former owner began, of topics that still exist."""
        if self._states is None:
            return
        for group_id, left in shard.share.deleting():
            known = {one: name for one, name in left.items() if one in self._image().topics_by_id}
            if known:
                shard.spawn(self._clean(shard, group_id, known))

    async def _clean(self, shard: GroupShard, group_id: str, topics: Mapping[UUID, str]) -> None:
        try:
            await self.delete(shard, group_id, topics)
        except BmqError as error:
            _log.warning("share_state_not_deleted", group=group_id, error=str(error))


def _named(partitions: Mapping[UUID, Iterable[int]]) -> list[NamedPartition]:
    return [
        NamedPartition(topic_id=topic_id, partition=number)
        for topic_id, numbers in partitions.items()
        for number in sorted(numbers)
    ]


async def _in_calls(named: Sequence[T], call: Callable[[Sequence[T]], Awaitable[Sequence[P]]]) -> list[P]:
    answers: list[P] = []
    for start in range(0, len(named), PARTITIONS_PER_CALL_MAX):
        answers += await call(named[start : start + PARTITIONS_PER_CALL_MAX])
    return answers
