"""ACLs as the command line says them, and which of them a command means. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import typer

from bmq.dataclass import dataclass

CLUSTER_NAME: Final = "kafka-cluster"
ANY_HOST: Final = "*"


class AclResource(StrEnum):
    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


class AclOperationName(StrEnum):
    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster-action"
    DESCRIBE_CONFIGS = "describe-configs"
    ALTER_CONFIGS = "alter-configs"
    IDEMPOTENT_WRITE = "idempotent-write"


class AclEntry(NamedTuple):
    """`resource`, `operation`: AclResource and AclOperationName, or another word of a later release. `pattern`: literal or
    prefixed. `permission`: allow or deny.
    """

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    @property
    def sentence(self) -> str:
        """In one line."""
        start = "names that begin with " if self.pattern == "prefixed" else ""
        what = "the cluster" if self.resource == AclResource.CLUSTER else f"{self.resource} {start}{self.name}"
        at = "" if self.host == ANY_HOST else f" from {self.host}"
        return f"{self.permission} {self.principal}{at} to {self.operation} {what}"


@dataclass(frozen=True, slots=True)
class AclChoice:
    """What the options of a command name. Empty or None: not named."""

    topics: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    transactional_ids: Sequence[str] | None = None
    is_cluster: bool = False
    is_prefix: bool = False
    allowed: Sequence[str] | None = None
    denied: Sequence[str] | None = None
    operations: Sequence[AclOperationName] | None = None
    hosts: Sequence[str] | None = None

    @property
    def resources(self) -> list[tuple[str, str]]:
        """Type and name."""
        return [
            *((AclResource.TOPIC.value, name) for name in self.topics or ()),
            *((AclResource.GROUP.value, name) for name in self.groups or ()),
            *((AclResource.TRANSACTIONAL_ID.value, name) for name in self.transactional_ids or ()),
            *([(AclResource.CLUSTER.value, CLUSTER_NAME)] if self.is_cluster else []),
        ]

    @property
    def principals(self) -> list[tuple[str, str]]:
        """Permission and principal. Raises typer.BadParameter."""
        found = [*(("allow", one) for one in self.allowed or ()), *(("deny", one) for one in self.denied or ())]
        for _, one in found:
            kind, colon, name = one.partition(":")
            if not kind or not colon or not name:
                raise typer.BadParameter(f"{one!r} is not TYPE:NAME, such as User:alice")
        return found

    def entries(self) -> list[AclEntry]:
        """Every combination of what is named. Raises typer.BadParameter for what is missing."""
        if not self.resources:
            raise typer.BadParameter("name what it is about: --topic, --group, --transactional-id or --cluster")
        if not self.principals:
            raise typer.BadParameter("name who it is about: --allow TYPE:NAME or --deny TYPE:NAME")
        if not self.operations:
            raise typer.BadParameter("name what may be done: --operation")
        if self.is_prefix and self.is_cluster:
            raise typer.BadParameter("--prefix is for names, and the cluster has none")
        pattern = "prefixed" if self.is_prefix else "literal"
        return [
            AclEntry(resource, name, pattern, principal, host, operation.value, permission)
            for resource, name in self.resources
            for permission, principal in self.principals
            for host in self.hosts or (ANY_HOST,)
            for operation in self.operations or ()
        ]

    @property
    def is_empty(self) -> bool:
        """Whether it means every ACL."""
        return not (self.resources or self.principals or self.operations or self.hosts or self.is_prefix)

    def of(self, entries: Iterable[AclEntry]) -> list[AclEntry]:
        """Those that agree with all that is named, sorted. Raises typer.BadParameter."""
        resources, principals = set(self.resources), set(self.principals)
        operations = {one.value for one in self.operations or ()}
        return sorted(
            entry
            for entry in entries
            if (not resources or (entry.resource, entry.name) in resources)
            and (not principals or (entry.permission, entry.principal) in principals)
            and (not operations or entry.operation in operations)
            and (not self.hosts or entry.host in self.hosts)
            and (not self.is_prefix or entry.pattern == "prefixed")
        )
