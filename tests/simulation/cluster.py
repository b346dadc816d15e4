"""A whole cluster under clients: nodes of all roles, killed, paused, cut off from each other, drained and restarted.

Every node id keeps coming back under a new incarnation on a host of its own; one that was paused wakes as a zombie.
ZooKeeper is played by the fake that passes the same contract tests. Clients talk to any proxy: each serves everything.
Beside what clients see, what every process knows is compared all the time (cluster_rules.py).
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Coroutine
from functools import partial
from typing import Any

from bmq.membership.controller_leadership import ElectionBehindLog
from bmq.metadata.image import MetadataImage, PartitionImage
from bmq.server.node import NodeServer
from bmq.server.node_dependencies import NodeHooks
from bmq.server.settings import load_settings
from tests.fakes.election import FakeElectionService
from tests.fakes.store import FakeStore, Faults
from tests.fakes.store_writer import AppendFailure
from tests.simulation.aged_topic import AgedKind, AgedTopic, broker_settings
from tests.simulation.cleaning_watch import CleaningHabits, CleaningWatch, HurtCleaners, watched_cleaning
from tests.simulation.clients import (
    LATEST,
    TOPIC,
    Client,
    Consumer,
    Unhappy,
    committed_offset,
    create_topic,
    listed_offset,
)
from tests.simulation.clock import SimulatedClock
from tests.simulation.cluster_chaos import PARTITIONS, ClusterChaos, highest_metadata_epoch, move
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.cluster_node import NodeProcess, hooks_of
from tests.simulation.cluster_rules import ClusterRules, check_nothing_is_left
from tests.simulation.crowd import Crowd
from tests.simulation.fault_rates import FaultRates, worsen
from tests.simulation.history import History, Violation
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.simulation.node_losses import NodeLosses, find_shortage
from tests.simulation.outcome import Outcome
from tests.simulation.process import Process
from tests.simulation.store_troubles import StoreTroubles
from tests.simulation.topic_life import TopicLife
from tests.simulation.until_done import until_done
from tests.simulation.visitors import Visitors, read_all

BATCHES_PER_PRODUCER = 20
# dfs.namenode.redundancy.interval.seconds: a NameNode looks for blocks with too few replicas all the time, not only after a
# DataNode has returned. A duplicate of a batch that lies on too few is not acknowledged before that.
REDUNDANCY_INTERVAL_S = 3.0
TIME_LIMIT_S = 400.0
REPORTS_WAIT_S = 2.5
_KAFKA_PORT, _INTERNAL_PORT, _REST_PORT = 9092, 9093, 8080


class SomeNode:
    """A client's view of where to go: one proxy until it fails, then another. An old address may be taken for a while."""

    def __init__(self, cluster: Cluster, dice: random.Random) -> None:
        self._cluster = cluster
        self._dice = dice
        self._chosen: NodeProcess | None = None

    def __call__(self) -> tuple[str, int] | None:
        chosen = self._chosen
        if chosen is None or not chosen.process.is_alive or self._dice.random() < 0.03:
            serving = [node for node in self._cluster.nodes.values() if node.address is not None]
            self._chosen = chosen = self._dice.choice(serving) if serving else None
        return None if chosen is None else chosen.address

    def disappointed(self) -> None:
        self._chosen = None


