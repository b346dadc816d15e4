"""The users of the comparison: one with no right, one with each right alone, one with all but each right, one with all,
and users with ACLs that were drawn."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bmq.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType


class Right(NamedTuple):
    """An operation on every resource of a type."""

    operation: Operation
    resource: ResourceType

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource.name}"


_OPERATIONS: Final = {
    ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.CLUSTER: "CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
    ResourceType.TRANSACTIONAL_ID: "WRITE DESCRIBE TWO_PHASE_COMMIT",
    ResourceType.DELEGATION_TOKEN: "DESCRIBE",
    ResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
}
RIGHTS: Final = tuple(
    Right(Operation[name], resource) for resource, names in _OPERATIONS.items() for name in names.split()
)
"""Every operation that an API of either server asks for."""


class Grant(NamedTuple):
    """An ACL of a persona, by default for every resource of the type."""

    operation: Operation
    resource: ResourceType
    permission: Permission = Permission.ALLOW
    name: str = "*"
    pattern: PatternType = PatternType.LITERAL


@dataclass(frozen=True, slots=True)
class Persona:
    """A user."""

    name: str
    acls: tuple[Grant, ...] = ()

    @property
    def user(self) -> str:
        """The name to log in with."""
        return self.name.lower().replace(" ", "-")

    def creations(self) -> Iterator[dict[str, Any]]:
        """Its ACLs as CreateAcls takes them."""
        for one in self.acls:
            yield {
                "resource_type": one.resource,
                "resource_name": CLUSTER_NAME if one.resource is ResourceType.CLUSTER else one.name,
                "resource_pattern_type": one.pattern,
                "principal": f"User:{self.user}",
                "host": "*",
                "operation": one.operation,
                "permission_type": one.permission,
            }


_ALL: Final = tuple(Grant(Operation.ALL, resource) for resource in _OPERATIONS)
NOBODY: Final = Persona("nobody")
EVERYTHING: Final = Persona("everything", _ALL)
ONLY: Final = {right: Persona(f"only {right}", (Grant(*right),)) for right in RIGHTS}
ALL_BUT: Final = {right: Persona(f"all but {right}", (*_ALL, Grant(*right, Permission.DENY))) for right in RIGHTS}
PERSONAS: Final = (NOBODY, *ONLY.values(), *ALL_BUT.values(), EVERYTHING)

_NAMES: Final = ("*", "*", "shared-read", "s", "shared-", "f", "d", "describe", "none")
_GRANTS_MAX: Final = 12


def drawn(seed: int, count: int) -> list[Persona]:
    """Users with random sets of ACLs: of all operations, allowed and denied, by names and by prefixes."""
    dice = random.Random(seed)
    return [
        Persona(
            f"drawn {seed} {number}", tuple(dict.fromkeys(_grant(dice) for _ in range(dice.randint(1, _GRANTS_MAX))))
        )
        for number in range(count)
    ]


def _grant(dice: random.Random) -> Grant:
    right = dice.choice(RIGHTS)
    operation = Operation.ALL if dice.random() < 0.15 else right.operation
    permission = Permission.DENY if dice.random() < 0.2 else Permission.ALLOW
    if right.resource is ResourceType.CLUSTER:
        return Grant(operation, right.resource, permission)
    # Servers draw the ids of tokens, so that a prefix would meet others on each.
    name = "*" if right.resource is ResourceType.DELEGATION_TOKEN else dice.choice(_NAMES)
    is_prefix = name != "*" and dice.random() < 0.7
    return Grant(
        operation, right.resource, permission, name, PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    )
