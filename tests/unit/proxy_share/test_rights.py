"""Rights over the group and over each topic of share fetches and acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.access import Access
from bmq.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import Decider
from tests.unit.proxy_share.share_client import Member, ShareCluster, acquired_of, partitions_of

pytestmark = pytest.mark.unit

GROUP = UUID(int=1)
TOPIC = UUID(int=2)


def allowed(resource_type: ResourceType, name: str) -> Acl:
    return Acl(
        resource_type,
        name,
        PatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        Operation.READ,
        Permission.ALLOW,
    )


@pytest.fixture
def acls(cluster: ShareCluster) -> Mapping[UUID, Acl]:
    """Those in force; a test may replace them in `cluster.services.access`."""
    found = {GROUP: allowed(ResourceType.GROUP, "g"), TOPIC: allowed(ResourceType.TOPIC, "t")}
    cluster.services.access = Access(Decider(), lambda: found)
    return found


async def test_with_both_rights_records_are_given(cluster: ShareCluster, acls: Mapping[UUID, Acl]) -> None:
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    assert acquired_of(await member.fetch()) == [(0, 0, 1)]
    assert partitions_of(await member.acknowledge({0: [(0, 0, [1])]}))[0].error_code == 0


async def test_without_the_group_nothing_is_answered(cluster: ShareCluster, acls: Mapping[UUID, Acl]) -> None:
    cluster.services.access = Access(Decider(), lambda: {TOPIC: acls[TOPIC]})
    for refused in (
        Member(cluster).fetch(),
        Member(cluster).acknowledge({0: [(0, 0, [1])]}),
        Member(cluster, "").fetch(),
    ):
        with pytest.raises(KafkaError) as raised:
            await refused
        assert raised.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert len(cluster.consumers.sessions) == 0


async def test_topics_are_refused_each_by_itself(cluster: ShareCluster, acls: Mapping[UUID, Acl]) -> None:
    cluster.fetch_cluster.produce(0)
    cluster.services.access = Access(Decider(), lambda: {GROUP: acls[GROUP]})
    member = Member(cluster)
    found = partitions_of(await member.fetch())
    assert found[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and not bytes(found[0].records)
    acknowledged = partitions_of(await member.acknowledge({0: [(0, 0, [1])]}))
    assert acknowledged[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not cluster.states.acquires and not cluster.states.acknowledges
