"""Asks the cluster why members of a group get nothing: the group, its partitions' logs, and the state of share partitions.

What is asked is what clients' tools ask, so any node can answer. Nothing is changed; idle partitions are started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from bmq.admin.group_reasons import (
    GroupFacts,
    LogFacts,
    OpenTransaction,
    Reason,
    consumer_reasons,
    share_reasons,
)
from bmq.admin.orders import UnknownSubject
from bmq.coordinator.consumer.consumer_protocol import decode_assignment
from bmq.coordinator.subscription_type import SubscriptionType, subscription_of
from bmq.dataclass import dataclass
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import NO_LEADER, MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError, MalformedMessage
from bmq.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from bmq.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.list_transactions_request import ListTransactionsRequest
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from bmq.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from bmq.protocol.request_context import by_itself
from bmq.protocol.share_state_messages import (
    ExplainedPartition,
    NamedPartition,
    ShareExplainRequest,
    ShareExplainResponse,
)
from bmq.proxy.services import Services

LOGS_AT_ONCE_MAX: Final = 50
LOG_WAIT_S: Final = 3.0
PARTITIONS_PER_CALL_MAX: Final = 1_000
_ABSENT: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID)

Place = tuple[str, int]
"""Topic and partition."""


class ExplainsStates(Protocol):
    """The shards that keep the state of share partitions, in this process or in all of the cluster."""

    async def explain(self, request: ShareExplainRequest) -> ShareExplainResponse: ...


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group as ListGroups has it. `kind`: classic, consumer, share or streams; `protocol_type`: of a classic group."""

    group_id: str
    kind: str
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    client_id: str
    host: str
    topic_names: Sequence[str]
    assigned: Sequence[Place]


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """`kind`: share, consumer or classic. `subscription`: of a share group. `committed`: of the others, by partition."""

    group_id: str
    kind: str
    state: str
    members: Sequence[GroupMember]
    places: Sequence[Place]
    subscription: SubscriptionType | None = None
    is_read_committed: bool = False
    committed: Mapping[Place, int] | None = None


@dataclass(frozen=True, slots=True)
class PartitionExplanation:
    """`reasons`: the first one counts most. `members`: that have it. `next_offset`: of the next record to be given."""

    topic: str
    partition: int
    reasons: Sequence[Reason]
    members: Sequence[str]
    next_offset: int
    log: LogFacts
    state: ExplainedPartition | None = None

    @property
    def lag(self) -> int | None:
        """Records that are not done, or not committed; None: not known."""
        state, end = self.state, self.log.high_watermark
        if end < 0:
            return None
        if state is None:
            return max(0, end - self.next_offset) if self.next_offset >= 0 else None
        if state.error_code or state.start_offset < 0:
            return None
        return max(0, end - max(state.start_offset, self.log.start_offset) - state.complete_count)


