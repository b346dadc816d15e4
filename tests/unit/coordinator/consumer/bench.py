"""A consumer group played by hand: requests in, answers out; what is written is applied at once, and kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from bmq.coordinator.classic.effects import Joining
from bmq.coordinator.classic.group import Group
from bmq.coordinator.classic.member import distinct_protocols
from bmq.coordinator.config import ConsumerConfig
from bmq.coordinator.consumer import classic_members
from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.consumer.departures import expire
from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.epochs import GroupContext
from bmq.coordinator.consumer.heartbeat import CheckedHeartbeat, check, heartbeat
from bmq.coordinator.consumer.resolution import resolve
from bmq.coordinator.modern.member_timers import Due, TimerKind
from bmq.coordinator.runtime.moment import Moment
from bmq.protocol import consumer_group_records as records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.group_records import GroupMetadataKey, GroupMetadataValue, UnknownKey, decode_key, decode_value
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.leave_group_request import MemberIdentity
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.messages.sync_group_response import SyncGroupResponse
from tests.unit.coordinator.cluster import FakeTopic, FakeTopics

GROUP_ID = "g"
REBALANCE_MS = 60_000
Told = Mapping[str, Iterable[int]] | None
"""Partitions by topic name; None for null."""


@dataclass
class Bench:
    """`topics`: name -> partition count. `log`: all records, in order. `now_ms`: moved by the test."""

    topics: dict[str, int] = field(default_factory=lambda: {"t": 2})
    config: ConsumerConfig = field(default_factory=lambda: ConsumerConfig(assignment_interval_ms=0))
    classic: Group | None = None
    classic_size_max: int = 1_000
    now_ms: int = 1_700_000_000_000

    def __post_init__(self) -> None:
        self.group: ConsumerGroup | None = None
        self.log: list[tuple[bytes, bytes | None]] = []
        self.became_classic: GroupMetadataValue | None = None
        self.draft: Draft | None = None
        self.is_stale = False
        self._ids: dict[str, UUID] = {}
        self._last_id = 0

    # ---------------------------------------------------------------- the world

    def topic_id(self, name: str) -> UUID:
        if name not in self._ids:
            self._last_id += 1
            self._ids[name] = UUID(int=self._last_id)
        return self._ids[name]

    @property
    def image(self) -> FakeTopics:
        return FakeTopics(
            {name: FakeTopic(name, self.topic_id(name), tuple(range(count))) for name, count in self.topics.items()}
        )

    @property
    def context(self) -> GroupContext:
        return GroupContext(
            self.image,
            self.config,
            self.config.terms({}),
            Moment(float(self.now_ms), self.now_ms),
            self.is_stale,
            self.classic_size_max,
        )

    def decide(self, decide: Any) -> Any:
        """`decide(draft)`; what it wrote is durable when it returns. Raises KafkaError."""
        self.draft = draft = Draft(GROUP_ID, self.group, None if self.group else self.classic, 1_000_000)
        answer = decide(draft)
        for key, value in draft.records:
            self.replay(key, value)
        if draft.is_refreshed:
            self.is_stale = False
        return answer

    def replay(self, key: bytes, value: bytes | None) -> None:
        self.log.append((key, value))
        named = decode_key(key)
        if isinstance(named, GroupMetadataKey):
            told = decode_value(named, value)
            assert told is None or isinstance(told, GroupMetadataValue)
            self.became_classic = told
            self.classic = None
            return
        assert isinstance(named, UnknownKey)
        consumer_key = records.decode_key(key)
        consumer_value = records.decode_value(consumer_key, value)
        if self.group is None and consumer_value is not None:
            self.group = ConsumerGroup(GROUP_ID)
        if self.group is not None:
            self.group.apply(consumer_key, consumer_value)
            if not self.group.exists and consumer_value is None and isinstance(consumer_key, records.EpochKey):
                self.group = None

    # ---------------------------------------------------------------- the new protocol

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Told = None,
        *,
        topics: Iterable[str] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        timeout_ms: int = -1,
        version: int = 1,
        client_host: str = "/h",
    ) -> ConsumerGroupHeartbeatResponse:
        """Raises KafkaError."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP_ID,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=timeout_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=self.topic_id(name), partitions=list(partitions))
                for name, partitions in owned.items()
            ],
        )
        check(request, version, self.config)
        checked = CheckedHeartbeat(request, member_id or "made-up", "client", client_host)
        answer: ConsumerGroupHeartbeatResponse = self.decide(lambda draft: heartbeat(draft, checked, self.context))
        return answer

    def join(self, member_id: str, topics: Iterable[str] | None = ("t",), **fields: Any) -> Any:
        """A first heartbeat, with all it must have."""
        if topics is not None or "regex" not in fields:
            fields["topics"] = topics
        return self.beat(member_id, 0, {}, timeout_ms=REBALANCE_MS, **fields)

    def told(self, answer: ConsumerGroupHeartbeatResponse) -> tuple[int, dict[str, list[int]] | None]:
        """(epoch, partitions by topic name, or None)."""
        if answer.assignment is None:
            return answer.member_epoch, None
        names = {topic_id: name for name, topic_id in self._ids.items()}
        return answer.member_epoch, {
            names[part.topic_id]: list(part.partitions)
            for part in answer.assignment.topic_partitions
            if part.topic_id is not None
        }

    def expire(self, member_id: str, kind: TimerKind = TimerKind.SESSION, epoch: int = -1) -> bool:
        put_out: bool = self.decide(lambda draft: expire(draft, Due(kind, member_id, epoch), self.context))
        return put_out

    def resolve(self, **matches: Iterable[str]) -> None:
        found = {regex: frozenset(topics) for regex, topics in matches.items()}
        self.decide(lambda draft: resolve(draft, found, 7, self.context))

    # ---------------------------------------------------------------- the classic protocol

    def classic_join(
        self,
        member_id: str = "",
        subscription: bytes = b"",
        *,
        instance: str | None = None,
        version: int = 9,
        names: Iterable[str] = ("range",),
        protocol_type: str = "consumer",
        new_id: str = "made-up",
    ) -> JoinGroupResponse | None:
        request = JoinGroupRequest(
            group_id=GROUP_ID,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription) for name in names],
        )
        joining = Joining(request, distinct_protocols(request.protocols), None, version, "client", "/h", new_id)
        answer: JoinGroupResponse | None = self.decide(lambda d: classic_members.join(d, joining, self.context))
        return answer

    def classic_sync(self, member_id: str, generation: int, **fields: Any) -> SyncGroupResponse:
        request = SyncGroupRequest(group_id=GROUP_ID, member_id=member_id, generation_id=generation, **fields)
        answer: SyncGroupResponse = self.decide(lambda draft: classic_members.sync(draft, request, self.context))
        return answer

    def classic_beat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP_ID, member_id=member_id, generation_id=generation, group_instance_id=instance
        )
        code: ErrorCode = self.decide(lambda draft: classic_members.heartbeat(draft, request))
        return code

    def classic_leave(self, *identities: tuple[str, str | None]) -> list[int]:
        leaving = [
            MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in identities
        ]
        answers = self.decide(lambda draft: classic_members.leave(draft, leaving, self.context))
        return [answer.error_code for answer in answers]

    def timer_orders(self, kind: TimerKind) -> list[tuple[str, int | None]]:
        """Of the last decision."""
        assert self.draft is not None
        return [(order.member_id, order.timeout_ms) for order in self.draft.timers if order.kind is kind]


def code_of(call: Any) -> ErrorCode:
    """What a call is refused with."""
    try:
        call()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def replayed(log: Iterable[tuple[bytes, bytes | None]], group_id: str = GROUP_ID) -> ConsumerGroup:
    """The group that a server makes of these records."""
    group = ConsumerGroup(group_id)
    for key, value in log:
        if isinstance(decode_key(key), UnknownKey):
            consumer_key = records.decode_key(key)
            group.apply(consumer_key, records.decode_value(consumer_key, value))
    group.drop_leftovers()
    return group


def picture(group: ConsumerGroup | None) -> Any:
    """All that is to be seen of a group, and what it counts."""
    if group is None or not group.exists:
        return None
    return {
        name: value
        for name, value in vars(group.fork()).items()  # which does not change with the group
        if name not in ("group_id", "_loose")
    }
