"""A client that commits greater and greater offsets of its own, without being a member of anything.

It gives a commit up after its patience and sends the next one elsewhere. What it gave up may be carried out or not, but
never after a later one was acknowledged (rule 22).
"""

from __future__ import annotations

import asyncio
import random

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages import offset_commit_request
from tests.simulation.clients import TOPIC, Address, Client, Unhappy, committed_offset, expect
from tests.simulation.connection import Disconnected
from tests.simulation.history import History

PACE_S = 0.3


class Committer(Client):
    """Has a `History` of its own group, of which only the commits are used."""

    def __init__(self, name: str, address: Address, rng: random.Random) -> None:
        super().__init__(name, address, rng)
        self.commits = History()
        self._group = f"{name} group"
        self._offset = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / PACE_S))
            try:
                await (self._commit() if self.rng.random() < 0.7 else self.check())
            except Disconnected:
                self.disconnect()
            except Unhappy:
                continue

    async def check(self) -> None:
        """Raises Violation, Disconnected, Unhappy."""
        known = self.commits.committed[0]
        self.commits.fetched_commit(0, await committed_offset(self, self._group, 0), known)

    async def _commit(self) -> None:
        self._offset += 1
        offset = self._offset
        self.commits.try_commit(0, offset)
        data = offset_commit_request.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = offset_commit_request.OffsetCommitRequest(
            group_id=self._group,
            topics=[offset_commit_request.OffsetCommitRequestTopic(name=TOPIC, partitions=[data])],
        )
        answer = await self.request(ApiKey.OFFSET_COMMIT, 7, request)
        expect(answer.topics[0].partitions[0].error_code)
        self.commits.commit(0, offset)