class GroupExplainer:
    """`states`: see ExplainsStates."""

    def __init__(self, services: Services, states: ExplainsStates) -> None:
        self._services = services
        self._states = states

    def now_ms(self) -> int:
        """Wall time, for the ends of locks."""
        return self._services.clock.now_ms()

    @property
    def _image(self) -> MetadataImage:
        return self._services.controller.image

    async def listed(self) -> list[GroupLine]:
        """All groups of the cluster, in no order. Raises KafkaError when a coordinator is not there."""
        answer = await self._ask(ApiKey.LIST_GROUPS, ListGroupsRequest(states_filter=[], types_filter=[]))
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            raise KafkaError(code, f"not all coordinators of groups answer: {code.name}")
        return [
            GroupLine(one.group_id, one.group_type.lower(), one.group_state, one.protocol_type) for one in answer.groups
        ]

    async def group(self, group_id: str) -> KnownGroup:
        """The group and the partitions it is about. Raises UnknownSubject, KafkaError (its coordinator is not there)."""
        share = await self._ask(ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(group_ids=[group_id]))
        if (described := _first(share.groups)) is not None:
            return await self._share_group(described)
        consumer = await self._ask(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(group_ids=[group_id]))
        if (described := _first(consumer.groups)) is not None:
            return await self._with_offsets(group_id, "consumer", described.group_state, _members(described.members))
        classic = await self._ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group_id]))
        described = _first(classic.groups)
        if described is None or described.group_state == "Dead":
            raise UnknownSubject(f"there is no share, consumer or classic group {group_id!r}")
        return await self._with_offsets(
            group_id, "classic", described.group_state, [_classic_member(one) for one in described.members]
        )

    async def explain(self, group: KnownGroup, places: Sequence[Place]) -> list[PartitionExplanation]:
        """Some of the group's partitions, in the order given. Raises KafkaError."""
        slots = asyncio.Semaphore(LOGS_AT_ONCE_MAX)

        async def facts(place: Place) -> LogFacts:
            async with slots:
                return await self._log_facts(place)

        logs = dict(zip(places, await asyncio.gather(*map(facts, places)), strict=True))
        logs = await self._with_transactions(logs)
        states = await self._share_states(group.group_id, places) if group.committed is None else {}
        assigned: dict[Place, list[str]] = {}
        for member in group.members:
            for place in member.assigned:
                assigned.setdefault(place, []).append(member.member_id)
        return [self._explained(group, place, logs[place], states.get(place), assigned) for place in places]

    def _explained(
        self,
        group: KnownGroup,
        place: Place,
        log: LogFacts,
        state: ExplainedPartition | None,
        assigned: Mapping[Place, Sequence[str]],
    ) -> PartitionExplanation:
        members, now_ms = assigned.get(place, ()), self._services.clock.now_ms()
        facts = GroupFacts(group.state, len(group.members), members)
        if group.committed is not None:
            next_offset = group.committed.get(place, -1)
            reasons = consumer_reasons(facts, log, next_offset, now_ms=now_ms)
        else:
            state = state or ExplainedPartition()
            next_offset = state.first_available
            reasons = share_reasons(
                facts,
                log,
                state,
                is_committed=group.is_read_committed,
                is_single_active=group.subscription is not None and group.subscription.is_single_active,
                now_ms=now_ms,
            )
        return PartitionExplanation(*place, reasons, members, next_offset, log, state)

    # ---------------------------------------------------------------- the group

    async def _share_group(self, described: Any) -> KnownGroup:
        group_id = described.group_id
        members = _members(described.members)
        asked = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)]
        )
        # Version 0 asks for no lag, so no log is asked here.
        offsets = await self._ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, asked, version=0)
        known = _first(offsets.groups)
        names = {name for member in members for name in member.topic_names}
        if known is not None:
            names.update(topic.topic_name for topic in known.topics)
        configs = self._image.group_configs.get(group_id, {})
        return KnownGroup(
            group_id,
            "share",
            described.group_state,
            members,
            self._places(names),
            subscription_of(configs),
            configs.get("share.isolation.level", "").strip().lower() == "read_committed",
        )

    async def _with_offsets(self, group_id: str, kind: str, state: str, members: Sequence[GroupMember]) -> KnownGroup:
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
        answer = await self._ask(ApiKey.OFFSET_FETCH, asked)
        found = _first(answer.groups)
        committed: dict[Place, int] = {}
        topics = self._image.topics_by_id
        for topic in () if found is None else found.topics:
            known = topics.get(topic.topic_id)
            if known is not None:
                committed.update(((known.name, one.partition_index), one.committed_offset) for one in topic.partitions)
        places = {place for member in members for place in member.assigned} | committed.keys()
        existing = self._places(
            {name for member in members for name in member.topic_names} | {name for name, _ in places}
        )
        wanted = {name for member in members for name in member.topic_names}
        shown = [place for place in existing if place in places or place[0] in wanted]
        return KnownGroup(group_id, kind, state, members, shown, committed=committed)

    def _places(self, names: set[str]) -> list[Place]:
        topics = self._image.topics
        return [(name, one.partition) for name in sorted(names) if name in topics for one in topics[name].partitions]

    async def _ask(self, api_key: ApiKey, request: Any, *, version: int | None = None) -> Any:
        context = by_itself(api_key)
        if version is not None:
            context = replace(context, api_version=version)
        return await self._services.groups.handle(api_key, request, context)

    # ---------------------------------------------------------------- logs

    async def _log_facts(self, place: Place) -> LogFacts:
        topic = self._image.topics.get(place[0])
        partition = None if topic is None else topic.partition(place[1])
        if topic is None or partition is None:
            return LogFacts("the partition does not exist any more")
        if partition.leader == NO_LEADER:
            return LogFacts("no node owns the partition now")
        try:
            async with asyncio.timeout(LOG_WAIT_S):
                log = await self._services.partitions.leader_of(TopicPartition(topic.topic_id, place[1]))
                await log.prove_ownership()
                found = LogFacts(None, log.log_start_offset, log.high_watermark, log.last_stable_offset)
                if found.last_stable_offset < found.high_watermark:
                    open_ones = [one for one in await log.active_producers() if one.transaction_first_offset >= 0]
                    oldest = min(open_ones, key=lambda one: one.transaction_first_offset, default=None)
                    if oldest is not None:
                        held = OpenTransaction(oldest.producer_id, oldest.transaction_first_offset)
                        return replace(found, transaction=held)
                return found
        except TimeoutError:
            return LogFacts(f"its owner, node {partition.leader}, did not answer within {LOG_WAIT_S:g} s")
        except BmqError as error:
            return LogFacts(f"its owner, node {partition.leader}, does not serve it: {error or error.code.name}")

    async def _with_transactions(self, logs: Mapping[Place, LogFacts]) -> dict[Place, LogFacts]:
        """With the transactional ids and times that the transaction coordinators know."""
        held = {facts.transaction.producer_id for facts in logs.values() if facts.transaction is not None}
        if not held:
            return dict(logs)
        known: dict[int, tuple[str, int | None]] = {}
        try:
            listing = ListTransactionsRequest(producer_id_filters=sorted(held), state_filters=[], duration_filter=-1)
            listed = await self._ask_transactions(ApiKey.LIST_TRANSACTIONS, listing)
            names = {one.producer_id: one.transactional_id for one in listed.transaction_states}
            known = {producer_id: (name, None) for producer_id, name in names.items()}
            asked = DescribeTransactionsRequest(transactional_ids=sorted(names.values()))
            described = await self._ask_transactions(ApiKey.DESCRIBE_TRANSACTIONS, asked)
            for one in described.transaction_states:
                if not one.error_code and one.transaction_start_time_ms >= 0:
                    known[one.producer_id] = one.transactional_id, one.transaction_start_time_ms
        except BmqError:
            pass  # the producer id is known all the same
        found = {}
        for place, facts in logs.items():
            transaction = facts.transaction
            if transaction is not None and transaction.producer_id in known:
                name, since_ms = known[transaction.producer_id]
                transaction = replace(transaction, transactional_id=name, since_ms=since_ms)
            found[place] = replace(facts, transaction=transaction)
        return found

    async def _ask_transactions(self, api_key: ApiKey, request: Any) -> Any:
        return await self._services.transactions.handle(api_key, request, by_itself(api_key))

    # ---------------------------------------------------------------- share partitions

    async def _share_states(self, group_id: str, places: Sequence[Place]) -> dict[Place, ExplainedPartition]:
        topics = self._image.topics
        named = [
            (place, NamedPartition(topic_id=topics[place[0]].topic_id, partition=place[1]))
            for place in places
            if place[0] in topics
        ]
        found: dict[Place, ExplainedPartition] = {}
        for start in range(0, len(named), PARTITIONS_PER_CALL_MAX):
            some = named[start : start + PARTITIONS_PER_CALL_MAX]
            request = ShareExplainRequest(group_id=group_id, partitions=[one for _, one in some])
            answer = await self._states.explain(request)
            found.update((place, part) for (place, _), part in zip(some, answer.partitions, strict=True))
        return found


def _first(groups: Sequence[Any]) -> Any:
    """None: the group is of another kind, or there is none. Raises KafkaError."""
    (group,) = groups
    code = ErrorCode(group.error_code)
    if code in _ABSENT:
        return None
    if code is not ErrorCode.NONE:
        why = getattr(group, "error_message", None) or code.name
        raise KafkaError(code, f"the coordinator of the group does not serve it: {why}")
    return group


def _members(members: Sequence[Any]) -> list[GroupMember]:
    return [
        GroupMember(
            one.member_id,
            one.client_id,
            one.client_host,
            one.subscribed_topic_names,
            [(part.topic_name, number) for part in one.assignment.topic_partitions for number in part.partitions],
        )
        for one in members
    ]


def _classic_member(member: Any) -> GroupMember:
    """A member whose protocol is not a consumer's has no partitions here."""
    try:
        assigned = decode_assignment(bytes(member.member_assignment)).assigned
    except MalformedMessage:
        assigned = ()
    places = [(part.topic, number) for part in assigned for number in part.partitions]
    return GroupMember(member.member_id, member.client_id, member.client_host, (), places)
