"""All clients of a history of servers: who writes, reads and commits, how patient they are, and how often they leave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from tests.simulation.clients import Client, Consumer, Producer
from tests.simulation.committer import Committer
from tests.simulation.history import History
from tests.simulation.outcome import Outcome
from tests.simulation.plain_producer import PlainProducer

PATIENCES_S = (12.0, 12.0, 6.0)
# A member must outlive its patience and the pauses of nodes, or its generation ends before anything else can go wrong.
SESSIONS_MS = (6_000, 60_000)

MakeClient = Callable[..., Any]
"""(name, class, what the class takes besides name, address and dice) -> a client that knows where to go"""


class Crowd:
    def __init__(
        self, make: MakeClient, history: History, dice: random.Random, rates: Mapping[str, float], partitions: int
    ) -> None:
        self.producers: list[Producer] = [make(f"p{n}", Producer, history, partitions) for n in range(2)]
        consumers: list[Consumer] = [make(f"c{n}", Consumer, history, partitions) for n in range(2)]
        self.committer: Committer = make("committer", Committer)
        acks = dice.choice((-1, 1))
        plain: list[PlainProducer] = [make(f"a{acks}", PlainProducer, history, partitions, acks)]
        plain.append(make("a0", PlainProducer, history, partitions, 0))
        self._others: list[Any] = [*consumers, self.committer, *plain]
        self._everybody: list[Client] = [*self.producers, *self._others]
        is_hasty = rates["long_pauses"] > 0
        patience_s = min(PATIENCES_S) if is_hasty else dice.choice(PATIENCES_S)
        for client in self._everybody:
            client.patience_s = patience_s
            if client is not self.committer:
                client.leaving_rate = rates["leaving_clients"]
        for consumer in consumers:
            consumer.session_timeout_ms = max(SESSIONS_MS) if is_hasty else dice.choice(SESSIONS_MS)

    def works(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What everybody but the numbered producers does until it is cancelled."""
        return [client.run() for client in self._others]

    def write(self, batch_count: int, is_more_wanted: Callable[[], bool] = lambda: False) -> asyncio.Future[Any]:
        return asyncio.gather(*(producer.run(batch_count, is_more_wanted) for producer in self.producers))

    def count(self, outcome: Outcome) -> None:
        outcome.clients_left = sum(client.leave_count for client in self._everybody)
