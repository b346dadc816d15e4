"""Rights at a listener: what was granted ends with the ACL that granted it, and many ACLs hold no turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest
import structlog

from bmq.metadata.acl_journal import AclJournal
from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.request_context import RequestContext
from bmq.protocol.topic_names import NAME_LENGTH_MAX
from bmq.proxy import access as access_module
from bmq.proxy.access import Access, TopicGrants, TopicRights
from bmq.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import Decider

pytestmark = pytest.mark.unit

ALICE = RequestContext(3, "c", "10.0.0.1", principal="User:alice")
BOB = RequestContext(3, "c", "10.0.0.1", principal="User:bob")
ALLOW = Permission.ALLOW


def acl(name: str = "t", principal: str = "User:alice", operation: Operation = Operation.READ) -> Acl:
    return Acl(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", operation, Permission.ALLOW)


class CountingDecider(Decider):
    """`looked_at`: ACLs that changes and comparisons looked at."""

    looked_at = 0

    def replace(self, acls: Mapping[UUID, Acl]) -> None:
        self.looked_at += len(acls)
        super().replace(acls)

    def put(self, acl_id: UUID, acl: Acl) -> None:
        self.looked_at += 1
        super().put(acl_id, acl)


class Held:
    """The ACLs of a cluster, and the access by them."""

    def __init__(self, *acls: Acl) -> None:
        self.journal = AclJournal()
        self.ids: list[UUID] = []
        for one in acls:
            self.add(one)
        self.decider = CountingDecider()
        self.access = Access(self.decider, self.journal.snapshot)

    def add(self, one: Acl) -> None:
        self.ids.append(UUID(int=len(self.ids) + 1))
        self.journal.put(self.ids[-1], one)

    def image(self) -> MetadataImage:
        return MetadataImage(acls=self.journal.snapshot())

    def grants(self, context: RequestContext = ALICE, operation: Operation = Operation.READ) -> TopicGrants:
        return self.access.topic_grants(context, operation, self.image())

    def rights(self, context: RequestContext = ALICE) -> TopicRights:
        return TopicRights(self.grants(context), ApiKey.FETCH)


def test_a_grant_is_remembered_for_the_client_and_the_operation_alone() -> None:
    held = Held(acl())
    assert held.rights().allow("t")
    assert held.grants().names == {"t"}
    assert not held.grants(BOB).names
    assert not held.grants(RequestContext(3, "c", "10.0.0.2", principal="User:alice")).names
    assert not held.grants(operation=Operation.WRITE).names
    assert not held.rights(BOB).allow("t")
    assert not held.rights().allow("other")
    assert held.rights().names == {"t"}


def test_an_image_from_before_a_change_brings_no_grant_back() -> None:
    held = Held(acl())
    before = held.image()
    assert held.rights().allow("t")
    held.journal.remove(held.ids[0])
    assert not held.rights().allow("t")
    assert not held.access.topic_grants(ALICE, Operation.READ, before).names
    assert not TopicRights(held.access.topic_grants(ALICE, Operation.READ, before), ApiKey.FETCH).allow("t")


def test_the_grants_of_a_client_are_one_object_until_an_acl_changes() -> None:
    held = Held(acl())
    grants = held.grants()
    assert held.grants() is grants is not held.grants(BOB)
    held.add(acl("u", "User:bob"))
    assert held.grants() is not grants and not held.grants().names


def test_a_request_under_way_keeps_what_it_was_granted() -> None:
    held = Held(acl(), acl("u"))
    rights = held.rights()
    assert rights.allow("t")
    for number in (0, 1):
        held.journal.remove(held.ids[number])
    assert not held.rights().allow("t")
    assert rights.allow("t")  # it was let in before
    assert not rights.allow("u")  # and is refused what it asks for now
    assert not held.grants().names


def test_a_grant_ends_with_its_acl() -> None:
    held = Held(acl(), acl("u"))
    assert held.rights().allow("t")
    held.journal.remove(held.ids[0])
    assert "t" not in held.rights().names and not held.rights().allow("t")
    held.add(acl())
    assert held.rights().allow("t")


def test_what_a_request_was_refused_it_asks_once() -> None:
    held = Held(acl("u"))
    rights = held.rights()
    assert not rights.allow("t")
    held.add(acl())
    assert not rights.allow("t") and held.rights().allow("t")


def test_an_unknown_id_is_no_refusal() -> None:
    assert Held().rights().allow(None)


def test_no_name_writes_lines_of_its_own_into_the_audit() -> None:
    held = Held()
    context = RequestContext(3, "c", "10.0.0.1", principal="User:eve\nPrincipal = User:root is Allowed")
    with structlog.testing.capture_logs() as logs:
        assert not held.access.allows(
            context, ApiKey.FETCH, Operation.READ, ResourceType.TOPIC, "t\r\nis Allowed\x1b[31m\u2028"
        )
    (line,) = logs
    assert str(line["event"]).isprintable() and line["event"] == (
        "Principal = User:eve\\nPrincipal = User:root is Allowed is Denied operation = READ from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:t\\r\\nis Allowed\\x1b[31m\\u2028 for request = Fetch with resourceRefCount = 1 based on rule "
        "DefaultDeny"
    )


def test_an_administrator_without_the_own_right_is_refused_and_super_users_are_the_way_back() -> None:
    held = Held(acl(name="t", principal="User:alice"))
    held.access = Access(Decider(frozenset({"User:root"})), held.journal.snapshot)
    cluster = Acl(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, "User:alice", "*", Operation.ALTER, ALLOW)
    held.add(cluster)

    def may_alter(context: RequestContext) -> bool:
        return held.access.allows(context, ApiKey.CREATE_ACLS, Operation.ALTER, ResourceType.CLUSTER)

    assert may_alter(ALICE)
    held.journal.remove(held.ids[-1])
    assert not may_alter(ALICE)
    assert may_alter(RequestContext(3, "c", "10.0.0.1", principal="User:root"))


def test_grants_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "DECISIONS_KEPT_MAX", 10)
    held = Held(acl("*"))
    for number in range(100):
        assert held.rights(RequestContext(3, "c", f"10.0.0.{number}", principal="User:alice")).allow("t")
        assert sum(map(len, (one.names for one in held.access._grants.values()))) + len(held.access._grants) <= 10


@pytest.mark.parametrize("length, is_kept", [(NAME_LENGTH_MAX, True), (NAME_LENGTH_MAX + 1, False)])
def test_a_name_that_no_topic_can_have_is_granted_and_not_kept(length: int, is_kept: bool) -> None:
    held, name = Held(acl("*")), "t" * length
    assert held.rights().allow(name) and held.rights().allow(name)
    assert held.grants().names == ({name} if is_kept else set())
    assert held.access._granted_count == 1 + is_kept, "the client itself is counted once"


def test_a_change_among_many_acls_looks_at_itself_alone() -> None:
    held = Held(*(acl(f"topic-{number}") for number in range(5_000)))
    assert not held.rights().allow("t")
    held.decider.looked_at = 0
    held.add(acl())
    assert held.rights().allow("t")
    held.journal.remove(held.ids[-1])
    assert not held.rights().allow("t")
    assert held.decider.looked_at == 1


async def test_many_acls_are_taken_in_turns_before_the_first_request() -> None:
    held = Held(*(acl(f"topic-{number}") for number in range(5_000)))
    turns = 0

    class Counted:
        async def next(self) -> None:
            nonlocal turns
            turns += 1
            await asyncio.sleep(0)

    await held.access.prepare(Counted())
    assert turns >= 10
    held.decider.looked_at = 0
    assert held.rights().allow("topic-7")
    assert held.decider.looked_at == 0
    await held.access.prepare(Counted())
    assert held.decider.looked_at == 0


async def test_a_request_that_comes_meanwhile_is_decided_by_all_of_them() -> None:
    held = Held(*(acl(f"topic-{number}") for number in range(5_000)))

    class Asking:
        async def next(self) -> None:
            assert held.rights().allow("topic-4999")

    await held.access.prepare(Asking())
    held.add(acl())
    assert held.rights().allow("t")
    assert len(held.decider) == 5_001
