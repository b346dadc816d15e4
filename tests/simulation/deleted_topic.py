"""A writer whose transactions reach into a topic that is deleted under them, and made again under the same name.

What was written there is gone with it, whatever became of the transaction; everything else of the transaction holds as ever.
An end needs a marker in each partition: a partition that is gone may not hold up the others, or the id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import delete_topics_request
from tests.simulation.clients import Client, create_topic, expect
from tests.simulation.outcome import Outcome
from tests.simulation.transaction_crowd import World
from tests.simulation.transaction_history import Place, new_value
from tests.simulation.transactional_producer import MustAbort, TransactionalProducer

NAME = "passing"
PARTITIONS = 2
_DELETION_DELAYS_S = (0.0, 0.05, 0.5)


class WritingToDeleted:
    """`places`: of topics that stay. There is one topic of the name, so one such life at a time makes and deletes it."""

    def __init__(self, world: World, places: Sequence[Place], admin: Client, outcome: Outcome) -> None:
        self._world = world
        self._places = places
        self._admin = admin
        self._outcome = outcome
        self._is_taken = asyncio.Lock()

    async def live(self, producer: TransactionalProducer) -> None:
        world, count = self._world, 0
        await producer.start()
        while True:
            async with self._is_taken:
                await create_topic(self._admin, PARTITIONS, {}, NAME)
                producer.topic_made_again(NAME)
                producer.begin()
                deleting: asyncio.Task[None] | None = None
                try:
                    batches: dict[Place, list[bytes]] = {}
                    for place in (world.dice.choice(self._places), (NAME, world.dice.randrange(PARTITIONS))):
                        count += 1
                        batches[place] = [new_value(producer.name, count)]
                    await producer.send(batches)
                    deleting = asyncio.get_running_loop().create_task(self._delete())
                    await world.maybe_stop()
                    count += 1
                    await producer.send({world.dice.choice(self._places): [new_value(producer.name, count)]})
                    await world.end(producer)
                except MustAbort:
                    await producer.abort()
                finally:
                    # Also when the client is refused or gone: whoever comes next finds its transaction open, and the topic away.
                    if deleting is not None:
                        await asyncio.shield(deleting)
            await asyncio.sleep(world.dice.expovariate(1 / world.habits.pace_s))

    async def _delete(self) -> None:
        await asyncio.sleep(self._world.dice.choice(_DELETION_DELAYS_S) * self._world.dice.random())
        await self._admin.until_done(self._try_delete)
        self._outcome.deletions += 1

    async def _try_delete(self) -> None:
        request = delete_topics_request.DeleteTopicsRequest(topic_names=[NAME], timeout_ms=5_000)
        answer = await self._admin.request(ApiKey.DELETE_TOPICS, 4, request)
        expect(answer.responses[0].error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
