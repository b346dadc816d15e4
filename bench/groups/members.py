"""Members of groups whose coordinator assigns partitions (KIP-848), as a client's side of the protocol. Pure.

A member takes what it is assigned at once and says so in its next heartbeat, which is due at once then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from uuid import UUID

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
REBALANCE_TIMEOUT_MS = 60_000


class MemberRefused(Exception):
    """A heartbeat was answered with an error."""

    def __init__(self, member_id: str, code: int, message: str | None) -> None:
        super().__init__(f"{member_id}: {ErrorCode(code).name} {message or ''}".rstrip())


class Member:
    """`owned`: partition indexes by topic id. `has_news`: what it owns has changed, and the coordinator does not know.

    `told_interval_s`: between heartbeats, as the last answer says.
    """

    __slots__ = ("epoch", "group_id", "has_news", "member_id", "owned", "told_interval_s", "topic")

    def __init__(self, group_id: str, member_id: str, topic: str) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.topic = topic
        self.epoch = JOIN_EPOCH
        self.owned: dict[UUID | None, frozenset[int]] = {}
        self.has_news = False
        self.told_interval_s = 0.0

    @property
    def owned_count(self) -> int:
        return sum(map(len, self.owned.values()))

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The next one: everything when it joins, what changed afterwards."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, topic_partitions=None
        )
        if self.epoch == JOIN_EPOCH:
            request.subscribed_topic_names = (self.topic,)
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        if self.epoch == JOIN_EPOCH or self.has_news:
            request.topic_partitions = tuple(
                TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
                for topic_id, partitions in self.owned.items()
            )
        return request

    def leave(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH, topic_partitions=None
        )

    def answered(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Raises MemberRefused."""
        if response.error_code != ErrorCode.NONE:
            raise MemberRefused(self.member_id, response.error_code, response.error_message)
        self.epoch = response.member_epoch
        self.told_interval_s = response.heartbeat_interval_ms / 1000
        self.has_news = False
        if response.assignment is None:
            return
        assigned = {
            topic.topic_id: frozenset(topic.partitions)
            for topic in response.assignment.topic_partitions
            if topic.partitions
        }
        self.has_news = assigned != self.owned
        self.owned = assigned


class Group:
    """All members of one group over one topic of so many partitions, at least one for each member. `heartbeats`: answered.

    It is settled once they share an epoch, each has partitions, together they have all, and nobody has news.
    """

    def __init__(self, name: str, topic: str, partitions: int, member_ids: Iterable[str]) -> None:
        self.name = name
        self.partitions = partitions
        self.members = [Member(name, member_id, topic) for member_id in member_ids]
        self.heartbeats = 0
        self._epochs = Counter({JOIN_EPOCH: len(self.members)})
        self._owned_count = 0
        self._without_count = len(self.members)
        self._news_count = 0

    @property
    def is_settled(self) -> bool:
        return (
            len(self._epochs) == 1
            and self._owned_count == self.partitions
            and not self._without_count
            and not self._news_count
        )

    def answered(self, member: Member, response: ConsumerGroupHeartbeatResponse) -> None:
        """Raises MemberRefused."""
        self.heartbeats += 1
        self._count(member, -1)
        try:
            member.answered(response)
        finally:
            self._count(member, 1)

    def _count(self, member: Member, sign: int) -> None:
        self._epochs[member.epoch] += sign
        if not self._epochs[member.epoch]:
            del self._epochs[member.epoch]
        self._owned_count += sign * member.owned_count
        self._without_count += sign * (not member.owned)
        self._news_count += sign * member.has_news
