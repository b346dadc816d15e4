"""Rights of clients, decided as Kafka's StandardAuthorizer decides them (StandardAuthorizerData, 4.3). Decisions only.

In this order: a super user may; a matching denial refuses; a matching permission allows; a resource with ACLs, whoever they
are for, refuses; a resource without any allows if `allow.everyone.if.no.acl.found` says so, else it refuses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv6Address
from typing import Final, NamedTuple
from uuid import UUID

from bmq.protocol.topic_names import NAME_LENGTH_MAX
from bmq.security.acls import (
    ANY_USER,
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
"""Decisions that are kept for the same question; with one more all are forgotten. Names longer than a topic's are not kept."""
SUPER_USER: Final = "SuperUser"
DEFAULT_ALLOW: Final = "DefaultAllow"
DEFAULT_DENY: Final = "DefaultDeny"
_HARD_CODED_NAME: Final = "hardcode"


class Verdict(NamedTuple):
    """`rule`: why, as Kafka's audit log says it."""

    is_allowed: bool
    rule: str


class Decider:
    """Holds the ACLs of a cluster. `super_users`: TYPE:NAME. Change them by `put` and `remove`.

    A decision looks at the ACLs of its own resource and principal alone, whatever else there is.
    """

    def __init__(self, super_users: frozenset[str] = frozenset(), *, allows_without_acl: bool = False) -> None:
        self.super_users = super_users
        self.allows_without_acl = allows_without_acl
        self._acls: dict[UUID, Acl] = {}  # with their hosts as Java prints them
        self._literals = _Patterns()
        self._prefixes = _Patterns()
        self._prefix_lengths: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._of_principals: dict[tuple[int, str], dict[UUID, Acl]] = {}  # by resource type and principal
        self._kept: dict[tuple[str, str, int, int, str], Verdict] = {}
        self._kept_by_type: dict[tuple[str, str, int, int], Verdict] = {}

    def __len__(self) -> int:
        return len(self._acls)

    # ---------------------------------------------------------------- the ACLs

    def replace(self, acls: Mapping[UUID, Acl]) -> None:
        """Hold these in place of what there is. Looks at all of them: `change` does not."""
        held = self._acls
        for acl_id, acl in acls.items():
            one = held.get(acl_id)
            if one is not acl and one != _normal(acl):
                self.change(((acl_id, acl),))
        if len(held) > len(acls):
            self.change([(acl_id, None) for acl_id in held if acl_id not in acls])

    def change(self, changes: Iterable[tuple[UUID, Acl | None]]) -> None:
        """Make these changes, in order; None: it is removed."""
        for acl_id, acl in changes:
            self.remove(acl_id)
            if acl is not None:
                self.put(acl_id, acl)

    def put(self, acl_id: UUID, acl: Acl) -> None:
        """Add one; its id is not there."""
        self._forget()
        acl = self._acls[acl_id] = _normal(acl)
        self._patterns_of(acl).put(acl_id, acl)
        self._of_principals.setdefault((acl.resource_type, acl.principal), {})[acl_id] = acl
        if acl.pattern_type == PatternType.PREFIXED:
            self._prefix_lengths[acl.resource_type][len(acl.resource_name)] += 1

    def remove(self, acl_id: UUID) -> None:
        """Unknown ids are ignored."""
        acl = self._acls.pop(acl_id, None)
        if acl is None:
            return
        self._forget()
        self._patterns_of(acl).remove(acl_id, acl)
        key = (acl.resource_type, acl.principal)
        of_principal = self._of_principals[key]
        del of_principal[acl_id]
        if not of_principal:
            del self._of_principals[key]
        if acl.pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def _patterns_of(self, acl: Acl) -> _Patterns:
        return self._prefixes if acl.pattern_type == PatternType.PREFIXED else self._literals

    def _forget(self) -> None:
        if self._kept:
            self._kept = {}
        if self._kept_by_type:
            self._kept_by_type = {}

    # ---------------------------------------------------------------- decisions

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        """`host`: as text, as Java prints it."""
        key = (principal, host, operation, resource_type, name)
        if len(name) > NAME_LENGTH_MAX:  # up to 32,767 bytes, which are a client's to choose: it is decided each time
            return self._decided(*key)
        verdict = self._kept.get(key)
        if verdict is None:
            verdict = self._decided(*key)
            if len(self._kept) >= DECISIONS_KEPT_MAX:
                self._kept.clear()
            self._kept[key] = verdict
        return verdict

    def decide_by_type(self, principal: str, host: str, operation: int, resource_type: int) -> Verdict:
        """Whether the client may do it with any resource of the type at all (KIP-679). Looks at all ACLs of the principal."""
        key = (principal, host, operation, resource_type)
        verdict = self._kept_by_type.get(key)
        if verdict is None:
            verdict = self._decided_by_type(*key)
            if len(self._kept_by_type) >= DECISIONS_KEPT_MAX:
                self._kept_by_type.clear()
            self._kept_by_type[key] = verdict
        return verdict

    def allows_every(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the client may do it with each resource of the type, whatever its name. Looks at all ACLs of the principal."""
        if principal in self.super_users:
            return True
        found = [
            acl
            for one in dict.fromkeys((principal, ANY_USER))
            for acl in self._of_principals.get((resource_type, one), {}).values()
            if acl.host in (host, WILDCARD) and _covers(acl, operation)
        ]
        if any(acl.permission == Permission.DENY for acl in found):
            return False
        if any(acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD for acl in found):
            return True
        return self.allows_without_acl and all(kind != resource_type for kind, _ in self._of_principals)

    def _decided_by_type(self, principal: str, host: str, operation: int, resource_type: int) -> Verdict:
        verdict = self.decide(principal, host, operation, resource_type, _HARD_CODED_NAME)
        if verdict.is_allowed:
            return verdict
        exact = [
            acl
            for one in dict.fromkeys((principal, ANY_USER))
            for acl in self._of_principals.get((resource_type, one), {}).values()
            if acl.operation in (operation, Operation.ALL) and acl.host in (host, WILDCARD)
        ]
        denied = [acl for acl in exact if acl.permission == Permission.DENY]
        literal = {acl.resource_name for acl in denied if acl.pattern_type == PatternType.LITERAL}
        prefixes = {acl.resource_name for acl in denied if acl.pattern_type == PatternType.PREFIXED}
        lengths = {len(prefix) for prefix in prefixes}
        if WILDCARD in literal:
            return Verdict(False, DEFAULT_DENY)
        for acl in exact:
            if acl.permission != Permission.ALLOW:
                continue
            is_literal, name = acl.pattern_type == PatternType.LITERAL, acl.resource_name
            if is_literal and name == WILDCARD:
                return Verdict(True, _rule_of(acl))
            if is_literal and name in literal:
                continue
            if not any(name[:length] in prefixes for length in lengths):
                return Verdict(True, _rule_of(acl))
        return Verdict(False, DEFAULT_DENY)

    def _decided(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        if principal in self.super_users:
            return Verdict(True, SUPER_USER)
        allowing: Acl | None = None
        has_acl = False
        for patterns, pattern in self._matching(resource_type, name):
            if not patterns.has(resource_type, pattern):
                continue
            has_acl = True
            for acl in patterns.of(resource_type, pattern, principal):
                if acl.host not in (host, WILDCARD) or not _covers(acl, operation):
                    continue
                if acl.permission == Permission.DENY:
                    return Verdict(False, _rule_of(acl))
                allowing = allowing or acl
        if allowing is not None:
            return Verdict(True, _rule_of(allowing))
        if has_acl or not self.allows_without_acl:
            return Verdict(False, DEFAULT_DENY)
        return Verdict(True, DEFAULT_ALLOW)

    def _matching(self, resource_type: int, name: str) -> Iterator[tuple[_Patterns, str]]:
        """All patterns that this name may have."""
        yield self._literals, name
        if name != WILDCARD:
            yield self._literals, WILDCARD
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                yield self._prefixes, name[:length]


class _Patterns:
    """ACLs by the type and name of their pattern and by their principal."""

    __slots__ = ("_acls", "_counts")

    def __init__(self) -> None:
        self._acls: dict[tuple[int, str, str], dict[UUID, Acl]] = {}
        self._counts: dict[tuple[int, str], int] = {}

    def put(self, acl_id: UUID, acl: Acl) -> None:
        pattern = (acl.resource_type, acl.resource_name)
        self._acls.setdefault((*pattern, acl.principal), {})[acl_id] = acl
        self._counts[pattern] = self._counts.get(pattern, 0) + 1

    def remove(self, acl_id: UUID, acl: Acl) -> None:
        pattern = (acl.resource_type, acl.resource_name)
        key = (*pattern, acl.principal)
        acls = self._acls[key]
        del acls[acl_id]
        if not acls:
            del self._acls[key]
        self._counts[pattern] -= 1
        if not self._counts[pattern]:
            del self._counts[pattern]

    def has(self, resource_type: int, name: str) -> bool:
        """Whether there is an ACL for it, whoever it is for."""
        return (resource_type, name) in self._counts

    def of(self, resource_type: int, name: str, principal: str) -> Iterator[Acl]:
        """Those that speak of the principal."""
        for one in (principal, ANY_USER) if principal != ANY_USER else (ANY_USER,):
            yield from self._acls.get((resource_type, name, one), {}).values()


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


def _normal(acl: Acl) -> Acl:
    return acl._replace(host=normal_host(acl.host)) if ":" in acl.host else acl


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
