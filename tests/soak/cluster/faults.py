"""How each kind of fault is done to a site, and made good again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final

from testing.cluster import ClusterNode
from tests.soak.cluster.orders import Orders
from tests.soak.cluster.plan import CONTROLLER, Fault, Kind
from tests.soak.cluster.site import Site
from tests.soak.hazards import LATE_S, LATE_SHARE, lose_power

MOVE_PAUSE_S: Final = 0.5
NOBODYS: Final = (Kind.ZOOKEEPER_AWAY, Kind.DATANODE_KILL, Kind.MOVES, Kind.LATE_CALLS, Kind.POWER_LOSS)


class Performer:
    """`topic`: whose partitions are moved. `moved_count`, `drained_count`: orders that succeeded. `orders`: knows those that did not."""

    def __init__(self, site: Site, topic: str, partitions: int) -> None:
        self.moved_count = 0
        self.drained_count = 0
        self.orders = Orders(site.cluster)
        self._site = site
        self._topic = topic
        self._partitions = partitions
        self._brokers = [node for node in site.nodes if node.is_broker]

    def victim(self, fault: Fault, controller: ClusterNode | None) -> ClusterNode | None:
        """The node it happens to; None when it happens to none. `controller`: where the active one is, if it is known."""
        if fault.kind in NOBODYS:
            return None
        if fault.target == CONTROLLER:
            return controller or self._brokers[0]
        node = self._site.cluster.node(fault.target)
        return node if node.is_broker or fault.kind is not Kind.DRAIN else self._brokers[0]

    async def perform(self, fault: Fault, victim: ClusterNode | None) -> None:
        """`victim`: what `victim` said just now. Raises BmqError, AssertionError when it cannot be made good."""
        await _PERFORMERS[fault.kind](self, fault, victim or self._brokers[0])

    # -- A node is gone ----------------------------------------------------------------------------------------------

    async def _kill(self, fault: Fault, node: ClusterNode) -> None:
        await asyncio.to_thread(self._site.end_expected, node)
        await asyncio.to_thread(node.kill)
        await asyncio.sleep(fault.lasts_s)
        await self._site.start_again(node)

    async def _pause(self, fault: Fault, node: ClusterNode) -> None:
        node.pause()
        await asyncio.sleep(fault.lasts_s)
        node.resume()

    async def _restart(self, fault: Fault, node: ClusterNode) -> None:
        await asyncio.to_thread(self._site.end_expected, node)
        await asyncio.to_thread(node.stop)
        await asyncio.sleep(fault.lasts_s)
        await self._site.start_again(node)

    async def _unplug(self, fault: Fault, node: ClusterNode) -> None:
        assert node.host is not None
        await asyncio.to_thread(node.host.unplug)
        await asyncio.sleep(fault.lasts_s)
        await asyncio.to_thread(node.host.plug)

    # -- The network between two -------------------------------------------------------------------------------------

    async def _cut_between_nodes(self, fault: Fault, node: ClusterNode) -> None:
        await self._part(fault, node, [self._site.address_of(self._other(fault, node))])

    async def _cut_one_way(self, fault: Fault, node: ClusterNode) -> None:
        cut = (self._site.address_of(node), self._site.address_of(self._other(fault, node)))
        await self._cut(fault, [cut])

    async def _cut_from_nodes(self, fault: Fault, node: ClusterNode) -> None:
        """Clients, ZooKeeper and HDFS still reach it."""
        await self._part(fault, node, [self._site.address_of(each) for each in self._site.nodes if each is not node])

    async def _cut_from_zookeeper(self, fault: Fault, node: ClusterNode) -> None:
        await self._part(fault, node, [self._site.zookeeper_address])

    async def _cut_from_hdfs(self, fault: Fault, node: ClusterNode) -> None:
        await self._part(fault, node, self._site.hdfs_addresses)

    async def _part(self, fault: Fault, node: ClusterNode, others: Sequence[str]) -> None:
        """Both directions."""
        address = self._site.address_of(node)
        await self._cut(fault, [cut for other in others for cut in ((address, other), (other, address))])

    async def _cut(self, fault: Fault, cuts: Sequence[tuple[str, str]]) -> None:
        """From one address to another, each of them."""
        for sender, receiver in cuts:
            await asyncio.to_thread(self._site.network.cut, sender, receiver)
        await asyncio.sleep(fault.lasts_s)
        await asyncio.to_thread(self._site.network.mend, cuts)

    def _other(self, fault: Fault, node: ClusterNode) -> ClusterNode:
        return [each for each in self._site.nodes if each is not node][fault.other]

    # -- What the nodes need -----------------------------------------------------------------------------------------

    async def _zookeeper_away(self, fault: Fault, _: ClusterNode) -> None:
        await self._site.zookeeper.stop()
        await asyncio.sleep(fault.lasts_s)
        await self._site.zookeeper.start()

    async def _kill_datanode(self, fault: Fault, _: ClusterNode) -> None:
        daemon = self._site.hdfs.datanode(fault.target)
        await daemon.kill()
        await asyncio.sleep(fault.lasts_s)
        await daemon.start()

    async def _delay_calls(self, fault: Fault, _: ClusterNode) -> None:
        """Calls that are kept back are carried out when their times come, most of them after this is over."""
        assert self._site.late_calls is not None
        self._site.late_calls.begin(LATE_SHARE, LATE_S)
        await asyncio.sleep(fault.lasts_s)
        self._site.late_calls.end()

    async def _lose_power(self, fault: Fault, _: ClusterNode) -> None:
        # What HDFS closed by itself is not on its disks before a start has synced it, and would be gone.
        await asyncio.to_thread(self._site.wait_served, self._topic, self._partitions)
        await lose_power(self._site.hdfs, self._site.disks, fault.lasts_s)

    # -- What operators do -------------------------------------------------------------------------------------------

    async def _move(self, fault: Fault, _: ClusterNode) -> None:
        """One partition after the other to some other broker."""
        random, loop = Random(fault.seed), asyncio.get_running_loop()
        until_s = loop.time() + fault.lasts_s
        while loop.time() < until_s:
            partition, to = random.randrange(self._partitions), random.choice(self._brokers)
            self.moved_count += await self.orders.move(self._topic, partition, to.node_id)
            await asyncio.sleep(MOVE_PAUSE_S)

    async def _drain(self, fault: Fault, node: ClusterNode) -> None:
        self.drained_count += await self.orders.drain(node.node_id)
        await asyncio.sleep(fault.lasts_s)
        await self.orders.undrain(node.node_id)


_PERFORMERS: Final[dict[Kind, Callable[[Performer, Fault, ClusterNode], Awaitable[None]]]] = {
    Kind.NODE_KILL: Performer._kill,
    Kind.NODE_PAUSE: Performer._pause,
    Kind.NODE_RESTART: Performer._restart,
    Kind.NODE_UNPLUGGED: Performer._unplug,
    Kind.CUT_BETWEEN_NODES: Performer._cut_between_nodes,
    Kind.CUT_ONE_WAY: Performer._cut_one_way,
    Kind.CUT_FROM_NODES: Performer._cut_from_nodes,
    Kind.CUT_FROM_ZOOKEEPER: Performer._cut_from_zookeeper,
    Kind.CUT_FROM_HDFS: Performer._cut_from_hdfs,
    Kind.ZOOKEEPER_AWAY: Performer._zookeeper_away,
    Kind.DATANODE_KILL: Performer._kill_datanode,
    Kind.MOVES: Performer._move,
    Kind.DRAIN: Performer._drain,
    Kind.NODE_STANDSTILL: Performer._pause,
    Kind.LATE_CALLS: Performer._delay_calls,
    Kind.POWER_LOSS: Performer._lose_power,
}
