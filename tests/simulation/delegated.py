"""As compaction, and beside the nodes a job that cleans partitions for their owners, while these die, hang and move."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from bmq.log.delegated_compaction import DelegatedPlan
from bmq.protocol.errors import BmqError
from tests.fakes.store import FakeClient
from tests.fakes.store_writer import AppendFailure
from tests.simulation.compaction import Compaction

ASK_MAX_S: Final = 8.0


class DelegatedJob:
    """Plans, cleans and swaps, one partition after the other; now and then it is killed, or comes late."""

    def __init__(self, cluster: Delegated, dice: random.Random, number: int) -> None:
        self._cluster = cluster
        self._name = f"job-{number}"
        self._dice = dice
        self._number = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(0.2, 1.5))
            try:
                async with asyncio.timeout(ASK_MAX_S):  # a node that was killed answers nobody
                    await self._once()
            except (BmqError, TimeoutError, AppendFailure):  # whatever ends a job's task, another job may begin anew
                self._cluster.outcome.delegations_lost += 1

    async def _once(self) -> None:
        owners = self._cluster.owners()
        if not owners:
            return
        runtime = self._dice.choice(owners)
        time_limit_ms = self._dice.choice((300, 5_000, 5_000))
        plan = await runtime.compaction.delegation.plan(self._name, time_limit_ms)
        if plan is None:
            return
        await self._clean(plan)
        await asyncio.sleep(self._dice.choice((0.0, 0.1, 1.0)) * self._dice.random())
        # Whoever owns it by now.
        for owner in self._cluster.owners():
            if owner.topic_partition == runtime.topic_partition:
                await owner.compaction.delegation.swap(plan.reservation, plan.leader_epoch, self._pace)
                self._cluster.outcome.delegations += 1

    async def _clean(self, plan: DelegatedPlan) -> None:
        # Spark's job imports numpy, and no other kind of history needs it.
        from tests.support.delegated_job import clean

        self._number += 1
        store: FakeClient = self._cluster.store.client(f"{self._name}-{self._number}")
        cleaning = asyncio.ensure_future(clean(store, plan, attempt=f"{self._number:x}"))
        if self._dice.random() < 0.2:
            await asyncio.sleep(self._dice.uniform(0.0, 0.3))
            store.kill()  # what it has written so far stays, and the next one goes on or begins anew
            cleaning.cancel()
            await asyncio.gather(cleaning, return_exceptions=True)
            raise TimeoutError
        try:
            await cleaning
        finally:
            cleaning.cancel()

    async def _pace(self, _: int) -> None:
        await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.02, 0.3)) * self._dice.random())


class Delegated(Compaction):
    name = "delegated"

    def owners(self) -> list[Any]:
        return self._owners()

    def _clients(self) -> list[Any]:
        return [*super()._clients(), *(DelegatedJob(self, self._dice(f"job {number}"), number) for number in range(2))]
