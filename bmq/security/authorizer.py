"""Who may do what, decided as Kafka's StandardAuthorizer decides it (StandardAuthorizerData, 4.3). Decisions only.

In this order: a super user may; a matching denial refuses; a matching permission allows; a resource with ACLs, whoever they
are for, refuses; a resource without any allows if `allow.everyone.if.no.acl.found` says so, else it refuses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address
from typing import Final, NamedTuple
from uuid import UUID

from bmq.security.acls import (
    IMPLIES_DESCRIBE,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    name_of,
)

DECISIONS_KEPT_MAX: Final = 100_000
"""Decisions that are kept for the same question; with one more all are forgotten."""
SUPER_USER: Final = "SuperUser"
DEFAULT_ALLOW: Final = "DefaultAllow"
DEFAULT_DENY: Final = "DefaultDeny"
_HARD_CODED_NAME: Final = "hardcode"


class Verdict(NamedTuple):
    """`rule`: why, as Kafka's audit log says it."""

    is_allowed: bool
    rule: str


class Decider:
    """Holds the ACLs of a cluster. `super_users`: TYPE:NAME. Change them by `put` and `remove`."""

    def __init__(self, super_users: frozenset[str] = frozenset(), *, allows_without_acl: bool = False) -> None:
        self.super_users = super_users
        self.allows_without_acl = allows_without_acl
        self._acls: dict[UUID, Acl] = {}
        # By type and name.
        self._literals: defaultdict[tuple[int, str], list[Acl]] = defaultdict(list)
        self._prefixes: defaultdict[tuple[int, str], list[Acl]] = defaultdict(list)
        self._prefix_lengths: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._kept: dict[tuple[str, str, int, int, str], Verdict] = {}
        self._kept_by_type: dict[tuple[str, str, int, int], Verdict] = {}

    def __len__(self) -> int:
        return len(self._acls)

    # ---------------------------------------------------------------- the ACLs

    def replace(self, acls: Mapping[UUID, Acl]) -> None:
        """Hold these in place of what there is; what stays costs next to nothing."""
        for gone in [acl_id for acl_id, acl in self._acls.items() if acls.get(acl_id) != acl]:
            self.remove(gone)
        for acl_id, acl in acls.items():
            if acl_id not in self._acls:
                self.put(acl_id, acl)

    def put(self, acl_id: UUID, acl: Acl) -> None:
        self._acls[acl_id] = acl
        self._kept.clear()
        self._kept_by_type.clear()
        acl = acl._replace(host=normal_host(acl.host))
        if acl.pattern_type == PatternType.PREFIXED:
            self._prefixes[acl.resource_type, acl.resource_name].append(acl)
            self._prefix_lengths[acl.resource_type][len(acl.resource_name)] += 1
        else:
            self._literals[acl.resource_type, acl.resource_name].append(acl)

    def remove(self, acl_id: UUID) -> None:
        """Unknown ids are ignored."""
        acl = self._acls.pop(acl_id, None)
        if acl is None:
            return
        self._kept.clear()
        self._kept_by_type.clear()
        acl = acl._replace(host=normal_host(acl.host))
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        index, key = (self._prefixes if is_prefix else self._literals), (acl.resource_type, acl.resource_name)
        index[key].remove(acl)
        if not index[key]:
            del index[key]
        if is_prefix:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    # ---------------------------------------------------------------- decisions

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        """`host`: as text, as Java prints it."""
        key = (principal, host, operation, resource_type, name)
        verdict = self._kept.get(key)
        if verdict is None:
            verdict = self._decided(*key)
            if len(self._kept) >= DECISIONS_KEPT_MAX:
                self._kept.clear()
            self._kept[key] = verdict
        return verdict

    def decide_by_type(self, principal: str, host: str, operation: int, resource_type: int) -> Verdict:
        """Whether the client may do it with any resource of the type at all (KIP-679). Looks at every ACL, so it is kept."""
        key = (principal, host, operation, resource_type)
        verdict = self._kept_by_type.get(key)
        if verdict is None:
            verdict = self._decided_by_type(*key)
            if len(self._kept_by_type) >= DECISIONS_KEPT_MAX:
                self._kept_by_type.clear()
            self._kept_by_type[key] = verdict
        return verdict

    def _decided_by_type(self, principal: str, host: str, operation: int, resource_type: int) -> Verdict:
        verdict = self.decide(principal, host, operation, resource_type, _HARD_CODED_NAME)
        if verdict.is_allowed:
            return verdict
        exact = [
            acl
            for acl in self._acls.values()
            if acl.resource_type == resource_type
            and acl.operation in (operation, Operation.ALL)
            and acl._replace(host=normal_host(acl.host)).applies_to(principal, host)
        ]
        denied = [acl for acl in exact if acl.permission == Permission.DENY]
        literal = {acl.resource_name for acl in denied if acl.pattern_type == PatternType.LITERAL}
        prefixes = tuple(acl.resource_name for acl in denied if acl.pattern_type == PatternType.PREFIXED)
        if WILDCARD in literal:
            return Verdict(False, DEFAULT_DENY)
        for acl in exact:
            if acl.permission != Permission.ALLOW:
                continue
            is_literal = acl.pattern_type == PatternType.LITERAL
            if is_literal and acl.resource_name == WILDCARD:
                return Verdict(True, _rule_of(acl))
            is_covered = acl.resource_name.startswith(prefixes) or (is_literal and acl.resource_name in literal)
            if not is_covered:
                return Verdict(True, _rule_of(acl))
        return Verdict(False, DEFAULT_DENY)

    def _decided(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        if principal in self.super_users:
            return Verdict(True, SUPER_USER)
        allowing: Acl | None = None
        has_acl = False
        for acl in self._of(resource_type, name):
            has_acl = True
            if not acl.applies_to(principal, host) or not _covers(acl, operation):
                continue
            if acl.permission == Permission.DENY:
                return Verdict(False, _rule_of(acl))
            allowing = allowing or acl
        if allowing is not None:
            return Verdict(True, _rule_of(allowing))
        if has_acl or not self.allows_without_acl:
            return Verdict(False, DEFAULT_DENY)
        return Verdict(True, DEFAULT_ALLOW)

    def _of(self, resource_type: int, name: str) -> Iterator[Acl]:
        """All ACLs whose pattern has this name."""
        yield from self._literals.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literals.get((resource_type, WILDCARD), ())
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._prefixes.get((resource_type, name[:length]), ())


def _covers(acl: Acl, operation: int) -> bool:
    if acl.operation in (operation, Operation.ALL):
        return True
    if acl.permission != Permission.ALLOW:
        return False
    if operation == Operation.DESCRIBE:
        return acl.operation in IMPLIES_DESCRIBE
    return operation == Operation.DESCRIBE_CONFIGS and acl.operation == Operation.ALTER_CONFIGS


def _rule_of(acl: Acl) -> str:
    """As Kafka prints its record StandardAcl."""
    return (
        f"MatchingAcl(acl=StandardAcl[resourceType={name_of(ResourceType, acl.resource_type)}, "
        f"resourceName={acl.resource_name}, patternType={name_of(PatternType, acl.pattern_type)}, "
        f"principal={acl.principal}, host={acl.host}, operation={name_of(Operation, acl.operation)}, "
        f"permissionType={name_of(Permission, acl.permission)}])"
    )


def normal_host(host: str) -> str:
    """An address as Java prints it: IPv6 in eight groups without leading zeros, IPv4 inside IPv6 as IPv4."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


def super_users_of(text: str) -> frozenset[str]:
    """The principals of the config super.users: TYPE:NAME, separated by `;`. Raises ValueError with one sentence."""
    found = frozenset(part.strip() for part in text.split(";") if part.strip())
    for one in found:
        kind, separator, name = one.partition(":")
        if not separator or not kind or not name:
            raise ValueError(f"super.users has {one!r}, which is not TYPE:NAME, as User:alice")
    return found
