"""What goes wrong in a cluster: its processes, its links, its store, ZooKeeper; and what operators do meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from bmq.log.names import parse_epoch_directory, partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import METADATA_TOPIC_ID
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages import alter_partition_reassignments_request as reassign
from bmq.protocol.messages import delete_records_request, elect_leaders_request
from tests.fakes.namespace import Directory
from tests.fakes.store import FakeStore
from tests.simulation.clients import TOPIC, Client, Unhappy, expect
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.connection import Disconnected

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

PARTITIONS = 3
LONG_PAUSE_S = (7.0, 20.0)
# How often each thing happens, compared with the others.
KINDS: Mapping[str, float] = {
    "kill": 3,
    "kill_controller": 2,
    "kill_after_decision": 2,
    "pause": 3,
    "pause_controller": 2,
    "replace": 2,
    "stop": 2,
    "cut": 2,
    "cut_one_way": 2,
    "cut_zookeeper": 2,
    "cut_controller_off": 1,
    "split": 4,
    "hang_store": 2,
    "reset": 1,
    "zookeeper": 1.5,
    "expire": 1,
    "wipe": 0.2,
    "move": 5,
    "move_many": 2,
    "drain": 1,
    "crowd": 1,
}


class ClusterChaos:
    """`run` ends after the kind's number of rounds; what it began is over a few seconds later at most."""

    def __init__(self, cluster: Cluster, dice: random.Random, kinds: Mapping[str, float] = KINDS) -> None:
        self._kinds = kinds
        self._cluster = cluster
        self._dice = dice
        self._loop = cluster.loop
        self._outcome = cluster.outcome

    async def run(self) -> None:
        dice, kind = self._dice, self._cluster.kind
        names = list(self._kinds)
        for _ in range(kind.rounds):
            await asyncio.sleep(dice.expovariate(1 / kind.between_s))
            self._cluster.check_now()
            self._cluster.troubles.maybe_begin()
            name = dice.choices(names, weights=[self._kinds[name] for name in names])[0]
            action: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
            await action()
            if kind.is_deleting and dice.random() < 0.5:
                await self._delete_records()
            if kind.are_data_nodes_lost and dice.random() < 0.4:
                self._cluster.data_nodes.lose_some()

    def _any(self) -> NodeProcess:
        return self._cluster.nodes[self._dice.choice(sorted(self._cluster.nodes))]

    def _controller(self) -> NodeProcess:
        """The active controller if there is one just now."""
        found = [node for node in self._cluster.nodes.values() if node.is_controller]
        if not found:
            return self._any()
        chosen = max(found, key=lambda node: node.server.controller.epoch)  # type: ignore[union-attr]
        self._outcome.controller_losses += 1
        return chosen

    def _later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> None:
        self._loop.call_later(delay_s, callback, *arguments)

    # --- processes

    async def _kill(self) -> None:
        await self._kill_one(self._any())

    async def _kill_controller(self) -> None:
        await self._kill_one(self._controller())

    async def _kill_after_decision(self) -> None:
        """What it decided may be written, half written, or answered and not yet told to anybody."""
        deciding = self._loop.create_task(self._move_some(self._dice.randint(1, PARTITIONS)))
        await asyncio.sleep(self._dice.uniform(0.0, 0.03))
        await self._kill_one(self._controller())
        await deciding

    async def _kill_one(self, node: NodeProcess) -> None:
        node.process.kill()
        self._outcome.kills += 1
        self._outcome.takeovers += 1
        await asyncio.sleep(self._dice.choice((0.0, 0.3, 3.0)) * self._dice.random())
        if self._cluster.nodes[node.node_id] is node:
            self._cluster.start_node(node.node_id)

    async def _pause(self) -> None:
        self._pause_one(self._any(), self._dice.uniform(0.1, 6))

    async def _pause_controller(self) -> None:
        """Long enough that another one leads when it wakes."""
        self._pause_one(self._controller(), self._dice.uniform(1.5, 5))

    async def _replace(self) -> None:
        """Its host hangs, and somebody starts the same node elsewhere."""
        node = self._any()
        self._pause_one(node, self._dice.uniform(1, 8))
        await asyncio.sleep(self._dice.uniform(0, 1))
        if self._cluster.nodes[node.node_id] is node:
            self._cluster.start_node(node.node_id)

    def _pause_one(self, node: NodeProcess, duration_s: float) -> None:
        if self._dice.random() < self._cluster.rates["long_pauses"]:
            duration_s = self._dice.uniform(*LONG_PAUSE_S)
            self._outcome.long_pauses += 1
        node.process.pause()
        node.client.pause()
        self._outcome.pauses += 1
        self._later(duration_s, self._wake, node)

    def hurt(self, node: NodeProcess) -> None:
        """It dies, or hangs and another process takes its place, while it is in the middle of something."""
        if not node.is_working or self._cluster.nodes[node.node_id] is not node:
            return
        self._outcome.cleaners_hurt += 1
        if self._dice.random() < 0.5:
            node.process.kill()
            self._outcome.kills += 1
            self._outcome.takeovers += 1
            self._later(self._dice.choice((0.0, 0.3, 3.0)) * self._dice.random(), self._start_again, node)
        else:
            self._pause_one(node, self._dice.uniform(0.1, 6))
            if self._dice.random() < 0.5:
                self._later(self._dice.uniform(0, 1), self._start_again, node)

    def _wake(self, node: NodeProcess) -> None:
        node.client.resume()
        node.process.resume()
        if self._cluster.nodes[node.node_id] is not node:
            # Two processes of one node: whoever started the second one ends the first when it shows up again.
            self._later(self._dice.uniform(0.5, 4), node.process.kill)

    async def _stop(self) -> None:
        node = self._any()
        if node.server is None or node.is_stopping or not node.is_working:
            return
        self._outcome.hand_overs += 1
        node.is_stopping = True
        stopping = node.process.spawn(node.server.stop())
        await asyncio.wait([stopping], timeout=self._dice.choice((0.5, 12.0)))
        node.process.kill()
        if self._cluster.nodes[node.node_id] is node:
            self._cluster.start_node(node.node_id)

    async def _crowd(self) -> None:
        """Several die at once."""
        for node in self._dice.sample(list(self._cluster.nodes.values()), 2):
            node.process.kill()
            self._outcome.kills += 1
            self._outcome.takeovers += 1
            self._later(self._dice.uniform(0, 1), self._start_again, node)

    def _start_again(self, node: NodeProcess) -> None:
        if self._cluster.nodes[node.node_id] is node:
            self._cluster.start_node(node.node_id)

    # --- links, store, ZooKeeper

    async def _cut(self) -> None:
        self._cut_two(self._any(), self._any(), is_one_way=False)

    async def _cut_one_way(self) -> None:
        self._cut_two(self._any(), self._any(), is_one_way=True)

    def _cut_two(
        self, node: NodeProcess, other: NodeProcess, *, is_one_way: bool, duration_s: float | None = None
    ) -> None:
        if node is other:
            return
        hosts = node.process.host, other.process.host
        self._cluster.network.cut(*hosts, is_one_way=is_one_way)
        self._later(duration_s or self._dice.uniform(0.2, 5), self._cluster.network.mend, *hosts)
        self._outcome.cuts += 1

    async def _cut_zookeeper(self) -> None:
        self._cut_zookeeper_off(self._any())

    async def _cut_controller_off(self) -> None:
        """From ZooKeeper, and sometimes from the other nodes too: for a while it goes on believing that it leads."""
        node = self._controller()
        self._cut_zookeeper_off(node)
        if self._dice.random() < 0.5:
            for other in tuple(self._cluster.nodes.values()):
                self._cut_two(node, other, is_one_way=self._dice.random() < 0.3)

    async def _split(self) -> None:
        """Two sides that hear nothing of each other, one of them without ZooKeeper; both with the store and with clients."""
        nodes = list(self._cluster.nodes.values())
        self._dice.shuffle(nodes)
        count = self._dice.randint(1, len(nodes) - 1)
        duration_s = self._dice.uniform(0.5, 6)
        for node in nodes[:count]:
            self._cut_zookeeper_off(node, duration_s)
            for other in nodes[count:]:
                self._cut_two(node, other, is_one_way=False, duration_s=duration_s)

    def _cut_zookeeper_off(self, node: NodeProcess, duration_s: float | None = None) -> None:
        election = node.election
        self._cluster.elections.cut(election)
        self._later(duration_s or self._dice.uniform(0.2, 5), self._cluster.elections.mend, election)
        self._outcome.cuts += 1

    async def _hang_store(self) -> None:
        """One node's way to the store is blocked while it talks to everybody else."""
        node = self._any()
        if node.is_working:
            node.client.pause()
            self._later(self._dice.uniform(0.2, 4), self._resume_store, node)
            self._outcome.cuts += 1

    def _resume_store(self, node: NodeProcess) -> None:
        if not node.process.is_paused:
            node.client.resume()

    async def _reset(self) -> None:
        self._outcome.resets += self._cluster.network.reset_some(self._dice.randint(1, 6))

    async def _zookeeper(self) -> None:
        self._outcome.zookeeper_outages += 1
        elections = self._cluster.elections
        elections.pause()
        is_time_counted = self._dice.random() < 0.3
        self._later(self._dice.uniform(0.2, 6), lambda: elections.resume(is_time_counted=is_time_counted))

    async def _expire(self) -> None:
        self._cluster.elections.expire(self._any().election)

    async def _wipe(self) -> None:
        """ZooKeeper comes back without its data; the operator sees to the epoch when a controller asks for it."""
        self._cluster.elections.wipe()
        self._outcome.zookeeper_outages += 1

    # --- what operators do

    async def _move(self) -> None:
        await self._move_some(1)

    async def _move_many(self) -> None:
        await self._move_some(PARTITIONS)

    async def _move_some(self, count: int) -> None:
        """Other preferred owners: the present ones are asked to hand over."""
        dice, brokers = self._dice, self._cluster.kind.brokers
        replicas = {
            n: dice.sample(brokers, dice.randint(1, len(brokers))) for n in dice.sample(range(PARTITIONS), count)
        }
        client = self._cluster.client("mover")
        try:
            await move(client, replicas)
            self._outcome.hand_overs += 1
            if dice.random() < 0.5:
                await client.request(
                    ApiKey.ELECT_LEADERS, 2, elect_leaders_request.ElectLeadersRequest(timeout_ms=5_000)
                )
        except (Disconnected, Unhappy):
            pass
        finally:
            client.disconnect()

    async def _drain(self) -> None:
        node = next((node for node in self._cluster.nodes.values() if node.is_controller and node.is_working), None)
        if node is None:
            return
        drained = self._dice.choice(self._cluster.kind.brokers)

        async def drain() -> None:
            controller = node.server.controller if node.server is not None else None
            if controller is None:
                return
            try:
                await controller.set_draining(drained, True, "maintenance")
                await asyncio.sleep(self._dice.uniform(0, 2))
                await controller.set_draining(drained, False, "done")
            except BmqError:
                return

        node.process.spawn(drain())
        self._outcome.hand_overs += 1

    async def _delete_records(self) -> None:
        history = self._cluster.history
        partition = self._dice.randrange(PARTITIONS)
        before_offset = self._dice.randint(0, history.end_offset(partition))
        history.delete(partition, before_offset)
        wanted = delete_records_request.DeleteRecordsPartition(partition_index=partition, offset=before_offset)
        topic = delete_records_request.DeleteRecordsTopic(name=TOPIC, partitions=[wanted])
        request = delete_records_request.DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
        client = self._cluster.client("deleter")
        try:
            answer = await client.request(ApiKey.DELETE_RECORDS, 2, request)
            result = answer.topics[0].partitions[0]
            expect(result.error_code)
            history.deleted(partition, result.low_watermark)
            self._outcome.deletions += 1
        except (Disconnected, Unhappy):
            pass
        finally:
            client.disconnect()


async def move(client: Client, replicas: dict[int, list[int]], topic_name: str = TOPIC) -> None:
    """Name other replicas for partitions of the topic. Raises Disconnected, Unhappy."""
    partitions = [
        reassign.ReassignablePartition(partition_index=partition, replicas=wanted)
        for partition, wanted in replicas.items()
    ]
    topics = [reassign.ReassignableTopic(name=topic_name, partitions=partitions)]
    request = reassign.AlterPartitionReassignmentsRequest(timeout_ms=5_000, topics=topics)
    answer = await client.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    if answer.error_code:
        raise Unhappy(ErrorCode(answer.error_code).name)
    for topic in answer.responses:
        for partition in topic.partitions:
            if partition.error_code:
                raise Unhappy(ErrorCode(partition.error_code).name)


def highest_metadata_epoch(store: FakeStore) -> int:
    """What a controller that does not start tells the operator to raise ZooKeeper's counter to."""
    directory = store.namespace.find(partition_directory(TopicPartition(METADATA_TOPIC_ID, 0)))
    names = directory.children if isinstance(directory, Directory) else ()
    return max((parsed[0] for name in names if (parsed := parse_epoch_directory(name))), default=0)
