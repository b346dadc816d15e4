"""What goes wrong while logs are compacted: owners die, hang and move in the middle of it, and records are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages import delete_records_request
from tests.simulation.clients import Unhappy, expect
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.compaction_history import CompactionHistory
from tests.simulation.connection import Disconnected
from tests.simulation.transaction_chaos import KINDS as USUAL_KINDS
from tests.simulation.transaction_chaos import TransactionChaos
from tests.simulation.transaction_history import Place

if TYPE_CHECKING:
    from tests.simulation.cleaning_watch import CleaningWatch
    from tests.simulation.cluster import Cluster

CLEANING_WAIT_S = 3.0
EVENTS_MAX = 6
KINDS: Mapping[str, float] = {
    **USUAL_KINDS,
    "kill_cleaner": 8,
    "pause_cleaner": 6,
    "replace_cleaner": 4,
    "move_from_cleaner": 8,
    "hang_store_of_cleaner": 4,
    "delete_while_cleaning": 5,
}


class CompactionChaos(TransactionChaos):
    """`places`: what is compacted."""

    def __init__(
        self,
        cluster: Cluster,
        dice: Any,
        is_ending: asyncio.Event,
        watch: CleaningWatch[NodeProcess],
        history: CompactionHistory,
        places: Sequence[Place],
    ) -> None:
        super().__init__(cluster, dice, is_ending)
        self._kinds = KINDS
        self._watch = watch
        self._history = history
        self._places = places

    async def _cleaner(self) -> NodeProcess:
        """A node in the middle of a cleaning: some events into it, and a moment later."""
        try:
            async with asyncio.timeout(CLEANING_WAIT_S):
                for _ in range(self._dice.randint(1, EVENTS_MAX)):
                    self._watch.moved.clear()
                    await self._watch.moved.wait()
        except TimeoutError:
            return self._any()
        await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.02)) * self._dice.random())
        node = self._watch.node
        return node if node is not None and node is self._cluster.nodes[node.node_id] else self._any()

    async def _kill_cleaner(self) -> None:
        await self._kill_one(await self._cleaner())

    async def _pause_cleaner(self) -> None:
        """Long enough now and then that others own its partitions when it goes on writing."""
        self._pause_one(await self._cleaner(), self._dice.uniform(0.1, 6))

    async def _replace_cleaner(self) -> None:
        node = await self._cleaner()
        self._pause_one(node, self._dice.uniform(1, 8))
        await asyncio.sleep(self._dice.uniform(0, 1))
        if self._cluster.nodes[node.node_id] is node:
            self._cluster.start_node(node.node_id)

    async def _move_from_cleaner(self) -> None:
        await self._cleaner()
        await self._move_some(len(self._places))

    async def _hang_store_of_cleaner(self) -> None:
        """It can neither write nor swap for a while, and others take over."""
        node = await self._cleaner()
        if node.is_working:
            node.client.pause()
            self._later(self._dice.uniform(0.2, 4), self._resume_store, node)
            self._outcome.cuts += 1

    async def _delete_while_cleaning(self) -> None:
        await self._cleaner()
        if self._history.terms.is_deleting:
            await self._delete_records()

    async def _delete_records(self) -> None:
        topic_name, partition = place = self._dice.choice(self._places)
        start, end = self._history.starts[place], self._history.stable_end(place)
        before_offset = self._dice.randint(start, max(start, (start + end) // 2))
        self._history.want_deleted(place, before_offset)
        wanted = delete_records_request.DeleteRecordsPartition(partition_index=partition, offset=before_offset)
        topic = delete_records_request.DeleteRecordsTopic(name=topic_name, partitions=[wanted])
        request = delete_records_request.DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
        client = self._cluster.client("deleter")
        try:
            answer = await client.request(ApiKey.DELETE_RECORDS, 2, request)
            result = answer.topics[0].partitions[0]
            expect(result.error_code)
            self._history.begins_at(place, result.low_watermark, before_offset)
            self._outcome.deletions += 1
        except (Disconnected, Unhappy):
            pass
        finally:
            client.disconnect()