class Cluster:
    """The hosts, the store, the election service and the incarnations of the nodes."""

    name = "cluster"  # of the kind of history: another one has other dice
    may_age = True  # beside its own topics there may be one that is compacted, shortened and made again

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        self.seed = seed
        self.rates = rates.draw(self._dice("rates"))
        self.kind = self._kind()
        self.loop = VirtualTimeLoop(time_limit_s=TIME_LIMIT_S)
        self.loop.expected_failures = (AppendFailure,)
        self.network = Network(self.loop, self._dice("network"))
        self.network.reset_rate = self.rates["resets"]
        self.store = FakeStore(self._dice("store"), self.kind.faults)
        worsen(self.store.faults, self.rates)
        self.troubles = StoreTroubles(self.store, self._dice("troubles"), self.rates)
        self.elections = FakeElectionService(
            self.loop, self._dice("elections"), session_timeout_s=2.0, start_wait_s=10.0
        )
        self.history = History()
        self.history.on_acknowledge = self._check_acknowledged
        self.history.is_resending = True
        self.outcome = Outcome(seed)
        self.data_nodes = NodeLosses(self.loop, self.store, self.outcome, self._dice("data nodes"), away_s=3.0)
        self.rules = ClusterRules(self.loop, self.store, self.outcome, is_looking_inside)
        self._operator = self._dice("operator")
        self._restarting: list[NodeProcess] = []
        self.nodes: dict[int, NodeProcess] = {}
        self.past: list[NodeProcess] = []
        self._aged_kind = self._kind_of_aged() if self.may_age else None
        self._aged: AgedTopic | None = None
        self.watch_of_cleaning: CleaningWatch[NodeProcess] = CleaningWatch(self.outcome)
        self._cleaning_habits = CleaningHabits.of(self._dice("cleaning"))
        hurting = ClusterChaos(self, self._dice("hurting"))
        self._hurt_cleaners = HurtCleaners(self.rates["hurt_cleaners"], self._dice("hurt cleaners"), hurting.hurt)
        self.watch_of_cleaning.on_group = self._hurt_cleaners
        self._settings = self._server_settings()

    def _kind(self) -> ClusterKind:
        return ClusterKind.of(self._dice("kind"))

    def _kind_of_aged(self) -> AgedKind | None:
        return AgedKind.of(self._dice("aged"), self.rates)

    def _server_settings(self) -> dict[str, Any]:
        settings = self.kind.settings()
        if self._aged_kind is not None:
            settings["broker"] |= broker_settings()
        return settings

    def _clock(self, node_id: int, number: int) -> SimulatedClock:
        """Of a node's incarnation."""
        return SimulatedClock(self.loop)

    def _dice(self, purpose: str) -> random.Random:
        return random.Random(f"{self.name} {self.seed} {purpose}")

    # --- nodes

    def start_node(self, node_id: int) -> NodeProcess:
        before = self.nodes.get(node_id)
        if before is not None:
            self.past.append(before)
        number = sum(1 for node in self.past if node.node_id == node_id)
        host = f"node-{node_id}-{number}"
        process = Process(self.loop, host)
        client = self.store.client(host)
        election = self.elections.session(node_id)
        process.on_kill(client.kill)
        process.on_kill(election.kill)
        node = self.nodes[node_id] = NodeProcess(node_id, process, client, election)
        process.spawn(self._serve(node, host, number))
        return node

    async def _serve(self, node: NodeProcess, host: str, number: int) -> None:
        given = {
            "node_id": node.node_id,
            "roles": self.kind.roles[node.node_id],
            "listen": f"{host}:{_KAFKA_PORT}",
            "internal": f"{host}:{_INTERNAL_PORT}",
            "internode_security": {"mode": "plaintext"},
            "store": "hdfs://simulated:1/",
            "zookeeper": "simulated:1",
            "rack": f"rack-{node.node_id % 2}",
            **self._settings,
        }
        settings = load_settings(given, None).settings
        dice = self._dice(f"node {node.node_id} {number}")
        while True:
            server = node.server = NodeServer(
                settings,
                node.client,
                node.election,
                self._clock(node.node_id, number),
                dice,
                rest=(host, _REST_PORT),
                hooks=self._hooks(node, dice),
            )
            try:
                node.address, _ = await server.start()
                return
            except Exception as error:
                # A node that cannot start exits; systemd starts it again.
                self._failed(node, error)
                await server.stop()
                await asyncio.sleep(0.3)
                if self.nodes.get(node.node_id) is not node:
                    return
                node.metadata_offset = node.controller_epoch = -1
                node.election = self.elections.session(node.node_id)
                node.process.on_kill(node.election.kill)

    def _hooks(self, node: NodeProcess, dice: random.Random) -> NodeHooks:
        hooks = hooks_of(
            self.kind, partial(self.rules.saw_image, node), partial(self.rules.same_for_all, node), self._elected
        )
        if self._aged_kind is None or not self._aged_kind.terms.is_compacted:
            return hooks
        dice = self._dice(f"cleaning {node.process.host}")
        cleaning = watched_cleaning(node, node.client, self.watch_of_cleaning, self._cleaning_habits, dice)
        return dataclasses.replace(hooks, cleaning=cleaning)

    def _elected(self) -> None:
        self.outcome.elections += 1

    def _failed(self, node: NodeProcess, error: BaseException | None) -> None:
        node.last_error = f"{type(error).__name__}: {error}"
        if isinstance(error, ElectionBehindLog):
            self.elections.epoch = max(self.elections.epoch, highest_metadata_epoch(self.store))

    # --- what must hold all the time

    async def watch(self) -> None:
        replicated_s = self.loop.time()
        while True:
            await asyncio.sleep(0.2)
            if self.loop.time() - replicated_s >= REDUNDANCY_INTERVAL_S:
                replicated_s = self.loop.time()
                self.store.replicate()
            self.check_now()
            for node in [*self.past, *self.nodes.values()]:
                # A node that ends by itself (its registration was refused for good) is started again.
                if node.server is not None and node.server.failed.done() and node.process.is_alive:
                    self._failed(node, node.server.failed.exception())
                    self._restart(node)
            for node in tuple(self.nodes.values()):
                if node not in self._restarting and node.has_offline_partitions:
                    self._restarting.append(node)
                    self.loop.call_later(self._operator.uniform(0.2, 3.0), self._restart, node)

    def _restart(self, node: NodeProcess) -> None:
        node.process.kill()
        if self.nodes[node.node_id] is node:
            self.start_node(node.node_id)

    def _check_acknowledged(self, values: list[bytes]) -> None:
        violation = find_shortage(
            self.store, "topics", values[-1], min(self.kind.min_insync_replicas, self.store.nodes.wanted)
        )
        if violation is not None:
            raise violation

    def check_now(self) -> None:
        if self.loop.failures:
            failure = self.loop.failures[0]
            raise Violation(
                f"an exception nobody caught in {failure.get('process')}: "
                f"{failure.get('exception')!r} {failure.get('message')}"
            )
        self.rules.check([*self.past, *self.nodes.values()])

    # --- the run

    def _places(self) -> list[tuple[str, int]]:
        """Where somebody may be asked: living nodes, and what was paused and replaced meanwhile."""
        nodes = [*self.nodes.values(), *self.past[-3:]]
        return [node.address for node in nodes if node.address is not None and node.process.is_alive]

    def client(self, name: str, kind: Any = Client, *more: Any) -> Any:
        """One that goes to another node when it is disconnected."""
        dice = self._dice(name)
        where = SomeNode(self, dice)
        client = kind(name, where, dice, *more)
        disconnect = client.disconnect

        def disappointed() -> None:
            where.disappointed()
            disconnect()

        client.disconnect = disappointed
        return client

    async def run(self) -> None:
        for node_id in self.kind.roles:
            self.start_node(node_id)
        watching = self.loop.create_task(self.watch())
        admin = self.client("admin")
        await create_topic(admin, PARTITIONS, self.kind.topic_configs())
        crowd = Crowd(self.client, self.history, self._dice("crowd"), self.rates, PARTITIONS)
        visitors = Visitors(self.history, self.outcome, self._dice("visitors"), self._places, PARTITIONS)
        chaos = self.loop.create_task(ClusterChaos(self, self._dice("chaos")).run())
        works = [visitors.run(), *crowd.works()]
        if self.kind.is_making_topics:
            kept = {"retention.ms": "-1"}  # its records are old
            works.append(TopicLife(self.client("topics"), self._dice("topics"), self.outcome, kept).run())
        works += self.aging()
        others = [watching, *(self.loop.create_task(work) for work in works)]
        for producer in crowd.producers:
            producer.pace_s = self.kind.pace_s
        writing = crowd.write(BATCHES_PER_PRODUCER, lambda: not chaos.done())
        await until_done((writing, chaos), (visitors.failure, *others))
        for task in others:
            task.cancel()
        visitors.stop()
        self._calm()
        await self._check_end(admin)
        await admin.until_done(crowd.committer.check)
        crowd.count(self.outcome)

    def aging(self) -> list[Coroutine[Any, Any, None]]:
        """What is done to the topic of which less and less is there, in seeds that have one."""
        if self._aged_kind is None:
            return []
        self._aged = AgedTopic(self._aged_kind, self.client, self._places, self._dice("aged steps"), self.outcome)
        return self._aged.works()

    async def check_aged(self) -> None:
        if self._aged is not None:
            await self._aged.check_settled()

    def _calm(self) -> None:
        """Faults end, everything old is gone, and the nodes that start now read what is stored."""
        self.check_now()
        self._cleaning_habits.is_calm = self._hurt_cleaners.is_calm = True
        self.store.faults = Faults()
        self.troubles.end()
        self.data_nodes.all_return()
        self.network.reset_rate = 0.0
        self.network.heal()
        self.elections.resume()
        for node in [*self.past, *self.nodes.values()]:
            node.process.kill()
        for node_id in self.kind.roles:
            self.start_node(node_id)

    async def _check_end(self, admin: Client) -> None:
        watching = self.loop.create_task(self.watch())
        final = {partition: await read_all(admin, self.history, partition) for partition in range(PARTITIONS)}
        await self._check_commits(admin)
        self.history.check_final(final)
        ends = {partition: self.history.least_end(partition) for partition in range(PARTITIONS)}
        await self._until_reported(admin)
        await self._check_floors(admin, ends)
        for partition in range(PARTITIONS):
            said = await admin.until_done(lambda p=partition: listed_offset(admin, p, LATEST))  # type: ignore[misc]
            if said != ends[partition]:
                raise Violation(f"{partition} ends at {said} after a move, it did at {ends[partition]} before")
        await self._check_commits(admin)
        await self.check_aged()
        self.check_now()
        for node in self.nodes.values():
            if self.rules.is_looking_inside and node.roles is not None:
                check_nothing_is_left(node.roles)
        self.outcome.moves = self.rules.moves
        if watching.done():
            watching.result()
        watching.cancel()

    async def _check_commits(self, admin: Client) -> None:
        for partition in range(PARTITIONS):
            offset = await admin.until_done(lambda p=partition: committed_offset(admin, Consumer.GROUP, p))  # type: ignore[misc]
            self.history.fetched_commit(partition, offset, self.history.committed[partition])

    async def _until_reported(self, admin: Client) -> None:
        """Every owner has begun to write, and stayed the owner for long enough to report it."""

        async def attempt() -> None:
            before = self.newest_image().topics[TOPIC].partitions
            for partition in range(PARTITIONS):
                await listed_offset(admin, partition, LATEST)
            await asyncio.sleep(REPORTS_WAIT_S)
            after = self.newest_image().topics[TOPIC].partitions
            if [one.leader_epoch for one in before] != [one.leader_epoch for one in after]:
                raise Unhappy("the balancer is at work")

        await admin.until_done(attempt)

    async def _check_floors(self, admin: Client, ends: dict[int, int]) -> None:
        """After a quiet while the controller knows all of every log, and whoever is named next is told (rule 5)."""
        image = self.newest_image()
        before = {partition.partition: partition for partition in image.topics[TOPIC].partitions}
        wanted = {
            number: [next(broker for broker in self.kind.brokers if broker != partition.leader)]
            for number, partition in before.items()
        }
        await admin.until_done(lambda: move(admin, wanted))
        await admin.until_done(lambda: self._all_moved(before))
        for partition in self.newest_image().topics[TOPIC].partitions:
            end = ends[partition.partition]
            if partition.high_watermark_floor < end:
                raise Violation(
                    f"the floor of {partition.partition} is {partition.high_watermark_floor}, its owner had {end} for long"
                )

    async def _all_moved(self, before: dict[int, PartitionImage]) -> None:
        for partition in self.newest_image().topics[TOPIC].partitions:
            if partition.leader_epoch == before[partition.partition].leader_epoch:
                raise Unhappy("not yet")

    def newest_image(self) -> MetadataImage:
        images = [node.server.image for node in self.nodes.values() if node.server is not None]
        return max(images, key=lambda image: image.offset)
