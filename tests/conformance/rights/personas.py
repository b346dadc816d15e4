"""The users of the comparison: one with no right, one with each right alone, one with all but each right, one with all."""

from __future__ import annotations

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
    host: str = "*"


EVERYBODY: Final = "*"


@dataclass(frozen=True, slots=True)
class Persona:
    """A user; EVERYBODY: whoever asks."""

    name: str
    acls: tuple[Grant, ...] = ()

    @property
    def user(self) -> str:
        """The name to log in with."""
        return self.name.lower().replace(" ", "-")

    @property
    def principal(self) -> str:
        return f"User:{self.user}"

    def creations(self) -> Iterator[dict[str, Any]]:
        """Its ACLs as CreateAcls takes them."""
        for one in self.acls:
            yield {
                "resource_type": one.resource,
                "resource_name": CLUSTER_NAME if one.resource is ResourceType.CLUSTER else one.name,
                "resource_pattern_type": one.pattern,
                "principal": self.principal,
                "host": one.host,
                "operation": one.operation,
                "permission_type": one.permission,
            }


_ALL: Final = tuple(Grant(Operation.ALL, resource) for resource in _OPERATIONS)
NOBODY: Final = Persona("nobody")
EVERYTHING: Final = Persona("everything", _ALL)
ONLY: Final = {right: Persona(f"only {right}", (Grant(*right),)) for right in RIGHTS}
ALL_BUT: Final = {right: Persona(f"all but {right}", (*_ALL, Grant(*right, Permission.DENY))) for right in RIGHTS}
PERSONAS: Final = (NOBODY, *ONLY.values(), *ALL_BUT.values(), EVERYTHING)
