"""A member of a consumer group that lives by heartbeats alone (KIP-848), as Java's consumer and librdkafka do.

It says all of itself when it joins, and whenever an answer was lost or it was told to look for the coordinator; else only what
changed. What is taken from it, it commits and lets go of before it says so, and only then takes what is new.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any
from uuid import UUID

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import RETRIABLE, ErrorCode
from bmq.protocol.messages import consumer_group_heartbeat_request as heartbeat
from bmq.protocol.messages import offset_commit_request, offset_fetch_request
from tests.simulation.clients import GROUP_KEY, Address, Client, Unhappy, expect, find_coordinator
from tests.simulation.connection import Connection, Disconnected
from tests.simulation.history import Violation
from tests.simulation.late_requests import LATE_S
from tests.simulation.ownership import Ownership, Place

GROUP = "owners"
SESSION_S = 6.0
REBALANCE_TIMEOUT_S = 4.0
HEARTBEAT_INTERVAL_S = 0.4
_LEAVING, _LEAVING_FOR_A_WHILE = -1, -2
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


def session_settings(session_s: float = SESSION_S) -> dict[str, str]:
    """What nodes are told for members to be put out as soon as these believe."""
    session_ms, interval_ms = str(int(session_s * 1000)), str(int(HEARTBEAT_INTERVAL_S * 1000))
    return {
        "group.consumer.min.session.timeout.ms": session_ms,
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.min.heartbeat.interval.ms": interval_ms,
        "group.consumer.heartbeat.interval.ms": interval_ms,
    }


@dataclass(frozen=True, slots=True)
class Subscription:
    names: tuple[str, ...] = ()
    regex: str = ""


@dataclass(slots=True)
class MemberHabits:
    """Chances per round of the member's loop, seconds on average."""

    hang_rate: float
    late_rate: float
    slow_rate: float  # of revocations that take longer than they may
    life_s: float

    @classmethod
    def of(cls, dice: random.Random) -> MemberHabits:
        return cls(
            hang_rate=dice.choice((0.0, 0.03, 0.1)),
            late_rate=dice.choice((0.0, 0.3, 0.6)),
            slow_rate=dice.choice((0.0, 0.1)),
            life_s=dice.choice((4.0, 10.0, 30.0)),
        )


