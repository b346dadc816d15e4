"""Random sets of ACLs: each user has one of its own, and each wave of users one that is everybody's (`User:*`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from bmq.security.acls import Operation, PatternType, Permission, ResourceType
from tests.conformance.case import Case
from tests.conformance.rights.judged import Judged
from tests.conformance.rights.personas import EVERYBODY, RIGHTS, Grant, Persona
from tests.conformance.rights.run import ask_all, versions_of
from tests.conformance.rights.sides import Side

ASKED_EACH: Final = 4
"""Users that ask for a case in a version."""
WAVE_USERS: Final = 50
_NAMES: Final = ("*", "*", "shared-read", "s", "shared-", "f", "d", "describe", "none")
_OTHER_HOSTS: Final = ("127.0.0.1", "10.0.0.1")
"""The address of all users, and one that none has."""
_GRANTS_MAX: Final = 12
_GRANTS_OF_EVERYBODY_MAX: Final = 3
_LISTINGS: Final = (
    {},
    *({"resource_type_filter": int(kind), "resource_name_filter": "shared-read", "pattern_type_filter": int(PatternType.MATCH)}
      for kind in (ResourceType.TOPIC, ResourceType.GROUP)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wave:
    """Users who ask while `everybody` is in force; `number` of `count` says in which versions of the cases."""

    number: int
    count: int
    users: Sequence[Persona]
    everybody: Persona

    def in_turn(self) -> Callable[[Case], Iterator[Persona]]:
        """A few of the users for each case and version, until all were asked and then from the beginning."""
        turns = cycle(self.users)
        return lambda _: islice(turns, ASKED_EACH)

    def begin(self, sides: Sequence[Side]) -> Iterator[str]:
        """Put `everybody` in force; yields ACLs that the servers list otherwise: each user's, and those that match a name."""
        for side in sides:
            side.guests.allow(self.everybody)
        for user in (*self.users, self.everybody):
            for more in _LISTINGS:
                found = [side.guests.listed(principal_filter=user.principal, **more) for side in sides]
                yield from (f"{user.name} {more}: {one}" for one in sorted(found[0] ^ found[-1]))

    def versions(self, sides: Sequence[Side], case: Case) -> Sequence[int]:
        """This wave's share: each version of a case is in one wave, those of an API's cases are in many."""
        first = sum(case.name.encode())
        return [one for one in versions_of(sides, case) if (first + one) % self.count == self.number]


def drawn_waves(seed: int, sets: int) -> list[Wave]:
    """`sets`: users, each with a set of its own. All operations, allowed and denied, by names, prefixes and addresses."""
    dice = random.Random(seed)
    users = [Persona(f"drawn {seed} {number}", _set(dice, 1, _GRANTS_MAX)) for number in range(sets)]
    parts = [users[first : first + WAVE_USERS] for first in range(0, sets, WAVE_USERS)]
    return [
        Wave(number, len(parts), part, Persona(EVERYBODY, _set(dice, 0, _GRANTS_OF_EVERYBODY_MAX)))
        for number, part in enumerate(parts)
    ]


def _set(dice: random.Random, least: int, most: int) -> tuple[Grant, ...]:
    return tuple(dict.fromkeys(_grant(dice) for _ in range(dice.randint(least, most))))


def _grant(dice: random.Random) -> Grant:
    right = dice.choice(RIGHTS)
    operation = Operation.ALL if dice.random() < 0.15 else right.operation
    permission = Permission.DENY if dice.random() < 0.2 else Permission.ALLOW
    host = dice.choice(_OTHER_HOSTS) if dice.random() < 0.2 else "*"
    if right.resource is ResourceType.CLUSTER:
        return Grant(operation, right.resource, permission, host=host)
    # Servers draw the ids of tokens, so that a prefix would meet others on each.
    name = "*" if right.resource is ResourceType.DELEGATION_TOKEN else dice.choice(_NAMES)
    is_prefix = name != "*" and dice.random() < 0.7
    pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    return Grant(operation, right.resource, permission, name, pattern, host)


def ask_in_waves(
    sides: Sequence[Side],
    waves: Sequence[Wave],
    cases: Sequence[Case],
    judged: Judged,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """All of them, into `judged`."""
    for wave in waves:
        judged.add_listings(wave.begin(sides))
        tell(
            f"wave {wave.number + 1} of {wave.count}: everybody {', '.join(map(str, wave.everybody.acls)) or 'nothing'}"
        )
        for asked in ask_all(sides, cases, wave.in_turn(), wave.versions, tell):
            judged.add(asked)
