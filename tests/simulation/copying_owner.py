"""A copier that is a member of its group by heartbeats alone (KIP-848): its offsets carry its member epoch.

What is taken from it, it has copied or aborted before it lets go. It may stand still and go on afterwards as if nothing had
happened: by then others may have copied what it read, and its offsets have to be refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping
from math import inf
from typing import Any

from tests.simulation.clients import Address, Unhappy
from tests.simulation.committed_reads import group_offsets
from tests.simulation.connection import Disconnected
from tests.simulation.group_member import GroupMember, MemberHabits, Subscription
from tests.simulation.history import Violation
from tests.simulation.ownership import Ownership
from tests.simulation.transaction_crowd import GROUP, Copying, World
from tests.simulation.transactional_producer import Member, MustAbort, TransactionalProducer

SESSION_S = 2.0


class CopyingOwner(GroupMember):
    """Its session is shorter than some transactions, and than many of its pauses in one."""

    GROUP = GROUP
    session_s = SESSION_S
    rebalance_timeout_s = SESSION_S

    def __init__(
        self,
        name: str,
        address: Address,
        rng: random.Random,
        ownership: Ownership,
        habits: MemberHabits,
        fail: Callable[[Violation], None],
        copying: Copying,
        producer: TransactionalProducer,
    ) -> None:
        super().__init__(name, address, rng, ownership, Subscription((copying.source,)), None, habits, fail)
        self._copying = copying
        self._producer = producer
        self._offsets: dict[int, int] = {}  # by partition: where it goes on

    async def live(self) -> None:
        await self._producer.start()
        await super().live()

    async def _round(self) -> None:
        epoch = self.epoch
        await self._heartbeat()
        if not epoch:
            self._offsets.clear()
        self._let_go()
        mine = {number for _, number in self.owned}
        self._offsets = {number: offset for number, offset in self._offsets.items() if number in mine}
        new = sorted(mine - self._offsets.keys())
        if new:
            copying = self._copying
            self._offsets |= await group_offsets(
                self, copying.world.history, self.GROUP, copying.source, new, is_stable=True
            )
        await self._copy()

    async def _copy(self) -> None:
        if not self._offsets:
            return
        member = Member(self.member_id, self.epoch)
        try:
            await self._copying.copy_some(self, self._producer, self._offsets, member)
        except MustAbort:
            await self._producer.abort()

    async def _commit_after_a_pause(self) -> None:
        try:
            await self._copy()
        except (Unhappy, Disconnected):
            return


def copying_habits(dice: random.Random) -> MemberHabits:
    """It commits in transactions alone, and lives as long as its producer."""
    return MemberHabits(hang_rate=dice.choice((0.0, 0.05, 0.2)), late_rate=0.0, slow_rate=0.1, life_s=inf)


def copying_owners(
    world: World, copying: Copying, ownership: Ownership, habits: MemberHabits, count: int
) -> Mapping[str, Callable[[TransactionalProducer], Coroutine[Any, Any, None]]]:
    """Lives of `count` members, by transactional id."""

    def fail(violation: Violation) -> None:
        if not world.failure.done():
            world.failure.set_exception(violation)

    def live_of(name: str) -> Callable[[TransactionalProducer], Coroutine[Any, Any, None]]:
        async def live(producer: TransactionalProducer) -> None:
            member: CopyingOwner = world.make(
                f"{producer.name} owner", CopyingOwner, ownership, habits, fail, copying, producer
            )
            try:
                await member.live()
            finally:
                member.vanish()

        return live

    return {name: live_of(name) for name in (f"o{number}" for number in range(count))}
