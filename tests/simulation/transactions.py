"""A cluster under producers with transactional ids, and readers of what they committed.

Writers write to several partitions of one topic at once, one of them to a topic as well that is deleted meanwhile; copiers read
what was committed there and write it to another one, with the offsets they read at. Producers' epochs are used up early, so
ids get other producer ids. In half of the seeds clients commit a database first, and coordinators ask what it says; when all is calm
more clients die there (deserted.py). At the end nothing is open, everybody has seen the same, and the copies are exactly those of
what lies below the committed offsets.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from bmq.coordinator.transactions.transaction import MAX_EPOCH
from bmq.metadata.answer_configs import ANSWER_ENABLE
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages import list_transactions_request
from bmq.server.node_dependencies import NodeHooks
from tests.simulation import copying_owner, deleted_topic
from tests.simulation.check_answers import (
    ANSWERS,
    CHECK_IDS,
    Answerer,
    Application,
    Database,
    SimulatedPosts,
    check_settings,
)
from tests.simulation.clients import GROUP_KEY, TOPIC, Client, Unhappy, create_topic, expect, find_coordinator
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.committed_reads import Asker, Reader, end_offset, group_offsets, read_all
from tests.simulation.copying_owner import copying_habits, copying_owners
from tests.simulation.deserted import DesertedIds
from tests.simulation.fault_rates import FaultRates
from tests.simulation.group_member import session_settings
from tests.simulation.history import Violation
from tests.simulation.ownership import Ownership
from tests.simulation.transaction_chaos import TransactionChaos
from tests.simulation.transaction_crowd import (
    GROUP,
    SESSIONS_MS,
    TIMEOUTS_S,
    Copying,
    Habits,
    Succession,
    World,
    Writing,
    copying_members,
)
from tests.simulation.transaction_history import Place, TransactionHistory
from tests.simulation.until_done import until_done

SOURCE, TARGET = TOPIC, "copies"
SOURCES: tuple[Place, ...] = tuple((SOURCE, number) for number in range(3))
TARGETS: tuple[Place, ...] = tuple((TARGET, number) for number in range(2))
UNFINISHED = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
CLEANUP_INTERVAL_S = 0.5
# How copiers share the source: each has a partition, or they are members by either protocol.
COPIERS = ("alone", "classic", "consumer", "consumer")
LAST_EPOCHS = (1, 3, 8, MAX_EPOCH)
# Of seeds in which applications are asked about their open transactions.
ASKING_SHARE = 0.5
# When all is calm an open transaction ends with its timeout, the next look for such, and markers sent by a coordinator that
# has just been loaded.
SETTLE_S = max(TIMEOUTS_S) + CLEANUP_INTERVAL_S + 15.0


class Transactions(Cluster):
    name = "transactions"

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        super().__init__(seed, rates, is_looking_inside)
        self.seen = TransactionHistory((deleted_topic.NAME, CHECK_IDS))
        self.seen.on_acknowledge = self._check_acknowledged
        self._habits = Habits.of(self._dice("habits"))
        self._is_deleting_topics = self._dice("deletion").random() < 0.4
        self._copiers = self._dice("copying").choice(COPIERS)
        self._ownership = Ownership(self.loop.time)
        self._application: Application | None = None
        if self._is_asking():
            database = Database(self.seen, self.loop.time, self._has_check_ids())
            self._application = Application(database, self._dice("application"))
        self._member_habits = copying_habits(self._dice("member habits"))

    def _is_asking(self) -> bool:
        """Whether applications are asked about open transactions."""
        return self._dice("asking").random() < ASKING_SHARE

    def _has_check_ids(self) -> bool:
        return self._dice("check ids").random() < 0.5

    def _kind(self) -> ClusterKind:
        kind = super()._kind()
        last_epoch = self._dice("epochs").choice(LAST_EPOCHS)
        return dataclasses.replace(kind, is_deleting=False, is_making_topics=False, last_producer_epoch=last_epoch)

    def _server_settings(self) -> dict[str, Any]:
        settings = super()._server_settings()
        settings["kafka"] |= {
            **session_settings(copying_owner.SESSION_S),
            "group.min.session.timeout.ms": str(min(SESSIONS_MS)),
            "transaction.state.log.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(int(CLEANUP_INTERVAL_S * 1000)),
        }
        if self._is_asking():
            settings["kafka"] |= check_settings(self._has_check_ids())
        return settings

    def _hooks(self, node: NodeProcess, dice: Any) -> NodeHooks:
        posts = None if self._application is None else SimulatedPosts(self._application)
        return dataclasses.replace(super()._hooks(node, dice), transaction_posts=posts)

    async def run(self) -> None:
        for node_id in self.kind.roles:
            self.start_node(node_id)
        watching = self.loop.create_task(self.watch())
        admin = self.client("admin")
        await create_topic(admin, len(SOURCES), self.kind.topic_configs(), SOURCE)
        await create_topic(admin, len(TARGETS), self.kind.topic_configs(), TARGET)
        is_ending = asyncio.Event()
        world = World(
            self.client, self.seen, self._habits, self._dice("crowd"), self.loop.create_future(), is_ending.set,
            self.kind.last_producer_epoch, None if self._application is None else self._application.database,
        )  # fmt: skip
        if self._application is not None:
            self._application.failure = world.failure
        successions = self._successions(world)
        askers = [
            self.client(f"asker{number}", Asker, self.seen, (*SOURCES, *TARGETS), GROUP, SOURCE) for number in range(2)
        ]
        readers = [
            self.client(f"reader{number}", Reader, self.seen, (*SOURCES, *TARGETS), number < 2) for number in range(3)
        ]
        answering = [self.loop.create_task(work) for work in await self._answering(admin)]
        works = [
            *(one.run() for one in successions),
            *(one.run() for one in (*askers, *readers)),
            *self.aging(),
        ]
        others = [watching, *(self.loop.create_task(work) for work in works)]
        chaos = self.loop.create_task(TransactionChaos(self, self._dice("chaos"), is_ending).run())
        await until_done((chaos,), (world.failure, *others, *answering))
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._calm()
        watching = self.loop.create_task(self.watch())
        checking = self.loop.create_task(self._check_calm(world, admin))
        await until_done((checking,), (watching, world.failure, *answering))
        for task in (watching, *answering):
            task.cancel()
        world.count(self.outcome)
        self.outcome.answers = sum(one.answer_count for one in askers)
        self.outcome.acknowledged_batches = self.seen.acknowledged_batches
        self.outcome.moves = self.rules.moves
        self.outcome.assignments = self._ownership.assignment_count
        self.outcome.members_lost = self._ownership.lost_count

    async def _answering(self, admin: Client) -> list[Coroutine[Any, Any, None]]:
        """The client that produces answers to checks, in seeds that have one."""
        if self._application is None:
            return []
        if self._application.database.has_check_ids:
            await create_topic(admin, 1, self.kind.topic_configs(), CHECK_IDS)
        answers = self._application.by_records
        if answers is None:
            return []
        await create_topic(admin, 1, {**self.kind.topic_configs(), ANSWER_ENABLE: "true"}, ANSWERS)
        answerer: Answerer = self.client("answerer", Answerer, self.seen)
        return [answerer.run(answers)]

    def _successions(self, world: World) -> list[Succession]:
        writing, copying = Writing(world, SOURCES), Copying(world, SOURCE, TARGETS)
        lives = {f"w{number}": writing.live for number in range(2)}
        if self._copiers == "classic":
            lives |= copying_members(world, copying, len(SOURCES), 2)
        elif self._copiers == "consumer":
            lives |= copying_owners(world, copying, self._ownership, self._member_habits, 2)
        else:
            for _, number in SOURCES:
                lives[f"copy{number}"] = lambda producer, number=number: copying.live(producer, number)  # type: ignore[misc]
        if self._is_deleting_topics:
            admin = self.client("deleter")
            lives["d"] = deleted_topic.WritingToDeleted(world, SOURCES, admin, self.outcome).live
        return [Succession(world, name, live) for name, live in lives.items()]

    # --- the end

    async def _check_calm(self, world: World, admin: Client) -> None:
        if self._application is None:
            await self._check_settled(admin)
            return
        self._application.be_calm()
        deserted = DesertedIds(world, SOURCES, self._application, self._dice("deserted"), self.loop)
        await deserted.run()
        deserted.check(await self._check_settled(admin), self.outcome)

    async def _check_settled(self, admin: Client) -> Mapping[Place, Sequence[tuple[int, bytes]]]:
        """What readers of committed records see."""
        deadline_s = self.loop.time() + SETTLE_S
        for place in (*SOURCES, *TARGETS):
            await self._until_closed(admin, place, deadline_s)
        await self._check_listed(deadline_s)
        everything = {
            place: await read_all(admin, self.seen, place, is_committed=False) for place in (*SOURCES, *TARGETS)
        }
        committed = {
            place: await read_all(admin, self.seen, place, is_committed=True) for place in (*SOURCES, *TARGETS)
        }
        self.seen.check_final(everything, committed)
        numbers = [number for _, number in SOURCES]
        await admin.until_done(lambda: find_coordinator(admin, GROUP, GROUP_KEY))
        offsets = await admin.until_done(
            lambda: group_offsets(admin, self.seen, GROUP, SOURCE, numbers, is_stable=True)
        )
        source = {number: committed[SOURCE, number] for number in numbers}
        copies = [value for place in TARGETS for _, value in committed[place]]
        self.outcome.copies = self.seen.check_copies(source, copies, offsets)
        await self.check_aged()
        self.check_now()
        return committed

    async def _until_closed(self, admin: Client, place: Place, deadline_s: float) -> None:
        """No transaction stays open in a partition once nobody writes any more."""

        async def attempt() -> None:
            known = self.seen.stable_end(place)
            stable = await end_offset(admin, place, is_stable=True)
            self.seen.ask_stable_end(place, stable, known)
            end = await end_offset(admin, place, is_stable=False)
            if stable > end:
                raise Violation(f"{place} is stable up to {stable} and ends at {end}")
            if stable < end:
                if self.loop.time() > deadline_s:
                    raise Violation(f"{place} is stable up to {stable} only, and ends at {end}: a transaction hangs")
                await asyncio.sleep(0.5)
                raise Unhappy("a transaction is open")

        await admin.until_done(attempt)

    def _address_of(self, node_id: int) -> tuple[str, int] | None:
        return self.nodes[node_id].address

    async def _check_listed(self, deadline_s: float) -> None:
        """The coordinators have brought everything to an end, too. Each proxy lists the shards that clients find there."""
        request = list_transactions_request.ListTransactionsRequest(state_filters=UNFINISHED)
        for node_id in self.kind.roles:
            # A node may be started again meanwhile, under another address.
            asker = Client("lister", partial(self._address_of, node_id), self._dice("lister"))

            async def attempt(asker: Client = asker) -> None:
                answer = await asker.request(ApiKey.LIST_TRANSACTIONS, 0, request)
                expect(answer.error_code)
                if answer.transaction_states:
                    if self.loop.time() > deadline_s:
                        raise Violation(f"not brought to an end: {answer.transaction_states}")
                    await asyncio.sleep(0.5)
                    raise Unhappy("a transaction is open")

            if "proxy" in self.kind.roles[node_id]:
                await asker.until_done(attempt)
                asker.disconnect()
