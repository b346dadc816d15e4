"""How nodes of a cluster are hurt, and partitions moved, while copiers work with them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from testing.cluster import BmqCluster, ClusterNode
from tests.e2e.cluster.test_groups_failover import java_hash
from tests.soak.cluster.orders import Orders
from tests.soak.etl.plan import Fault, Kind, Move, Role

STATE_TOPIC = "__transaction_state"
OFFSETS_TOPIC = "__consumer_offsets"


class Performer:
    """`note(what)`: hears of everything that is done. Use it in the main thread."""

    def __init__(
        self,
        cluster: BmqCluster,
        topics: tuple[str, str],
        group: str,
        transactional_ids: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        self.done: Counter[str] = Counter()
        self.orders = Orders(cluster)
        self._cluster = cluster
        self._topics = topics
        self._group = group
        self._transactional_ids = transactional_ids
        self._note = note
        self._brokers = [node for node in cluster.nodes.values() if node.is_broker]
        self._proxies = [node for node in cluster.nodes.values() if not node.is_broker] or self._brokers

    # -- Nodes -------------------------------------------------------------------------------------------------------

    async def hurt(self, fault: Fault) -> None:
        """And make it good. Raises ProcessFailed, AssertionError when that does not succeed."""
        node = await asyncio.to_thread(self._victim, fault.role, fault.number)
        self._note(f"{fault.kind} of node {node.node_id} ({fault.role} {fault.number}) for {fault.lasts_s} s")
        match fault.kind:
            case Kind.KILL:
                await self._kill([node], fault.lasts_s)
            case Kind.KILL_TWO:
                others = [other for other in self._cluster.nodes.values() if other is not node]
                await self._kill([node, others[fault.number % len(others)]], fault.lasts_s)
            case Kind.PAUSE:
                node.pause()
                await asyncio.sleep(fault.lasts_s)
                node.resume()
            case Kind.RESTART:
                await asyncio.to_thread(node.stop)
                await asyncio.sleep(fault.lasts_s)
                await self._start(node)
            case Kind.DRAIN:
                broker = node if node.is_broker else self._brokers[0]
                await self.orders.drain(broker.node_id)
                await asyncio.sleep(fault.lasts_s)
                await self.orders.undrain(broker.node_id)
        self.done[fault.kind] += 1
        self._note(f"{fault.kind} of node {node.node_id} is over")

    async def _kill(self, nodes: Sequence[ClusterNode], lasts_s: float) -> None:
        await asyncio.gather(*(asyncio.to_thread(node.kill) for node in nodes))
        await asyncio.sleep(lasts_s)
        await asyncio.gather(*map(self._start, nodes))

    async def _start(self, node: ClusterNode) -> None:
        """In this thread, the main one: the process dies with the thread that started it."""
        node.execute()
        await asyncio.to_thread(node.wait_until_ready)

    async def make_good(self) -> None:
        """Whatever a fault left behind that was not made good. Raises ProcessFailed, AssertionError."""
        for node in self._cluster.nodes.values():
            if node.is_paused:
                node.resume()
        await asyncio.gather(*(self._start(node) for node in self._cluster.nodes.values() if not node.is_running))
        await asyncio.to_thread(self._cluster.wait_settled)

    def _victim(self, role: Role, number: int) -> ClusterNode:
        """The node that has this role now; any, when nobody says who has it."""
        fallback = self._brokers[number % len(self._brokers)]
        if role is Role.PROXY:
            return self._proxies[number % len(self._proxies)]
        if role is Role.CONTROLLER:
            return self.orders.known_controller() or fallback
        topic, partition = self._place(role, number)
        try:
            return self._cluster.nodes.get(self._cluster.owners_of(topic)[partition], fallback)
        except AssertionError:
            return fallback

    # -- Partitions --------------------------------------------------------------------------------------------------

    async def move(self, move: Move) -> None:
        """To a broker that may be the one that has it."""
        topic, partition = await asyncio.to_thread(self._place, move.role, move.number)
        to = self._brokers[move.to % len(self._brokers)]
        self._note(f"move of {topic}-{partition} to node {to.node_id}")
        if await self.orders.move(topic, partition, to.node_id):
            self.done["move"] += 1

    def _place(self, role: Role, number: int) -> tuple[str, int]:
        """The topic and partition that are meant."""
        source, target = self._topics
        if role is Role.TRANSACTIONS:
            transactional_id = self._transactional_ids[number % len(self._transactional_ids)]
            return STATE_TOPIC, abs(java_hash(transactional_id)) % self._partitions(STATE_TOPIC)
        if role is Role.GROUP:
            return OFFSETS_TOPIC, abs(java_hash(self._group)) % self._partitions(OFFSETS_TOPIC)
        topic = source if role is Role.SOURCE else target
        return topic, number % self._partitions(topic)

    def _partitions(self, topic: str) -> int:
        try:
            return len(self._cluster.owners_of(topic)) or 1
        except AssertionError:
            return 1