class GroupMember(Client):
    """One life, and one owner by its name. `fail` hears of what is found out behind its back."""

    GROUP = GROUP
    session_s = SESSION_S
    rebalance_timeout_s = REBALANCE_TIMEOUT_S
    IS_CLASSIC = False
    COMMIT_REFUSALS: tuple[ErrorCode, ...] = (*_LOST, ErrorCode.STALE_MEMBER_EPOCH)

    def __init__(
        self,
        name: str,
        address: Address,
        rng: random.Random,
        ownership: Ownership,
        subscription: Subscription,
        instance_id: str | None,
        habits: MemberHabits,
        fail: Callable[[Violation], None],
    ) -> None:
        super().__init__(name, address, rng)
        self.member_id = str(UUID(int=rng.getrandbits(128)))
        self.subscription = subscription
        self.instance_id = instance_id
        self.epoch = 0
        self.is_calm = False
        self._ownership = ownership
        self._habits = habits
        self._fail = fail
        self._where = address
        self._target: frozenset[Place] = frozenset()
        self._reported: frozenset[Place] | None = None
        self._positions: dict[Place, int] = {}
        self._is_full = True
        self._joins_tried = 0
        self._unanswered_s: float | None = None  # the first heartbeat that was not answered
        self._sent_s = 0.0
        self._session_ends_s = 0.0
        self._release_from_s = 0.0  # when it will have let go of what is taken from it
        self._release_by_s = inf  # when the coordinator has to have heard of that
        self._late: set[asyncio.Task[None]] = set()

    # --- life

    async def live(self) -> None:
        """Until cancelled. Raises Violation."""
        await self.until_done(lambda: find_coordinator(self, self.GROUP, GROUP_KEY))
        while True:
            await self.until_done(self._round)
            await asyncio.sleep(HEARTBEAT_INTERVAL_S * self.rng.uniform(0.5, 1.0))
            if not self.is_calm and self.rng.random() < self._habits.hang_rate:
                await asyncio.sleep(self.rng.uniform(0.5, 15.0))
                if self.rng.random() < 0.7:
                    await self._commit_after_a_pause()

    async def leave(self) -> None:
        """In good order; a static member means to come back."""
        self._ownership.lose(self.name)
        epoch = _LEAVING if self.instance_id is None or self.rng.random() < 0.3 else _LEAVING_FOR_A_WHILE
        request = heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=self.GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            topic_partitions=None,
        )
        try:
            await self.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        except Disconnected:
            return
        finally:
            self.disconnect()

    def vanish(self) -> None:
        """Its process is gone: it owns nothing any more, and the coordinator hears nothing of that."""
        self._ownership.lose(self.name)
        self.disconnect()

    @property
    def owned(self) -> frozenset[Place]:
        return self._ownership.places_of(self.name)

    async def _round(self) -> None:
        await self._heartbeat()
        self._let_go()
        if self._positions or self.owned:
            await self._fetch_positions()
            await self._commit()

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    # --- heartbeats

    async def _heartbeat(self) -> None:
        if self._has_ended():
            self._positions.clear()
            self._is_full = True
        is_joining, is_full = self.epoch == 0, self._is_full
        owned = frozenset() if is_joining else self.owned
        is_reporting = is_full or owned != self._reported
        least_epoch = self._ownership.newest_epoch() if is_joining and self._joins_tried == 0 else 0
        self._joins_tried += is_joining
        request = heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=self.GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=int(self.rebalance_timeout_s * 1000) if is_full else -1,
            subscribed_topic_names=self.subscription.names if is_full else None,
            subscribed_topic_regex=self.subscription.regex if is_full else None,
            topic_partitions=_topics(owned) if is_reporting else None,
        )
        self._sent_s = self._now_s()
        if self._unanswered_s is None:
            self._unanswered_s = self._sent_s
        if not is_joining:
            self._ownership.extend(self.name, self._ends_s())
        self._is_full = True  # unless the answer says that the coordinator knows it all
        answer = await self.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        if answer.error_code:
            self._judge(answer.error_code)
        if answer.member_epoch <= 0 or answer.heartbeat_interval_ms <= 0:
            raise Violation(f"{self.member_id} was told epoch {answer.member_epoch}")
        if is_full and answer.assignment is None:
            raise Violation(f"{self.member_id} said all of itself and was told nothing of its partitions")
        self._ownership.told_epoch(self.name, answer.member_epoch, least_epoch)
        since_s, self._unanswered_s = self._unanswered_s, None
        self.epoch, self._is_full = answer.member_epoch, False
        self._session_ends_s = self._sent_s + self.session_s
        if is_reporting:
            self._reported = owned
            if owned <= self._target:
                self._release_by_s = inf
        if answer.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, number) for topic in answer.assignment.topic_partitions for number in topic.partitions
            )
        self._ownership.extend(self.name, self._ends_s())
        self._begin_release(since_s)
        self._take()

    def _has_ended(self) -> bool:
        """By its own clock the coordinator may have given its partitions to others."""
        return self.epoch > 0 and self._now_s() >= self._ends_s()

    def _ends_s(self) -> float:
        """A heartbeat that was not answered may have been told to let go of something, from when it was sent."""
        untold_by_s = inf if self._unanswered_s is None else self._unanswered_s + self.rebalance_timeout_s
        return min(self._session_ends_s, self._release_by_s, untold_by_s)

    def _begin_release(self, since_s: float) -> None:
        """What is not in the target has to be let go of, counted from when the coordinator may have decided so."""
        if self.owned <= self._target or self._release_by_s < inf:
            return
        self._release_by_s = since_s + self.rebalance_timeout_s
        slowness = 2.0 if not self.is_calm and self.rng.random() < self._habits.slow_rate else 0.4
        self._release_from_s = self._now_s() + self.rng.random() * slowness * self.rebalance_timeout_s
        self._ownership.extend(self.name, self._ends_s())

    def _judge(self, code: int) -> None:
        if code in (*_LOST, ErrorCode.FENCED_INSTANCE_ID):
            self._lost(code)
        if code == ErrorCode.GROUP_ID_NOT_FOUND and self.epoch > 0:
            self._lost(code)  # it was put out as the last of its protocol, and the group is a classic one now
        if code == ErrorCode.UNRELEASED_INSTANCE_ID and self.instance_id is not None and self.epoch == 0:
            raise Unhappy("the one before has not been given up yet")
        expect(code)

    def _lost(self, code: int) -> None:
        """It is no member any more, and begins anew under the same id. That has a reason."""
        is_answer_lost = self._unanswered_s is not None and self._unanswered_s < self._sent_s
        has_reason = (
            self._has_ended()
            or (code == ErrorCode.FENCED_MEMBER_EPOCH and is_answer_lost)
            or (code == ErrorCode.FENCED_INSTANCE_ID and self._ownership.fenced_by_late_join(self.instance_id))
        )
        if not has_reason:
            raise Violation(f"{self.member_id} heard {ErrorCode(code).name} at epoch {self.epoch}, within its session")
        self._ownership.lost_count += 1
        self._ownership.lose(self.name)
        self.epoch, self._is_full, self._reported, self._target = 0, True, None, frozenset()
        self._positions.clear()
        self._release_by_s = inf
        self._unanswered_s = None
        raise Unhappy("join again")

    # --- partitions

    def _let_go(self) -> None:
        leaving = self.owned - self._target
        if leaving and self._now_s() >= self._release_from_s:
            if self.rng.random() < self._habits.late_rate:
                self._commit_late(leaving)
            self._ownership.release(self.name, leaving)
        self._take()

    def _take(self) -> None:
        owned = self.owned
        if owned <= self._target and owned != self._target:
            self._ownership.hold(self.name, self._target - owned)
        for place in self._positions.keys() - self.owned:
            del self._positions[place]

    # --- offsets

    async def _fetch_positions(self) -> None:
        """Of partitions that are new here."""
        new = self.owned - self._positions.keys()
        if not new:
            return
        known = {place: self._ownership.committed[place] for place in new}
        topics = [
            offset_fetch_request.OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=numbers)
            for topic_id, numbers in _by_topic(new)
        ]
        group = offset_fetch_request.OffsetFetchRequestGroup(group_id=self.GROUP, topics=topics)
        if not self.IS_CLASSIC:
            group.member_id, group.member_epoch = self.member_id, self.epoch
        answer = await self.request(
            ApiKey.OFFSET_FETCH, 10, offset_fetch_request.OffsetFetchRequest(groups=[group], require_stable=True)
        )
        self._judge_commit(answer.groups[0].error_code)
        for topic in answer.groups[0].topics:
            for data in topic.partitions:
                expect(data.error_code)
                place, offset = (topic.topic_id, data.partition_index), max(0, data.committed_offset)
                self._ownership.fetched(place, offset, known[place])
                if place in self.owned:
                    self._positions[place] = offset

    async def _commit(self) -> None:
        places = [place for place in sorted(self._positions) if place in self.owned]
        if not places:
            return
        for place in places:
            self._positions[place] += self.rng.randint(1, 3)
        await self._commit_at({place: self._positions[place] for place in places})

    async def _commit_after_a_pause(self) -> None:
        """It stood still, and does not know yet that others may own its partitions by now."""
        if not self._positions:
            return
        for place in self._positions:
            self._positions[place] += 1
        try:
            await self._commit_at(dict(self._positions))
        except (Unhappy, Disconnected):
            self._positions.clear()

    async def _commit_at(self, offsets: dict[Place, int]) -> None:
        were_anothers = self._try_commit(offsets)
        answer = await self.request(ApiKey.OFFSET_COMMIT, 10, self._commit_request(offsets))
        codes = self._note_commit(answer, offsets, were_anothers)
        for code in codes:
            self._judge_commit(code)

    def _judge_commit(self, code: int) -> None:
        """STALE_MEMBER_EPOCH: a heartbeat has to say what has changed."""
        if code in self.COMMIT_REFUSALS:
            raise Unhappy(ErrorCode(code).name)
        expect(code)

    def _commit_late(self, places: frozenset[Place]) -> None:
        """Of what it lets go of: the request is on its way while somebody else may be given the partitions."""
        offsets = {place: self._positions[place] + 1 for place in sorted(places) if place in self._positions}
        if offsets:
            request = self._commit_request(offsets)
            task = asyncio.get_running_loop().create_task(self._send_late(request, offsets))
            self._late.add(task)
            task.add_done_callback(self._late.discard)

    async def _send_late(self, request: Any, offsets: dict[Place, int]) -> None:
        await asyncio.sleep(self.rng.uniform(*LATE_S))
        address = self._where()
        if address is None or self.epoch == request.generation_id_or_member_epoch:
            return  # Kafka lets a member commit whatever it likes at the epoch that it has
        if not self._is_late(offsets):
            return
        were_anothers = self._try_commit(offsets)
        try:
            connection = await Connection.open(*address, self.name, self.patience_s)
            answer = await connection.request(ApiKey.OFFSET_COMMIT, 10, request)
            connection.close()
            self._note_commit(answer, offsets, were_anothers)
        except Disconnected:
            return
        except Violation as violation:
            self._fail(violation)

    def _is_late(self, offsets: dict[Place, int]) -> bool:
        """Whether a commit for what it let go of must not count."""
        return True

    def _try_commit(self, offsets: dict[Place, int]) -> dict[Place, bool]:
        """Which of them are somebody else's by now."""
        for place, offset in offsets.items():
            self._ownership.try_commit(place, offset)
        return {place: self._ownership.is_anothers(self.name, place) for place in offsets}

    def _note_commit(self, answer: Any, offsets: dict[Place, int], were_anothers: dict[Place, bool]) -> set[int]:
        codes = set()
        for topic in answer.topics:
            for data in topic.partitions:
                codes.add(data.error_code)
                place = topic.topic_id, data.partition_index
                if data.error_code == ErrorCode.NONE:
                    self._ownership.commit(self.name, place, offsets[place], was_anothers=were_anothers[place])
                elif data.error_code not in (*self.COMMIT_REFUSALS, *RETRIABLE):
                    raise Violation(f"a commit was answered with {ErrorCode(data.error_code).name}")
        return codes

    def _commit_request(self, offsets: dict[Place, int]) -> offset_commit_request.OffsetCommitRequest:
        topics = [
            offset_commit_request.OffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[
                    offset_commit_request.OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offsets[topic_id, number]
                    )
                    for number in numbers
                ],
            )
            for topic_id, numbers in _by_topic(offsets)
        ]
        return offset_commit_request.OffsetCommitRequest(
            group_id=self.GROUP,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=topics,
        )


def _by_topic(places: Any) -> list[tuple[UUID, Sequence[int]]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(places):
        topics.setdefault(topic_id, []).append(number)
    return list(topics.items())


def _topics(places: frozenset[Place]) -> list[heartbeat.TopicPartitions]:
    return [heartbeat.TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in _by_topic(places)]
