"""What is sent to share groups, and what their members do with it: from a seed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from tests.soak.history import Origin

TOPIC: Final = "soak-queue"
LETTERS: Final = "dlq.soak-queue"
PARTITIONS: Final = 2
"""Fewer than members, or each would be one member's, and no record would ever come to another one."""
RECORDS_PER_S: Final = 100
LOCK_S: Final = 6.0
POLL_RECORDS_MAX: Final = 40
STALL_S: Final = LOCK_S + 1.5
KILL_SHARE: Final = 0.5
"""Of the times that members end; the others close first."""


class Choice(StrEnum):
    """What a member says of a record."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


FINAL: Final = frozenset({Choice.ACCEPT, Choice.REJECT})


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A share group. `stalled`: the share of polls after which a member lets its locks run out. `poisoned`: of so many
    records one is released by everybody, until it was delivered as often as `deliveries_max` allows; 0: none is.
    `life_s`: of a member, until it is killed or closes.
    """

    name: str
    members: int
    deliveries_max: int
    released: float
    rejected: float
    stalled: float
    poisoned: int
    life_s: tuple[float, float]

    def choice(self, random: Random, origin: Origin) -> Choice:
        if self.poisoned and origin.sequence % self.poisoned == self.poisoned - 1:
            return Choice.RELEASE
        drawn = random.random()
        if drawn < self.rejected:
            return Choice.REJECT
        return Choice.RELEASE if drawn < self.rejected + self.released else Choice.ACCEPT


SHARED: Final = GroupPlan(
    "soak-share",
    members=4,
    deliveries_max=10,
    released=0.05,
    rejected=0.01,
    stalled=0.03,
    poisoned=0,
    life_s=(10, 30),
)
GIVING_UP: Final = GroupPlan(
    "soak-letters",
    members=3,
    deliveries_max=3,
    released=0.02,
    rejected=0.05,
    stalled=0.03,
    poisoned=100,
    life_s=(15, 40),
)
GROUP_PLANS: Final = (SHARED, GIVING_UP)
