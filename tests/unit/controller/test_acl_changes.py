"""CreateAcls and DeleteAcls: what is refused, in Kafka's words, and that its neighbours are done all the same."""

from __future__ import annotations

from itertools import count
from typing import Any
from uuid import UUID

import pytest

from bmq.controller import acl_changes
from bmq.controller.acl_changes import decide_create_acls, decide_delete_acls
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from bmq.protocol.messages.create_acls_response import AclCreationResult
from bmq.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from bmq.protocol.messages.delete_acls_response import DeleteAclsFilterResult
from bmq.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from tests.unit.controller.support import Cluster

pytestmark = pytest.mark.unit

ADMIN = {"type": ResourceType.CLUSTER, "name": CLUSTER_NAME, "principal": "User:admin", "operation": Operation.ALTER}


class Acls:
    """A cluster, and requests in short."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self._ids = (UUID(int=number) for number in count(1))

    def create(self, *creations: AclCreation) -> list[AclCreationResult]:
        request = CreateAclsRequest(creations=creations)
        decision = decide_create_acls(self.cluster.image, request, lambda: (), lambda: next(self._ids))
        self.cluster.take(decision.records)
        return list(decision.response.results)

    def delete(self, *filters: DeleteAclsFilter) -> list[DeleteAclsFilterResult]:
        decision = decide_delete_acls(self.cluster.image, DeleteAclsRequest(filters=filters))
        self.cluster.take(decision.records)
        return list(decision.response.filter_results)

    @property
    def names(self) -> list[str]:
        return sorted(acl.resource_name for acl in self.cluster.image.acls.values())


def acl(**changed: Any) -> AclCreation:
    values = {
        "type": ResourceType.TOPIC,
        "name": "t",
        "pattern": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission": Permission.ALLOW,
        **changed,
    }
    return AclCreation(
        resource_type=values["type"],
        resource_name=values["name"],
        resource_pattern_type=values["pattern"],
        principal=values["principal"],
        host=values["host"],
        operation=values["operation"],
        permission_type=values["permission"],
    )


def wanted(**changed: Any) -> DeleteAclsFilter:
    values = {
        "type": ResourceType.ANY,
        "name": None,
        "pattern": PatternType.ANY,
        "principal": None,
        "operation": Operation.ANY,
        "permission": Permission.ANY,
        **changed,
    }
    return DeleteAclsFilter(
        resource_type_filter=values["type"],
        resource_name_filter=values["name"],
        pattern_type_filter=values["pattern"],
        principal_filter=values["principal"],
        host_filter=None,
        operation=values["operation"],
        permission_type=values["permission"],
    )


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (acl(pattern=PatternType.ANY), "Invalid patternType ANY"),
        (acl(pattern=PatternType.MATCH), "Invalid patternType MATCH"),
        (acl(pattern=99), "Invalid patternType"),
        (acl(type=ResourceType.ANY), "Invalid resourceType ANY"),
        (acl(type=99), "Invalid resourceType"),
        (acl(operation=Operation.ANY), "Invalid operation ANY"),
        (acl(operation=99), "Invalid operation"),
        (acl(permission=Permission.ANY), "Invalid permissionType ANY"),
        (acl(permission=0), "Invalid permissionType"),
        (acl(name=""), "Resource name should not be empty"),
        (acl(**{**ADMIN, "name": "other"}), "The only valid name for the CLUSTER resource is kafka-cluster."),
        (acl(principal="alice"), "Could not parse principal from `alice`"),
        (acl(principal=":alice"), "Could not parse principal"),
        (acl(principal="User:"), "Could not parse principal"),
        (acl(host=""), "The host is empty"),
    ],
)
def test_a_wrong_entry_is_refused_and_its_neighbours_are_done(bad: AclCreation, why: str) -> None:
    acls = Acls()
    before, refused, after = acls.create(acl(name="a"), bad, acl(name="b"))
    assert (before.error_code, after.error_code) == (0, 0) and acls.names == ["a", "b"]
    assert refused.error_code == ErrorCode.INVALID_REQUEST and why in (refused.error_message or "")


@pytest.mark.parametrize(
    "one",
    [
        acl(name="no-such-topic"),
        acl(name="a\nline of\r\x1b[31m its own"),
        acl(**{**ADMIN, "operation": Operation.READ}),
        acl(principal="Group:of Kafka's no meaning"),
    ],
    ids=["absent", "line-breaks", "no-sense", "group"],
)
def test_what_kafka_accepts_is_accepted_once(one: AclCreation) -> None:
    acls = Acls()
    assert [result.error_code for result in acls.create(one, one)] == [0, 0]
    assert acls.create(one)[0].error_code == 0 and acls.names == [one.resource_name]


@pytest.mark.parametrize(
    "bad",
    [wanted(type=99), wanted(pattern=0), wanted(operation=99), wanted(permission=0)],
    ids=["type", "pattern", "operation", "permission"],
)
def test_a_wrong_filter_is_refused_and_its_neighbours_are_done(bad: DeleteAclsFilter) -> None:
    acls = Acls()
    acls.create(acl(name="a"), acl(name="b"))
    refused, done = acls.delete(bad, wanted(name="a"))
    assert refused.error_code == ErrorCode.INVALID_REQUEST and not refused.matching_acls
    assert [one.resource_name for one in done.matching_acls] == ["a"] and acls.names == ["b"]


def test_the_administrator_may_remove_the_own_right() -> None:
    """As in Kafka nothing keeps him from it: super.users is the way back."""
    acls = Acls()
    acls.create(acl(**ADMIN))
    (done,) = acls.delete(wanted(principal="User:admin"))
    assert len(done.matching_acls) == 1 and acls.names == []


def test_a_request_of_too_many_changes_nothing_beyond_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_changes, "RECORDS_MAX", 2)
    acls = Acls()
    results = acls.create(*(acl(name=name) for name in "abc"))
    assert [one.error_code for one in results] == [0, 0, ErrorCode.POLICY_VIOLATION] and acls.names == ["a", "b"]
    acls.create(acl(name="c"))
    (refused,) = acls.delete(wanted())
    assert refused.error_code == ErrorCode.POLICY_VIOLATION and acls.names == ["a", "b", "c"], "all or nothing"
