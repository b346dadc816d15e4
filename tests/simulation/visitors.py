"""Who asks everywhere, at servers that were replaced too, what must be true from whoever says it (rules 14 and 15)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from tests.simulation.clients import (
    EARLIEST,
    LATEST,
    Client,
    Consumer,
    OutOfRange,
    Unhappy,
    committed_offset,
    fetch,
    listed_offset,
)
from tests.simulation.connection import Disconnected
from tests.simulation.history import History, Violation
from tests.simulation.outcome import Outcome

Address = tuple[str, int]
VISITS_PER_S = 15
FUTURE_EPOCH = 1_000_000


class Visitors:
    """`places()`: where somebody may be asked now. `failure` gets the first violation."""

    def __init__(
        self,
        history: History,
        outcome: Outcome,
        dice: Random,
        places: Callable[[], Sequence[Address]],
        partitions: int,
    ) -> None:
        self._history = history
        self._outcome = outcome
        self._dice = dice
        self._places = places
        self._partitions = partitions
        self._visits: set[asyncio.Task[None]] = set()
        self.failure: asyncio.Future[None] = asyncio.get_event_loop().create_future()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._dice.expovariate(VISITS_PER_S))
            places = self._places()
            if not places:
                continue
            address = self._dice.choice(places)
            client = Client("visitor", lambda address=address: address, self._dice)  # type: ignore[misc]
            partition = self._dice.randrange(self._partitions)
            ask = self._dice.choice(
                (
                    self._ask_latest,
                    self._ask_latest,
                    self._ask_committed,
                    self._ask_committed,
                    self._ask_records,
                    self._ask_records,
                    self._ask_old_records,
                    self._ask_time,
                    self._ask_start,
                    self._ask_from_the_future,
                )
            )
            task = asyncio.get_running_loop().create_task(self._visit(client, ask(client, partition)))
            self._visits.add(task)
            task.add_done_callback(self._visited)

    def stop(self) -> None:
        for task in self._visits:
            task.cancel()

    async def _visit(self, client: Client, question: Awaitable[None]) -> None:
        try:
            await question
            self._outcome.answers += 1
        except (Disconnected, Unhappy):
            pass
        finally:
            client.disconnect()

    def _visited(self, task: asyncio.Task[None]) -> None:
        self._visits.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_exception(error)

    async def _ask_latest(self, client: Client, partition: int) -> None:
        known = self._history.least_end(partition)
        said = await listed_offset(client, partition, LATEST)
        if said < known:
            raise Violation(f"{client.place} said {partition} ends at {said}, but {known} was told before")
        self._history.hear_high_watermark(partition, said, asyncio.get_running_loop().time())

    async def _ask_committed(self, client: Client, partition: int) -> None:
        known = self._history.committed[partition]
        self._history.fetched_commit(partition, await committed_offset(client, Consumer.GROUP, partition), known)

    async def _ask_records(self, client: Client, partition: int) -> None:
        """What comes next."""
        await self._ask_at(client, partition, self._history.least_end(partition))

    async def _ask_old_records(self, client: Client, partition: int) -> None:
        end = self._history.end_offset(partition)
        offset = self._dice.randrange(end) if end else 0
        found = await self._ask_at(client, partition, offset)
        if not found and offset < end:
            raise Unhappy("it was not ready in time")

    async def _ask_at(self, client: Client, partition: int, offset: int) -> list[tuple[int, bytes]]:
        try:
            return await fetch(client, self._history, partition, offset, 50)
        except OutOfRange as error:
            if offset < self._history.starts_wanted[partition]:
                return []
            raise Violation(
                f"{client.place} calls {offset} of {partition} out of range; it was acknowledged"
            ) from error

    async def _ask_time(self, client: Client, partition: int) -> None:
        start, end = self._history.starts_wanted[partition], self._history.end_offset(partition)
        known = self._dice.randrange(start, end) if start < end else -1
        time_ms = self._history.times_ms.get((partition, known), -1)
        if time_ms < 0:
            return
        said = await listed_offset(client, partition, time_ms)
        if known >= self._history.starts_wanted[partition]:
            self._history.check_time(partition, time_ms, said, known)

    async def _ask_start(self, client: Client, partition: int) -> None:
        known = self._history.starts[partition]
        said = await listed_offset(client, partition, EARLIEST)
        if not known <= said <= self._history.starts_wanted[partition]:
            raise Violation(f"{client.place} said {partition} begins at {said}, but below {known} all was deleted")

    async def _ask_from_the_future(self, client: Client, partition: int) -> None:
        """Whoever knows of a later epoch than the one who is asked must not be answered by it (rule 14)."""
        ask = self._dice.choice(("records", "latest"))
        if ask == "records":
            offset = self._history.starts_wanted[partition]
            await fetch(client, self._history, partition, offset, 0, leader_epoch=FUTURE_EPOCH)
        else:
            await listed_offset(client, partition, LATEST, leader_epoch=FUTURE_EPOCH)
        raise Violation(f"{client.place} answered for {partition} at an epoch that is not yet")


async def read_all(client: Client, history: History, partition: int) -> list[tuple[int, bytes]]:
    """A partition from its start to its high watermark, however often that has to be tried."""

    async def attempt() -> list[tuple[int, bytes]]:
        records: list[tuple[int, bytes]] = []
        end = await listed_offset(client, partition, LATEST)
        place = await listed_offset(client, partition, EARLIEST)
        while place < end:
            found = await fetch(client, history, partition, place, 1000)
            if not found:
                raise Violation(f"nothing at {place} of {partition} below the high watermark {end}")
            records += found
            place += len(found)
        return records

    return await client.until_done(attempt)
