"""A cluster under members of a share group (KIP-932), who come and go, hang and come back, and acknowledge as they like.

They read a topic of plain producers, of which records are deleted in some seeds, and one that is written in transactions.
The nodes that have the group, the state of its share partitions, the records and the connections die, hang and move; the
group's delivery count limit changes meanwhile. In some seeds released records wait for a back-off, and what is given up
becomes a dead letter. In others the group has one more topic, of which retention and DeleteRecords leave little. At the end a healthy member gets all that is left.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from bmq.metadata.image import OFFSETS_TOPIC_NAME, SHARE_STATE_TOPIC_NAME, MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.dead_letters import TOPIC_CONFIG
from bmq.protocol.messages import incremental_alter_configs_request as altering
from bmq.protocol.messages import metadata_request
from bmq.protocol.retry_backoff import backoff_of
from bmq.server.node_dependencies import NodeHooks
from tests.simulation.aged_log import AgedTerms
from tests.simulation.aged_topic import NAME as AGED
from tests.simulation.aged_topic import AgedKind, listed
from tests.simulation.clients import (
    EARLIEST,
    GROUP_KEY,
    TOPIC,
    Client,
    Producer,
    Unhappy,
    create_topic,
    expect,
    find_coordinator,
)
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_chaos import PARTITIONS
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.committed_reads import end_offset
from tests.simulation.committed_reads import read_all as read_transactions
from tests.simulation.connection import Disconnected
from tests.simulation.dead_letters import Letter, read_letters
from tests.simulation.fault_rates import FaultRates
from tests.simulation.history import Violation
from tests.simulation.share_history import ShareHistory
from tests.simulation.share_member import (
    GROUP,
    HEARTBEAT_INTERVAL_S,
    SESSION_S,
    ShareHabits,
    ShareMember,
)
from tests.simulation.transaction_chaos import CoordinatorChaos
from tests.simulation.transaction_crowd import Habits, Succession, World, Writing
from tests.simulation.transaction_history import CommittedRead, Place, TransactionHistory
from tests.simulation.until_done import until_done
from tests.simulation.visitors import read_all

ORDERS = "orders"
ORDER_PLACES: tuple[Place, ...] = tuple((ORDERS, number) for number in range(2))
AGED_PLACE: Place = (AGED, 0)
LETTERS = "dlq.sharers"
LETTER_PLACES: tuple[Place, ...] = tuple((LETTERS, number) for number in range(2))
PLAIN_PLACES: tuple[Place, ...] = tuple((TOPIC, number) for number in range(PARTITIONS))
MEMBERS = 3
LOCKS_S = (1.0, 3.0, 20.0)
SETTLE_S = 60.0
DISTURBED_BEFORE_S = 10.0
"""How long a node may go on with what it knew before the others took it for dead."""
_GROUP_RESOURCE = 32
_TOPICS = (OFFSETS_TOPIC_NAME, SHARE_STATE_TOPIC_NAME, SHARE_STATE_TOPIC_NAME, SHARE_STATE_TOPIC_NAME)


class Shares(Cluster):
    name = "share"

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        super().__init__(seed, rates, is_looking_inside)
        self._topics = (TOPIC, ORDERS) if self._aged_kind is None else (TOPIC, ORDERS, AGED)
        dice = self._dice("group")
        self._lock_s = dice.choice(LOCKS_S)
        self._limit = dice.choice((2, 5, 10))
        self._is_read_committed = dice.random() < 0.6
        self._is_limit_changing = dice.random() < 0.3
        self._habits = ShareHabits.of(self._dice("habits"), self._lock_s)
        self._backoff = self._dice("backoff").choice(("", "", "200ms..2s", "1s,300ms"))
        self._has_letters = self._dice("letters").random() < 0.5
        self.shares = ShareHistory(self.loop.time, self._limit, backoff_of(self._backoff))
        self.shares.shrinking = frozenset((AGED_PLACE, *(PLAIN_PLACES if self.kind.is_deleting else ())))
        self.seen = TransactionHistory()
        self.seen.on_acknowledge = self._check_acknowledged
        self._names: dict[UUID, str] = {}
        self._life_dice = self._dice("lives")
        self._members: list[ShareMember] = []
        self._ended_s: dict[int, float] = {}  # when nodes were found to be gone
        self._known: dict[int, int] = {}  # the newest incarnation of each node
        self.member_count = 0

    def _kind(self) -> ClusterKind:
        kind = super()._kind()
        return dataclasses.replace(kind, is_making_topics=False, is_deleting=self._dice("deleting").random() < 0.3)

    def _kind_of_aged(self) -> AgedKind | None:
        """In every second seed there is one more topic, of which retention and DeleteRecords leave little."""
        dice = self._dice("aged")
        if dice.random() < 0.5:
            return None
        is_by_age = dice.random() < 0.3
        terms = AgedTerms(
            retention_s=dice.choice((2.0, 4.0)) if is_by_age else None,
            retention_bytes=None if is_by_age else dice.choice((500, 2_000)),
        )
        return AgedKind(terms, dice.choice((0.0, 0.1)), 0.0, 1, dice.choice((0.1, 0.3)))

    def _server_settings(self) -> dict[str, Any]:
        settings = super()._server_settings()
        session_ms, interval_ms = str(int(SESSION_S * 1000)), str(int(HEARTBEAT_INTERVAL_S * 1000))
        settings["kafka"] |= {
            "group.share.min.session.timeout.ms": session_ms,
            "group.share.session.timeout.ms": session_ms,
            "group.share.min.heartbeat.interval.ms": interval_ms,
            "group.share.heartbeat.interval.ms": interval_ms,
            "group.share.min.record.lock.duration.ms": "1000",
            "share.coordinator.state.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        }
        return settings

    # --- who may have been taken for dead

    def _hooks(self, node: NodeProcess, dice: Any) -> NodeHooks:
        hooks = super()._hooks(node, dice)
        before = hooks.on_image

        def on_image(old: MetadataImage, new: MetadataImage) -> None:
            before(old, new)
            for node_id, epoch in self._known.items():
                live = new.nodes.get(node_id)
                if live is None or live.epoch > epoch:
                    self._ended_s[node_id] = self.loop.time()
            for node_id, live in new.nodes.items():
                self._known[node_id] = max(self._known.get(node_id, -1), live.epoch)

        return dataclasses.replace(hooks, on_image=on_image)

    def _may_be_lost(self, address: tuple[str, int] | None, since_s: float) -> bool:
        """Whether the others may have released what was acquired through this node since then."""
        for node_id, node in self.nodes.items():
            if node.address == address:
                is_there = node.process.is_alive and not node.process.is_paused
                return not is_there or self._ended_s.get(node_id, -math.inf) > since_s - DISTURBED_BEFORE_S
        return True

    # --- the run

    async def run(self) -> None:
        for node_id in self.kind.roles:
            self.start_node(node_id)
        watching = self.loop.create_task(self.watch())
        admin = self.client("admin")
        await create_topic(admin, PARTITIONS, self.kind.topic_configs())
        await create_topic(admin, len(ORDER_PLACES), self.kind.topic_configs(), ORDERS)
        if self._has_letters:
            await create_topic(admin, len(LETTER_PLACES), {**self.kind.topic_configs(), TOPIC_CONFIG: "true"}, LETTERS)
        await admin.until_done(lambda: self._configure(admin))
        await self._until_known_everywhere()
        await admin.until_done(lambda: self._learn_names(admin))
        await until_done((self.loop.create_task(self._begin()),), (watching,))
        world = World(
            self.client, self.seen, Habits.of(self._dice("writing")), self._dice("crowd"), self.loop.create_future(),
            lambda: None,
        )  # fmt: skip
        writing = Writing(world, ORDER_PLACES)
        producers = [self.client(f"p{number}", Producer, self.history, PARTITIONS) for number in range(2)]
        works = [
            *(Succession(world, f"w{number}", writing.live).run() for number in range(2)),
            *(self._live(slot) for slot in range(MEMBERS)),
            self._reconfigure(),
            *self.aging(),
        ]
        others = [watching, *(self.loop.create_task(work) for work in works)]
        for producer in producers:
            producer.pace_s = self.kind.pace_s
        chaos = self.loop.create_task(CoordinatorChaos(self, self._dice("chaos"), topic_names=_TOPICS).run())
        sending = asyncio.gather(*(producer.run(10, lambda: not chaos.done()) for producer in producers))
        await until_done((chaos, sending), (world.failure, *others))
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for member in self._members:
            member.disconnect()
        self._calm()
        watching = self.loop.create_task(self.watch())
        checking = self.loop.create_task(self._check_settled(admin))
        await until_done((checking,), (watching,))
        watching.cancel()
        world.count(self.outcome)
        self._count()

    def _count(self) -> None:
        outcome, shares = self.outcome, self.shares
        outcome.acknowledged_batches = self.seen.acknowledged_batches
        outcome.moves = self.rules.moves
        outcome.deliveries, outcome.redeliveries = shares.delivery_count, shares.redelivery_count
        outcome.accepts, outcome.refusals = shares.accept_count, shares.refusal_count
        outcome.locks_run_out = shares.expiry_count
        outcome.waits, outcome.dead_letters = shares.wait_count, shares.dead_count
        outcome.states_loaded = sum(
            node.roles.share.local.metrics.loaded_shards
            for node in [*self.past, *self.nodes.values()]
            if node.roles is not None
        )
        outcome.assignments, outcome.members_lost = self.member_count, shares.lost_count

    # --- the group's configs

    async def _configure(self, admin: Client) -> None:
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": "read_committed" if self._is_read_committed else "read_uncommitted",
            "share.record.lock.duration.ms": str(int(self._lock_s * 1000)),
            "share.delivery.count.limit": str(self._limit),
        }
        if self._backoff:
            configs["bmq.share.retry.backoff"] = self._backoff
        if self._has_letters:
            configs["errors.deadletterqueue.topic.name"] = LETTERS
        await self._alter(admin, configs)

    async def _until_known_everywhere(self) -> None:
        """A node that does not know the group's configs yet begins share partitions by the defaults, as Kafka's do."""
        while True:
            roles = [node.roles for node in self.nodes.values()]
            if all(one is not None and GROUP in one.replica.image.group_configs for one in roles):
                return
            await asyncio.sleep(0.05)

    async def _alter(self, client: Client, configs: dict[str, str]) -> None:
        resource = altering.AlterConfigsResource(
            resource_type=_GROUP_RESOURCE,
            resource_name=GROUP,
            configs=[
                altering.AlterableConfig(name=name, config_operation=0, value=value) for name, value in configs.items()
            ],
        )
        request = altering.IncrementalAlterConfigsRequest(resources=[resource])
        answer = await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        (result,) = answer.responses
        expect(result.error_code)

    async def _reconfigure(self) -> None:
        """The delivery count limit is lowered and raised while records are out."""
        if not self._is_limit_changing:
            return
        dice, client = self._dice("limits"), self.client("configurer")
        while True:
            await asyncio.sleep(dice.expovariate(1 / 3.0))
            limit = dice.choice((2, 3, 5, 10))
            self.shares.limited(limit)
            await client.until_done(lambda limit=limit: self._alter(client, {"share.delivery.count.limit": str(limit)}))

    async def _learn_names(self, admin: Client) -> None:
        answer = await admin.request(ApiKey.METADATA, 12, metadata_request.MetadataRequest(topics=None))
        self._names = {topic.topic_id: topic.name for topic in answer.topics}
        if {TOPIC, ORDERS} - set(self._names.values()):
            raise Unhappy("topics are missing")

    # --- members

    def _member(self, name: str) -> ShareMember:
        member: ShareMember = self.client(
            name, ShareMember, self.shares, self._topics, self._habits, self._saw, self._may_be_lost
        )
        member.use_names(self._names)
        self._members.append(member)
        self.member_count += 1
        return member

    def _saw(self, place: Place, offset: int, value: bytes, leader_epoch: int) -> None:
        if place[0] == TOPIC:
            self.history.consume(place[1], offset, value, leader_epoch)
        elif place == AGED_PLACE and self._aged is not None:
            self._aged.log.given(offset, value.rstrip(b".") or None)
        elif self._is_read_committed:
            self.seen.read_committed(CommittedRead(place, offset, offset + 1, [(offset, value)], []))
        else:
            self.seen.read(place, offset, value)

    async def _begin(self) -> None:
        """Before anything is written the group begins at the start of all partitions."""
        member = self._member("first")
        await member.until_done(lambda: find_coordinator(member, GROUP, GROUP_KEY))
        wanted = len(PLAIN_PLACES) + len(ORDER_PLACES)
        while True:
            try:
                await member.beat_if_due()
                if len(member.assigned) == wanted:
                    await member.round()
                    if self._has_begun():
                        break
            except Unhappy:
                pass
            except Disconnected:
                member.disconnect()
            await asyncio.sleep(0.1)
        await member.leave()

    def _has_begun(self) -> bool:
        """Whether each share partition has its start offset."""
        found = set()
        for node in self.nodes.values():
            if node.roles is not None:
                for shard in node.roles.share.local.directory.ready.values():
                    found |= {key for key, one in shard.partitions.items() if one.window is not None}
        return len(found) == len(PLAIN_PLACES) + len(ORDER_PLACES)

    async def _live(self, slot: int) -> None:
        """One member after the other."""
        dice, number = self._life_dice, 0
        while True:
            number += 1
            member = self._member(f"m{slot}.{number}")
            life = self.loop.create_task(member.live())
            try:
                await asyncio.wait({life}, timeout=0.5 + dice.expovariate(1 / self._habits.life_s))
                kind = dice.random()
                if kind < 0.4:
                    member.is_leaving = True
                    await asyncio.wait({life}, timeout=15.0)
                if life.done():
                    life.result()
            finally:
                was_idle = life.done()
                life.cancel()
            await asyncio.wait({life})
            if kind < 0.4 and was_idle:
                await member.leave()
            elif kind < 0.8:
                member.disconnect()
            # else it hangs for ever, with its connection: its locks run out, or its membership
            await asyncio.sleep(dice.uniform(0.0, 1.0))

    # --- the end

    async def _check_settled(self, admin: Client) -> None:
        await self.check_aged()
        plain = {number: await read_all(admin, self.history, number) for _, number in PLAIN_PLACES}
        self.history.check_final(plain)
        await self._until_closed(admin)
        there = {(TOPIC, number): dict(some) for number, some in plain.items()}
        committed, everything = {}, {}
        for place in ORDER_PLACES:
            everything[place] = await read_transactions(admin, self.seen, place, is_committed=False)
            committed[place] = await read_transactions(admin, self.seen, place, is_committed=True)
        self.seen.check_final(everything, committed)
        for place, records in (committed if self._is_read_committed else everything).items():
            there[place] = dict(records)
        letters = await self._drain(admin, there)
        self.shares.check_letters(letters, there)
        # What was on its way from a producer when it ended may have come meanwhile.
        latest = {place: await read_transactions(admin, self.seen, place, is_committed=False) for place in ORDER_PLACES}
        known = {
            place: {*there[place], *(at for at, _ in latest[place][len(everything[place]) :])} for place in ORDER_PLACES
        }
        self.shares.check_nothing_more(known)
        for letter in letters:
            if letter.place in known and letter.offset not in known[letter.place]:
                raise Violation(f"no record is there that members may see, and it has a dead letter: {letter}")
        self.check_now()

    async def _until_closed(self, admin: Client) -> None:
        deadline_s = self.loop.time() + SETTLE_S
        for place in ORDER_PLACES:
            while True:
                if await admin.until_done(partial(self._is_closed, admin, place)):
                    break
                if self.loop.time() > deadline_s:
                    raise Violation(f"a transaction stays open in {place}")
                await asyncio.sleep(0.5)

    async def _is_closed(self, admin: Client, place: Place) -> bool:
        stable = await end_offset(admin, place, is_stable=True)
        return stable == await end_offset(admin, place, is_stable=False)

    async def _drain(self, admin: Client, there: Mapping[Place, Mapping[int, bytes]]) -> list[Letter]:
        """A healthy member gets and accepts all that is left. Returns the dead letters of what was given up."""
        member = self._member("drainer")
        member.is_draining = True
        life = self.loop.create_task(member.live())
        letters: list[Letter] = []
        ends = dict.fromkeys(LETTER_PLACES, 0) if self._has_letters else {}
        deadline_s, fewest = self.loop.time() + SETTLE_S, 2 * sum(map(len, there.values()))
        while True:
            for place, end in tuple(ends.items()):
                more, ends[place] = await admin.until_done(partial(read_letters, admin, place, end))
                letters += more
            now_there = {**there, **await self._left_of_aged(admin)}
            left = self.shares.left_over(now_there)
            missing = self.shares.without_letters(now_there, letters) if self._has_letters else []
            if not left and not missing:
                break
            if life.done():
                life.result()
            if len(left) + len(missing) < fewest:  # it may take one record at a time
                deadline_s, fewest = self.loop.time() + SETTLE_S, len(left) + len(missing)
            if self.loop.time() > deadline_s:
                why = f"{len(left)} records reach nobody: {left[:5]}"
                raise Violation(f"{why}, {len(missing)} have neither reached anybody nor a dead letter: {missing[:5]}")
            await asyncio.sleep(0.5)
        member.is_leaving = True
        await life
        await member.leave()
        return letters

    async def _left_of_aged(self, admin: Client) -> dict[Place, range]:
        """Offsets that the shrinking topic has now."""
        if self._aged is None:
            return {}
        start = await admin.until_done(lambda: listed(admin, EARLIEST))
        return {AGED_PLACE: range(start, self._aged.log.acknowledged_end)}
