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


@dataclass(frozen=True, slots=True)
class Persona:
    """A user. `acls`: operation, resource type and permission, each for every resource of the type."""

    name: str
    acls: tuple[tuple[Operation, ResourceType, Permission], ...] = ()

    @property
    def user(self) -> str:
        """The name to log in with."""
        return self.name.lower().replace(" ", "-")

    def creations(self) -> Iterator[dict[str, Any]]:
        """Its ACLs as CreateAcls takes them."""
        for operation, resource, permission in self.acls:
            yield {
                "resource_type": resource,
                "resource_name": CLUSTER_NAME if resource is ResourceType.CLUSTER else "*",
                "resource_pattern_type": PatternType.LITERAL,
                "principal": f"User:{self.user}",
                "host": "*",
                "operation": operation,
                "permission_type": permission,
            }


_ALL: Final = tuple((Operation.ALL, resource, Permission.ALLOW) for resource in _OPERATIONS)
NOBODY: Final = Persona("nobody")
EVERYTHING: Final = Persona("everything", _ALL)
ONLY: Final = {right: Persona(f"only {right}", ((*right, Permission.ALLOW),)) for right in RIGHTS}
ALL_BUT: Final = {right: Persona(f"all but {right}", (*_ALL, (*right, Permission.DENY))) for right in RIGHTS}
PERSONAS: Final = (NOBODY, *ONLY.values(), *ALL_BUT.values(), EVERYTHING)
