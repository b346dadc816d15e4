"""What goes wrong with coordinators, and around the end of a transaction: they die, hang, move, or do not reach partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import OFFSETS_TOPIC_NAME
from tests.simulation.clients import Unhappy
from tests.simulation.cluster_chaos import KINDS as USUAL_KINDS
from tests.simulation.cluster_chaos import ClusterChaos, move
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.connection import Disconnected

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

TRANSACTIONS_TOPIC_NAME = "__transaction_state"
END_WAIT_S = 2.0
COORDINATOR_KINDS: Mapping[str, float] = {**USUAL_KINDS, "kill_coordinator": 4, "move_coordinators": 4}
KINDS: Mapping[str, float] = {
    **USUAL_KINDS,
    "kill_at_end": 4,
    "pause_at_end": 3,
    "move_at_end": 4,
    "cut_at_end": 4,
    "move_coordinators": 3,
}


class CoordinatorChaos(ClusterChaos):
    """Also coordinators, of groups unless another topic is given, die and move."""

    def __init__(
        self,
        cluster: Cluster,
        dice: Any,
        kinds: Mapping[str, float] = COORDINATOR_KINDS,
        topic_names: Sequence[str] = (OFFSETS_TOPIC_NAME,),
    ) -> None:
        super().__init__(cluster, dice, kinds)
        self._topic_names = topic_names

    def _owner(self) -> NodeProcess:
        """Whoever owns a partition of a coordinators' topic, if anybody does."""
        topic = self._cluster.newest_image().topics.get(self._dice.choice(self._topic_names))
        owners = []
        for node in self._cluster.nodes.values():
            roles = node.roles if node.is_working else None
            if topic is None or roles is None:
                continue
            keys = [TopicPartition(topic.topic_id, one.partition) for one in topic.partitions]
            if any(roles.manager.ready(key) is not None for key in keys):
                owners.append(node)
        return self._dice.choice(owners) if owners else self._any()

    async def _kill_coordinator(self) -> None:
        await self._kill_one(self._owner())

    async def _move_coordinators(self) -> None:
        """The partitions of such a topic get other owners, as an operator may order."""
        dice, brokers = self._dice, self._cluster.kind.brokers
        name = dice.choice(self._topic_names)
        topic = self._cluster.newest_image().topics.get(name)
        if topic is None:
            return
        numbers = [one.partition for one in topic.partitions]
        wanted = {number: dice.sample(brokers, dice.randint(1, len(brokers))) for number in numbers}
        client = self._cluster.client("mover")
        try:
            await move(client, wanted, name)
            self._outcome.hand_overs += 1
        except (Disconnected, Unhappy):
            pass
        finally:
            client.disconnect()


class TransactionChaos(CoordinatorChaos):
    """`is_ending` is set whenever a client is about to end a transaction."""

    def __init__(self, cluster: Cluster, dice: Any, is_ending: asyncio.Event) -> None:
        super().__init__(cluster, dice, KINDS, (TRANSACTIONS_TOPIC_NAME, TRANSACTIONS_TOPIC_NAME, OFFSETS_TOPIC_NAME))
        self._is_ending = is_ending

    async def _at_end(self) -> NodeProcess:
        """A coordinator, a moment after a client was about to end a transaction."""
        self._is_ending.clear()
        try:
            async with asyncio.timeout(END_WAIT_S):
                await self._is_ending.wait()
        except TimeoutError:
            return self._any()
        await asyncio.sleep(self._dice.choice((0.0, 0.02, 0.2)) * self._dice.random())
        return self._owner()

    async def _kill_at_end(self) -> None:
        await self._kill_one(await self._at_end())

    async def _pause_at_end(self) -> None:
        self._pause_one(await self._at_end(), self._dice.uniform(0.1, 6))

    async def _cut_at_end(self) -> None:
        """The markers stay on the way."""
        node = await self._at_end()
        duration_s = self._dice.uniform(0.2, 5)
        for other in tuple(self._cluster.nodes.values()):
            if other is not node and self._dice.random() < 0.6:
                self._cut_two(node, other, is_one_way=self._dice.random() < 0.3, duration_s=duration_s)

    async def _move_at_end(self) -> None:
        await self._at_end()
        await self._move_coordinators()
