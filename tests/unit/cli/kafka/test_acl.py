"""`bmq acl` over a cluster in memory."""

from __future__ import annotations

import pytest

from bmq.cli.kafka.acls import AclEntry
from tests.fakes.kafka_client import FakeKafka
from tests.unit.cli.kafka.conftest import Commands

pytestmark = pytest.mark.unit

ALICE_READS = AclEntry("topic", "orders", "literal", "User:alice", "*", "read", "allow")
BOB_WRITES = AclEntry("topic", "shared-", "prefixed", "User:bob", "10.0.0.1", "write", "deny")
CAROL_ALTERS = AclEntry("cluster", "kafka-cluster", "literal", "User:carol", "*", "alter", "allow")


@pytest.fixture
def kafka_with_acls(kafka: FakeKafka) -> FakeKafka:
    kafka.held_acls = [BOB_WRITES, ALICE_READS, CAROL_ALTERS]
    return kafka


def test_what_is_added_is_every_combination(bmq: Commands, kafka: FakeKafka) -> None:
    shown = bmq.shown(
        *("acl", "add", "--allow", "User:alice", "-o", "read", "-o", "describe", "--topic", "a", "--group", "g")
    )
    assert shown.splitlines() == [
        "allow User:alice to read topic a",
        "allow User:alice to describe topic a",
        "allow User:alice to read group g",
        "allow User:alice to describe group g",
        "added 4 ACLs",
    ]
    assert len(kafka.held_acls) == 4


def test_what_is_there_is_not_added_again(bmq: Commands, kafka_with_acls: FakeKafka) -> None:
    wanted = ("acl", "add", "--allow", "User:alice", "-o", "read", "--topic", "orders")
    assert bmq.shown(*wanted) == "allow User:alice to read topic orders (is there already)\n"
    assert len(kafka_with_acls.held_acls) == 3


def test_a_dry_run_adds_and_removes_nothing(bmq: Commands, kafka_with_acls: FakeKafka) -> None:
    bmq.shown("acl", "add", "--deny", "User:eve", "-o", "all", "--cluster", "--dry-run")
    bmq.shown("acl", "remove", "--topic", "orders", "--dry-run")
    assert kafka_with_acls.held_acls == [BOB_WRITES, ALICE_READS, CAROL_ALTERS]


@pytest.mark.usefixtures("kafka_with_acls")
def test_listing_keeps_what_agrees_with_all_options(bmq: Commands) -> None:
    assert [row["principal"] for row in bmq.document("acl", "list")] == ["User:carol", "User:alice", "User:bob"]
    assert bmq.rows("acl", "list", "--topic", "orders") == [
        ["allow", "User:alice", "*", "read", "topic", "orders", "literal"]
    ]
    assert bmq.rows("acl", "list", "--topic", "orders", "-o", "write") == []
    assert [row["name"] for row in bmq.document("acl", "list", "--prefix", "--deny", "User:bob")] == ["shared-"]


def test_what_agrees_is_removed_and_shown(bmq: Commands, kafka_with_acls: FakeKafka) -> None:
    assert bmq.shown("acl", "remove", "--deny", "User:bob") == (
        "no longer: deny User:bob from 10.0.0.1 to write topic names that begin with shared-\nremoved 1 ACL\n"
    )
    assert kafka_with_acls.held_acls == [ALICE_READS, CAROL_ALTERS]
    assert bmq.shown("acl", "remove", "--group", "none") == "no ACL agrees with that\n"
    bmq.shown("acl", "remove", "--all")
    assert kafka_with_acls.held_acls == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("remove",),
        ("remove", "--all", "--topic", "orders"),
        ("add", "--allow", "User:a", "--topic", "t"),
        ("add", "--allow", "alice", "--topic", "t", "-o", "read"),
        ("add", "--topic", "t", "-o", "read"),
        ("add", "--allow", "User:a", "-o", "read"),
        ("add", "--allow", "User:a", "-o", "read", "--cluster", "--prefix"),
        ("add", "--allow", "User:a", "-o", "fly", "--topic", "t"),
    ],
)
def test_what_is_missing_or_wrong_is_wrong_usage(
    bmq: Commands, kafka_with_acls: FakeKafka, arguments: tuple[str, ...]
) -> None:
    result = bmq.run("acl", *arguments)
    assert result.exit_code == 2, result.output
    assert len(kafka_with_acls.held_acls) == 3
