"""A member of the same group by the classic protocol, as stock consumers with an eager assignor are.

In a classic group one member leads and assigns; in a group of the newer protocol (KIP-848) the coordinator does, and nobody
leads: the member cannot tell the difference. Before it joins again it lets go of everything. Its time to join again is longer
than its session, so what ends its ownership by its own clock is the session.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence, Sized
from typing import Any
from uuid import UUID

from bmq.coordinator.consumer.consumer_protocol import decode_assignment, decode_subscription
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import (
    heartbeat_request,
    join_group_request,
    leave_group_request,
    metadata_request,
    sync_group_request,
)
from tests.simulation.clients import GROUP_KEY, Unhappy, expect, find_coordinator
from tests.simulation.connection import Disconnected
from tests.simulation.group_member import HEARTBEAT_INTERVAL_S, SESSION_S, GroupMember
from tests.simulation.history import Violation
from tests.simulation.ownership import Place

REBALANCE_TIMEOUT_S = SESSION_S + 2.0
_LOOK_RATE = 0.2  # at the topics, per heartbeat
_NO_BYTES = b"\xff\xff\xff\xff"
_UNKNOWN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class ClassicMember(GroupMember):
    IS_CLASSIC = True
    COMMIT_REFUSALS = (*_UNKNOWN, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.member_id = ""
        self._topics: dict[str, tuple[UUID, int]] = {}  # name -> id, number of partitions
        self._joined_with: Any = None  # the topics as they were when it joined

    # --- life

    async def live(self) -> None:
        """Until cancelled. Raises Violation."""
        await self.until_done(lambda: find_coordinator(self, self.GROUP, GROUP_KEY))
        while True:
            await self.until_done(self._join)
            await self.until_done(self._stay)

    async def leave(self) -> None:
        """In good order; a static member only stops."""
        self._ownership.lose(self.name)
        if self.instance_id is not None or not self.member_id:
            self.disconnect()
            return
        request = leave_group_request.LeaveGroupRequest(
            group_id=self.GROUP, members=[leave_group_request.MemberIdentity(member_id=self.member_id)]
        )
        try:
            await self.request(ApiKey.LEAVE_GROUP, 3, request)
        except Disconnected:
            return
        finally:
            self.disconnect()

    async def _stay(self) -> None:
        """Returns when it has to join again; it owns nothing then."""
        while await self._heartbeat_is_good():
            await self._fetch_positions()
            await self._commit()
            await asyncio.sleep(HEARTBEAT_INTERVAL_S * self.rng.uniform(0.5, 1.0))
            if not self.is_calm and self.rng.random() < self._habits.hang_rate:
                await asyncio.sleep(self.rng.uniform(0.5, 15.0))
                if self.rng.random() < 0.7:
                    await self._commit_after_a_pause()
            if self.rng.random() < _LOOK_RATE:
                await self._look()
                if self._joined_with != self._interest():
                    break
        self._let_all_go()

    async def _heartbeat_is_good(self) -> bool:
        if self._has_ended() or self.owned != self._target:
            return False
        request = heartbeat_request.HeartbeatRequest(
            group_id=self.GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        sent_s = self._now_s()
        code = (await self.request(ApiKey.HEARTBEAT, 3, request)).error_code
        if code in _UNKNOWN or code == ErrorCode.ILLEGAL_GENERATION:
            self._lost(code)
            return False
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        expect(code)
        self._begin_session(sent_s)
        return True

    def _begin_session(self, sent_s: float) -> None:
        self._session_ends_s = sent_s + SESSION_S
        self._ownership.extend(self.name, self._session_ends_s)

    def _let_all_go(self) -> None:
        owned = self.owned
        if self.rng.random() < self._habits.late_rate:
            self._commit_late(owned)
        self._ownership.release(self.name, owned)
        self._target = frozenset()
        self._positions.clear()

    def _is_late(self, offsets: dict[Place, int]) -> bool:
        """A coordinator of the newer protocol does not hear of what is let go of before a join: until somebody else has it,
        the member may commit at any epoch since it was given it, as with Kafka (KIP-1251).
        """
        return all(self._ownership.is_anothers(self.name, place) for place in offsets)

    def _lost(self, code: int) -> None:
        """It is no member any more, or not of this generation."""
        self._ownership.lost_count += 1
        self._ownership.lose(self.name)
        self._positions.clear()
        if code in _UNKNOWN:
            self.member_id = ""

    # --- topics

    async def _look(self) -> None:
        answer = await self.request(ApiKey.METADATA, 12, metadata_request.MetadataRequest(topics=None))
        found = {}
        for topic in answer.topics:
            expect(topic.error_code)
            found[topic.name] = topic.topic_id, len(topic.partitions)
        self._topics = found

    def _names(self) -> tuple[str, ...]:
        """What it subscribes to: it matches its pattern itself."""
        pattern = self.subscription.regex
        matched = {name for name in self._topics if pattern and re.fullmatch(pattern, name)}
        return tuple(sorted(matched.union(self.subscription.names)))

    def _interest(self) -> Any:
        """With another one it has to join again: its own topics, and everybody's, for it may lead."""
        return self._names(), dict(self._topics)

    # --- joining

    async def _join(self) -> None:
        await self._look()  # each time: it may be given a topic that was not there the last time
        interest = self._interest()
        metadata = _subscription(self._names())
        request = join_group_request.JoinGroupRequest(
            group_id=self.GROUP,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_TIMEOUT_S * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[join_group_request.JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        try:
            joined = await self.request(ApiKey.JOIN_GROUP, 5, request)
        except (Disconnected, asyncio.CancelledError):
            if self.instance_id is not None:
                self._ownership.join_unanswered(self.instance_id)
            raise
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            raise Unhappy("join with this id")
        self._expect_member(joined.error_code)
        self.member_id, self.epoch, self._joined_with = joined.member_id, joined.generation_id, interest
        assignments = self._assign(joined.members) if joined.leader == self.member_id else {}
        sent_s = self._now_s()
        synced = await self.request(ApiKey.SYNC_GROUP, 3, self._sync_request(assignments))
        self._expect_member(synced.error_code)
        # A classic group's generation that nobody has an assignment of is in no log: the next owner may not know it.
        self._ownership.told_epoch(self.name, self.epoch)
        self._target = self._places(synced.assignment)
        self._begin_session(sent_s)
        self._ownership.hold(self.name, self._target)

    def _expect_member(self, code: int) -> None:
        if code in _UNKNOWN:
            self._lost(code)
        if code in self.COMMIT_REFUSALS:
            raise Unhappy(ErrorCode(code).name)
        expect(code)

    def _sync_request(self, assignments: Mapping[str, bytes]) -> sync_group_request.SyncGroupRequest:
        return sync_group_request.SyncGroupRequest(
            group_id=self.GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                sync_group_request.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )

    def _assign(self, members: Any) -> dict[str, bytes]:
        """As the leader: each topic's partitions go round its subscribers."""
        subscriptions = {member.member_id: decode_subscription(member.metadata).topics for member in members}
        given: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in sorted(subscriptions)}
        for name, (_, count) in sorted(self._topics.items()):
            subscribers = [member_id for member_id in given if name in subscriptions[member_id]]
            for number in range(count if subscribers else 0):
                given[subscribers[number % len(subscribers)]].setdefault(name, []).append(number)
        return {member_id: _assignment(topics) for member_id, topics in given.items()}

    def _places(self, assignment: bytes) -> frozenset[Place]:
        """Raises Unhappy for topics that it has not heard of, Violation for such that it did not ask for."""
        places: set[Place] = set()
        for part in decode_assignment(assignment).assigned:
            if part.topic not in self._names():
                raise Violation(f"{self.name} was given {part.topic}, and subscribes to {self._names()}")
            if part.topic not in self._topics:
                raise Unhappy("look again")
            places.update((self._topics[part.topic][0], number) for number in part.partitions)
        return frozenset(places)


def _subscription(names: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription, version 0."""
    return b"\0\0" + _count(names) + b"".join(map(_text, names)) + _NO_BYTES


def _assignment(topics: Mapping[str, Sequence[int]]) -> bytes:
    """ConsumerProtocolAssignment, version 0."""
    parts = (_text(name) + _count(numbers) + b"".join(map(_int32, numbers)) for name, numbers in topics.items())
    return b"\0\0" + _count(topics) + b"".join(parts) + _NO_BYTES


def _text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def _int32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _count(things: Sized) -> bytes:
    return _int32(len(things))
