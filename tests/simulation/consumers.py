"""A cluster under members of one consumer group of the newer protocol (KIP-848), who come and go, hang and come back.

In every second seed some are members by the classic protocol, now more and now fewer of them, so that the group changes its own
protocol both ways while members are in it.

They subscribe by names and by patterns to topics that grow in number and in partitions. No partition has two owners at a time,
and nobody commits for what is another's. When all is calm every partition has an owner, and the group is stable.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from typing import Any

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import (
    consumer_group_describe_request,
    create_partitions_request,
    metadata_request,
)
from tests.simulation.classic_member import ClassicMember
from tests.simulation.clients import TOPIC, Client, Unhappy, create_topic, expect
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_chaos import PARTITIONS
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.connection import Disconnected
from tests.simulation.fault_rates import FaultRates
from tests.simulation.group_member import (
    GROUP,
    GroupMember,
    MemberHabits,
    Subscription,
    session_settings,
)
from tests.simulation.history import Violation
from tests.simulation.ownership import Ownership, Place
from tests.simulation.transaction_chaos import CoordinatorChaos
from tests.simulation.until_done import until_done

TOPICS_MAX = 4
MEMBERS = 4
SETTLE_S = 60.0
TIDE_S = 3.0
MIXED_LIVES_S = (0.7, 2.0, 5.0)
_PATTERN = f"{TOPIC}.*"
_SUBSCRIPTIONS = (
    Subscription((TOPIC,)),
    Subscription((TOPIC, f"{TOPIC}-1")),
    Subscription((f"{TOPIC}-1", f"{TOPIC}-2")),
    Subscription(regex=_PATTERN),
    Subscription((TOPIC,), f"{TOPIC}-[2-9]"),
)


class NotThere(Unhappy):
    """There is no group of the newer protocol."""


class Consumers(Cluster):
    name = "consumers"

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        super().__init__(seed, rates, is_looking_inside)
        self._is_mixed = self._dice("protocols").random() < 0.5
        self.ownership = Ownership(self.loop.time, may_begin_anew=self._is_mixed)
        self._habits = MemberHabits.of(self._dice("habits"))
        if self._is_mixed:  # a group is converted when the last member of one protocol has gone
            self._habits.life_s = self._dice("short lives").choice(MIXED_LIVES_S)
        self._members: dict[int, GroupMember] = {}
        self._lives: dict[int, asyncio.Task[None]] = {}
        self._life_dice = self._dice("lives")
        dice = self._dice("subscriptions")
        same = dice.choice(_SUBSCRIPTIONS)
        is_same_for_all = dice.random() < 0.5
        self._subscriptions = [same if is_same_for_all else dice.choice(_SUBSCRIPTIONS) for _ in range(MEMBERS)]
        self._static = [dice.random() < 0.3 for _ in range(MEMBERS)]
        self._topic_count = 1
        self._is_calm = False

    def _kind(self) -> ClusterKind:
        return dataclasses.replace(super()._kind(), is_deleting=False, is_making_topics=False)

    def _server_settings(self) -> dict[str, Any]:
        settings = super()._server_settings()
        settings["kafka"] |= session_settings()
        settings["kafka"] |= {
            "group.consumer.assignors": self._dice("assignors").choice(("uniform,range", "range,uniform")),
        }
        return settings

    async def run(self) -> None:
        for node_id in self.kind.roles:
            self.start_node(node_id)
        watching = self.loop.create_task(self.watch())
        admin = self.client("admin")
        await create_topic(admin, PARTITIONS, self.kind.topic_configs())
        failure = self.loop.create_future()
        works = [self._live(slot, failure) for slot in range(MEMBERS)]
        lives = [self.loop.create_task(work) for work in works]
        making = self.loop.create_task(self._make_topics())
        describing = self.loop.create_task(self._describe_now_and_then())
        aging = [self.loop.create_task(work) for work in self.aging()]
        chaos = self.loop.create_task(CoordinatorChaos(self, self._dice("chaos")).run())
        await until_done((chaos,), (failure, watching, making, describing, *aging, *lives))
        for task in (making, describing, *aging):
            task.cancel()
        self._is_calm = True
        for member in self._members.values():
            member.is_calm = True
        if isinstance(self._members.get(0), ClassicMember):
            self._lives[0].cancel()  # in the end there is one of the newer protocol, and the group can be described
        self._calm()
        watching.cancel()
        watching = self.loop.create_task(self.watch())
        settling = self.loop.create_task(self._check_settled(admin))
        await until_done((settling,), (failure, watching, *lives))
        for task in (watching, *lives):
            task.cancel()
        self.outcome.assignments = self.ownership.assignment_count
        self.outcome.members_lost = self.ownership.lost_count
        self.outcome.moves = self.rules.moves
        self.history.commits = self.ownership.commit_count

    # --- members

    async def _live(self, slot: int, failure: asyncio.Future[None]) -> None:
        """One member after the other; static ones keep their instance's name."""
        dice, number = self._life_dice, 0

        def fail(violation: Violation) -> None:
            if not failure.done():
                failure.set_exception(violation)

        while True:
            number += 1
            instance_id = f"instance-{slot}" if self._static[slot] else None
            member: GroupMember = self.client(
                f"member{slot}.{number}", self._next_kind(slot), self.ownership, self._subscriptions[slot], instance_id,
                self._habits, fail,
            )  # fmt: skip
            member.is_calm = self._is_calm
            self._members[slot] = member
            life = self._lives[slot] = self.loop.create_task(member.live())
            try:
                await asyncio.wait({life}, timeout=0.5 + dice.expovariate(1 / self._habits.life_s))
                if self._is_calm:
                    await asyncio.wait({life})
                if life.done() and not life.cancelled():
                    life.result()
            finally:
                life.cancel()
            await asyncio.wait({life})
            member.disconnect()
            if dice.random() < 0.5:
                await member.leave()
            else:
                member.vanish()
            await asyncio.sleep(dice.uniform(0.0, 1.0))

    def _next_kind(self, slot: int) -> type[GroupMember]:
        """By tides: for some time most that join are of one protocol, then most are of the other."""
        if not self._is_mixed or (self._is_calm and slot == 0):
            return GroupMember
        is_rising = int(self.loop.time() / TIDE_S) % 2 == 1
        return GroupMember if self._life_dice.random() < (0.8 if is_rising else 0.15) else ClassicMember

    # --- topics

    async def _make_topics(self) -> None:
        """More of them, and more partitions."""
        dice, client = self._dice("topics"), self.client("maker")
        counts = {}
        while True:
            await asyncio.sleep(dice.expovariate(1 / 2.0))
            if self._topic_count < TOPICS_MAX and dice.random() < 0.6:
                name = f"{TOPIC}-{self._topic_count}"
                counts[name] = dice.randint(1, 3)
                await create_topic(client, counts[name], {}, name)
                self._topic_count += 1
                self.outcome.topics_made += 1
            elif counts:
                name = dice.choice(sorted(counts))
                if counts[name] < 5:
                    counts[name] += 1
                    await client.until_done(lambda name=name: self._grow(client, name, counts[name]))

    async def _grow(self, client: Client, name: str, count: int) -> None:
        topic = create_partitions_request.CreatePartitionsTopic(name=name, count=count)
        request = create_partitions_request.CreatePartitionsRequest(topics=[topic], timeout_ms=5_000)
        answer = await client.request(ApiKey.CREATE_PARTITIONS, 2, request)
        code = answer.results[0].error_code
        if code in (ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICATION_FACTOR):
            raise Unhappy("no broker lives")
        expect(code, ErrorCode.INVALID_PARTITIONS)  # an answer was lost: it has them already

    async def _wanted(self, client: Client) -> dict[Place, str]:
        """All partitions, with their topics' names."""
        answer = await client.request(ApiKey.METADATA, 12, metadata_request.MetadataRequest(topics=None))
        found = {}
        for topic in answer.topics:
            expect(topic.error_code)
            for partition in topic.partitions:
                found[topic.topic_id, partition.partition_index] = topic.name
        return found

    # --- what must hold

    async def _describe_now_and_then(self) -> None:
        client = self.client("describer")
        dice = self._dice("describer")
        was_there: bool | None = None
        while True:
            await asyncio.sleep(dice.expovariate(1.0))
            try:
                is_there = bool((await self._describe(client)).members)
                self.outcome.answers += 1
                self.outcome.migrations += self._is_mixed and is_there and was_there is False
                was_there = is_there
            except NotThere:
                self.outcome.migrations += was_there is True
                was_there = False
            except Unhappy:
                continue
            except Disconnected:
                client.disconnect()

    async def _describe(self, client: Client) -> Any:
        """The group as its coordinator tells it. Raises Violation, Disconnected, Unhappy."""
        request = consumer_group_describe_request.ConsumerGroupDescribeRequest(group_ids=[GROUP])
        (group,) = (await client.request(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request)).groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise NotThere("nobody has joined, or classic members alone")
        expect(group.error_code)
        if group.assignment_epoch > group.group_epoch:
            raise Violation(f"the assignment's epoch {group.assignment_epoch} is above the group's {group.group_epoch}")
        owners: dict[Place, str] = {}
        for member in group.members:
            if member.member_epoch > group.assignment_epoch:
                raise Violation(
                    f"{member.member_id} is at {member.member_epoch}, the group at {group.assignment_epoch}"
                )
            for topic in member.assignment.topic_partitions:
                for number in topic.partitions:
                    other = owners.setdefault((topic.topic_id, number), member.member_id)
                    if other != member.member_id:
                        raise Violation(
                            f"{topic.topic_name}-{number} is described as {other}'s and {member.member_id}'s"
                        )
        return group

    async def _check_settled(self, admin: Client) -> None:
        deadline_s = self.loop.time() + SETTLE_S

        async def attempt() -> None:
            try:
                await self._expect_settled(admin)
            except Unhappy as error:
                if self.loop.time() > deadline_s:
                    raise Violation(f"the group does not settle: {error}") from error
                await asyncio.sleep(0.5)
                raise

        await admin.until_done(attempt)
        await self.check_aged()
        self.check_now()

    async def _expect_settled(self, admin: Client) -> None:
        wanted = await self._wanted(admin)
        group = await self._describe(admin)
        members = tuple(self._members.values())
        for place, name in wanted.items():
            subscribers = [member for member in members if _is_subscribed(member.subscription, name)]
            owners = [member for member in members if place in member.owned]
            if subscribers and len(owners) != 1:
                raise Unhappy(f"{name}-{place[1]} has {len(owners)} owners of {len(subscribers)}")
            if not {owner.name for owner in owners} <= {member.name for member in subscribers}:
                raise Violation(f"{name}-{place[1]} was given to {owners[0].name}, which did not subscribe to it")
        if group.group_state != "Stable" or {member.epoch for member in members} != {group.group_epoch}:
            raise Unhappy(f"it is {group.group_state}, and its members are at {[member.epoch for member in members]}")


def _is_subscribed(subscription: Subscription, name: str) -> bool:
    return name in subscription.names or bool(subscription.regex and re.fullmatch(subscription.regex, name))
