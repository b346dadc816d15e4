"""The order in which StandardAuthorizer decides, and its fine points (KIP-290, KIP-679)."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.protocol.topic_names import NAME_LENGTH_MAX
from bmq.security.acls import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER, Decider, normal_host, super_users_of

pytestmark = pytest.mark.unit

ALICE, BOB, HOST = "User:alice", "User:bob", "10.0.0.1"


def acl(
    name: str = "t",
    principal: str = ALICE,
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    kind: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def decider(*acls: Acl, super_users: frozenset[str] = frozenset(), allows: bool = False) -> Decider:
    made = Decider(super_users, allows_without_acl=allows)
    for number, one in enumerate(acls, 1):
        made.put(UUID(int=number), one)
    return made


def may(made: Decider, operation: Operation = Operation.READ, name: str = "t", principal: str = ALICE) -> bool:
    return made.decide(principal, HOST, operation, ResourceType.TOPIC, name).is_allowed


def test_without_acls_the_default_decides_and_says_so() -> None:
    assert decider().decide(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "t") == (False, DEFAULT_DENY)
    assert decider(allows=True).decide(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "t") == (True, DEFAULT_ALLOW)


def test_one_acl_shuts_everybody_else_out() -> None:
    made = decider(acl(principal=BOB), allows=True)
    assert may(made, principal=BOB) and not may(made)
    assert may(made, name="other")


def test_an_acl_on_every_topic_ends_the_default_for_all() -> None:
    made = decider(acl(name="*", principal=BOB), allows=True)
    assert not may(made, name="whatever")


def test_a_super_user_may_whatever_is_denied() -> None:
    made = decider(acl(permission=Permission.DENY), super_users=frozenset({ALICE}))
    assert made.decide(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "t") == (True, SUPER_USER)


def test_a_denial_beats_every_permission() -> None:
    made = decider(acl(), acl(name="*", principal="User:*", operation=Operation.ALL, permission=Permission.DENY))
    assert not may(made)


def test_prefixes_apply_by_their_length_and_a_prefixed_star_is_a_plain_name() -> None:
    made = decider(acl(name="orders-", pattern=PatternType.PREFIXED), acl(name="*", pattern=PatternType.PREFIXED))
    assert may(made, name="orders-eu") and may(made, name="orders-") and may(made, name="*x")
    assert not may(made, name="orders")


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_some_permissions_imply_describing_and_no_denial_does(operation: Operation) -> None:
    assert may(decider(acl(operation=operation)), Operation.DESCRIBE)
    denied = decider(acl(operation=operation, permission=Permission.DENY), acl(operation=Operation.DESCRIBE))
    assert may(denied, Operation.DESCRIBE)


def test_a_denial_to_describe_beats_what_reading_implies() -> None:
    made = decider(acl(), acl(operation=Operation.DESCRIBE, permission=Permission.DENY))
    assert not may(made, Operation.DESCRIBE) and may(made)


def test_creating_and_altering_configs_do_not_imply_describing() -> None:
    made = decider(acl(operation=Operation.CREATE), acl(operation=Operation.ALTER_CONFIGS))
    assert not may(made, Operation.DESCRIBE)
    assert may(made, Operation.DESCRIBE_CONFIGS)


def test_principals_and_hosts_are_compared_as_text() -> None:
    made = decider(acl(principal="User:al*"), acl(host="10.0.0.0/8"), acl(principal="Group:alice"))
    assert not may(made)
    assert made.decide("Group:alice", HOST, Operation.READ, ResourceType.TOPIC, "t").is_allowed


def test_a_change_of_acls_drops_what_was_decided() -> None:
    made = decider(acl())
    assert may(made)
    made.remove(UUID(int=1))
    assert not may(made)
    made.replace({UUID(int=7): acl()})
    assert may(made)
    made.replace({})
    assert not may(made) and len(made) == 0


@pytest.mark.parametrize("length, is_kept", [(NAME_LENGTH_MAX, True), (NAME_LENGTH_MAX + 1, False)])
def test_a_name_that_no_topic_can_have_is_decided_and_not_kept(length: int, is_kept: bool) -> None:
    made = decider(acl(name="t", pattern=PatternType.PREFIXED))
    name = "t" * length
    assert may(made, name=name) and may(made, name=name)
    assert not may(made, name="x" * length)
    assert [key[-1] for key in made._kept] == ([name, "x" * length] if is_kept else [])


def test_any_topic_at_all() -> None:
    def any_topic(made: Decider) -> bool:
        return made.decide_by_type(ALICE, HOST, Operation.READ, ResourceType.TOPIC).is_allowed

    assert not any_topic(decider())
    assert any_topic(decider(allows=True))
    assert any_topic(decider(acl()))
    assert not any_topic(decider(acl(), acl(permission=Permission.DENY)))
    assert not any_topic(
        decider(acl(name="ab"), acl(name="a", pattern=PatternType.PREFIXED, permission=Permission.DENY))
    )
    assert not any_topic(decider(acl(), acl(name="*", permission=Permission.DENY)))
    assert any_topic(decider(acl(name="ab"), acl(name="b", pattern=PatternType.PREFIXED, permission=Permission.DENY)))


ANY = acl(name="*")
DENIAL = acl(permission=Permission.DENY)


@pytest.mark.parametrize(
    ("acls", "allows", "every"),
    [
        ([], False, False),
        ([], True, True),
        ([acl()], True, False),
        ([acl(principal=BOB)], True, False),
        ([acl(principal=BOB, kind=ResourceType.GROUP)], True, True),
        ([ANY], False, True),
        ([acl(name="*", principal="User:*", operation=Operation.ALL)], False, True),
        ([acl(name="*", host="10.0.0.2")], False, False),
        ([acl(name="*", pattern=PatternType.PREFIXED)], False, False),
        ([ANY, DENIAL], False, False),
        ([ANY, DENIAL._replace(principal="User:*")], False, False),
        ([ANY, DENIAL._replace(operation=Operation.ALL)], False, False),
        ([ANY, DENIAL._replace(pattern_type=PatternType.PREFIXED)], False, False),
        ([ANY, DENIAL._replace(operation=Operation.WRITE)], False, True),
        ([ANY, DENIAL._replace(host="10.0.0.2")], False, True),
        ([ANY, DENIAL._replace(principal=BOB)], False, True),
        ([ANY, DENIAL._replace(resource_type=ResourceType.GROUP)], False, True),
    ],
)
def test_every_topic_whatever_its_name(acls: list[Acl], allows: bool, every: bool) -> None:
    made = decider(*acls, allows=allows)
    assert made.allows_every(ALICE, HOST, Operation.READ, ResourceType.TOPIC) is every


def test_a_super_user_may_do_it_with_every_topic() -> None:
    made = decider(DENIAL, super_users=frozenset({ALICE}))
    assert made.allows_every(ALICE, HOST, Operation.READ, ResourceType.TOPIC)


def test_a_hundred_thousand_acls_are_held() -> None:
    made = decider(*(acl(name=f"topic-{number}", principal=f"User:u{number % 1000}") for number in range(100_000)))
    assert may(made, name="topic-77", principal="User:u77") and not may(made, name="topic-77")


@pytest.mark.parametrize(
    ("address", "printed"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::ff", "2001:db8:0:0:0:0:0:ff"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("unknown", "unknown"),
    ],
)
def test_addresses_are_those_that_java_prints(address: str, printed: str) -> None:
    assert normal_host(address) == printed


def test_super_users_are_named_with_their_types() -> None:
    assert super_users_of(" User:a ; User:CN=b,O=c;") == {"User:a", "User:CN=b,O=c"}
    with pytest.raises(ValueError, match="'alice', which is not TYPE:NAME"):
        super_users_of("alice")


def test_filters_match_patterns_names_and_what_would_apply() -> None:
    held = acl(name="ord", pattern=PatternType.PREFIXED)

    def found(name: str | None, pattern: PatternType, kind: ResourceType = ResourceType.TOPIC) -> bool:
        return AclFilter(kind, name, pattern, None, None, Operation.ANY, Permission.ANY).matches(held)

    assert found(None, PatternType.ANY, ResourceType.ANY) and found("ord", PatternType.PREFIXED)
    assert found("orders", PatternType.MATCH) and not found("orders", PatternType.PREFIXED)
    assert not found("ord", PatternType.LITERAL) and not found(None, PatternType.ANY, ResourceType.GROUP)
    everything = acl(name="*")
    wanted = AclFilter(ResourceType.TOPIC, "x", PatternType.MATCH, ALICE, "*", Operation.READ, Permission.ALLOW)
    assert wanted.matches(everything)
    assert not wanted._replace(principal=BOB).matches(everything)


def test_the_cluster_has_one_name() -> None:
    made = decider(acl(name=CLUSTER_NAME, kind=ResourceType.CLUSTER, operation=Operation.ALTER))
    assert made.decide(ALICE, HOST, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME).is_allowed


def test_the_host_of_an_acl_is_compared_as_java_prints_it() -> None:
    made = decider(acl(host="::1"), acl(host="::ffff:10.0.0.9"))
    for host, is_allowed in (("0:0:0:0:0:0:0:1", True), ("10.0.0.9", True), ("10.0.0.8", False)):
        assert made.decide(ALICE, host, Operation.READ, ResourceType.TOPIC, "t").is_allowed is is_allowed
        assert made.decide_by_type(ALICE, host, Operation.READ, ResourceType.TOPIC).is_allowed is is_allowed
    made.remove(UUID(int=1))
    assert not made.decide(ALICE, "0:0:0:0:0:0:0:1", Operation.READ, ResourceType.TOPIC, "t").is_allowed
    assert len(made) == 1


def test_a_kept_decision_about_a_type_ends_with_the_next_acl() -> None:
    made = decider()
    assert not made.decide_by_type(ALICE, HOST, Operation.WRITE, ResourceType.TOPIC).is_allowed
    made.put(UUID(int=9), acl(operation=Operation.WRITE))
    assert made.decide_by_type(ALICE, HOST, Operation.WRITE, ResourceType.TOPIC).is_allowed
    made.remove(UUID(int=9))
    assert not made.decide_by_type(ALICE, HOST, Operation.WRITE, ResourceType.TOPIC).is_allowed


def test_the_rule_is_printed_as_kafka_prints_its_record() -> None:
    made = decider(acl(permission=Permission.DENY))
    assert made.decide(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "t").rule == (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL, principal=User:alice, "
        "host=*, operation=READ, permissionType=DENY])"
    )


def test_an_acl_of_a_later_release_is_named_unknown() -> None:
    made = decider(acl(permission=Permission.DENY, operation=Operation.ALL)._replace(pattern_type=9))
    assert "patternType=UNKNOWN" in made.decide(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "t").rule


def test_any_topic_at_all_looks_at_the_acls_of_the_principal_alone() -> None:
    made = decider(
        *(acl(name=f"topic-{number}", principal=f"User:u{number % 1000}") for number in range(20_000)),
        acl(name="of-all", principal="User:*", operation=Operation.WRITE),
    )
    assert max(map(len, made._of_principals.values())) == 20
    assert made.decide_by_type("User:u7", HOST, Operation.READ, ResourceType.TOPIC).is_allowed
    assert made.decide_by_type("User:nobody", HOST, Operation.WRITE, ResourceType.TOPIC).is_allowed
    assert not made.decide_by_type("User:nobody", HOST, Operation.READ, ResourceType.TOPIC).is_allowed


def test_nothing_is_left_of_acls_that_are_removed() -> None:
    kinds = [acl(), acl(pattern=PatternType.PREFIXED), acl(host="::1"), acl(principal=BOB), acl(name="*")]
    made = decider(*kinds)
    made.change([(UUID(int=2), None), (UUID(int=1), acl(name="x")), (UUID(int=9), None)])
    assert may(made, name="x") and len(made) == 5 - 1
    made.replace({})
    assert len(made) == 0 and not any(made._prefix_lengths.values()) and not made._of_principals
    for patterns in (made._literals, made._prefixes):
        assert not patterns._acls and not patterns._counts
