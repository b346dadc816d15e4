"""The page that says why members of a group get nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import httpx
import pytest
from prometheus_client import CollectorRegistry

from bmq.admin.group_explainer import GroupMember, KnownGroup, PartitionExplanation, Place
from bmq.admin.group_reasons import LogFacts, OpenTransaction, Reason, ReasonCode
from bmq.admin.orders import UnknownSubject
from bmq.admin.rest.application import rest_application
from bmq.admin.rest.sources import RestSources
from bmq.coordinator.subscription_type import SubscriptionType
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_messages import ExplainedPartition, LockHolder
from bmq.proxy.access import Access
from bmq.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import Decider
from tests.fakes.cluster_controller import image_of, topic_image
from tests.unit.admin.rest.cluster import NODES, RestCluster

pytestmark = pytest.mark.unit

STATE = ExplainedPartition(
    state_epoch=2,
    start_offset=0,
    first_available=10,
    window_end=10,
    locked_count=10,
    locks_max=200,
    holders=[LockHolder(member_id="a", count=10, first=0, last=9, left_ms=30_000)],
)
LOG = LogFacts(None, 0, 12, 10, OpenTransaction(7, 10, "pay", 500))


class Explainer:
    """Share group `g` with three partitions of orders, and one of a hidden topic."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def now_ms(self) -> int:
        return 1_000

    async def group(self, group_id: str) -> KnownGroup:
        if self.error is not None:
            raise self.error
        members = [GroupMember("a", "client", "/10.0.0.5", ["orders"], [("orders", 0)])]
        places = [("hidden", 0), *(("orders", number) for number in range(3))]
        return KnownGroup(group_id, "share", "Stable", members, places, SubscriptionType.FAILOVER, True)

    async def explain(self, group: KnownGroup, places: Sequence[Place]) -> list[PartitionExplanation]:
        reasons = [Reason(ReasonCode.ALL_LOCKED, "all 10 records that are left are locked")]
        return [PartitionExplanation(*place, reasons, ["a"], 10, LOG, STATE) for place in places]


async def test_the_group_and_its_partitions() -> None:
    async with RestCluster() as cluster:
        cluster.explainer = Explainer()
        found = await cluster.get("/v1/groups/g/explain", topic="orders", limit=2)
        first, _ = found.pop("partitions")
        assert found == {
            "group": "g",
            "kind": "share",
            "state": "Stable",
            "subscription": "failover",
            "is_read_committed": True,
            "members": [{"member_id": "a", "client_id": "client", "host": "10.0.0.5", "partitions": 1}],
            "partition_count": 3,
            "next_skip": 2,
        }
        assert first == {
            "topic": "orders",
            "partition": 0,
            "reasons": [{"code": "all_locked", "text": "all 10 records that are left are locked"}],
            "members": ["a"],
            "next_offset": 10,
            "start_offset": 0,
            "last_stable_offset": 10,
            "high_watermark": 12,
            "lag": 12,
            "locked": 10,
            "locks_max": 200,
            "holders": [{"member_id": "a", "records": 10, "first": 0, "last": 9, "until": "1970-01-01T00:00:31Z"}],
            "transaction": {
                "producer_id": 7,
                "first_offset": 10,
                "transactional_id": "pay",
                "since": "1970-01-01T00:00:00.500000Z",
            },
        }
        last = await cluster.get("/v1/groups/g/explain", topic="orders", skip=2)
        assert ([one["partition"] for one in last["partitions"]], last["next_skip"]) == ([2], None)


async def test_what_cannot_be_explained_is_said_in_a_sentence() -> None:
    async with RestCluster() as cluster:
        assert "does not serve yet" in (await cluster.get("/v1/groups/g/explain", 503))["detail"]
        cluster.explainer = explainer = Explainer()
        explainer.error = UnknownSubject("there is no share, consumer or classic group 'g'")
        assert (await cluster.get("/v1/groups/g/explain", 404))["detail"] == str(explainer.error)
        explainer.error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator of the group is away")
        assert (await cluster.get("/v1/groups/g/explain", 503))["detail"] == "the coordinator of the group is away"
        assert (await cluster.get("/v1/groups/g/explain", 422, limit=0))["detail"].startswith("query.limit: ")
        assert (await cluster.get(f"/v1/groups/{'g' * 1_001}/explain", 422))["detail"].startswith("path.group: ")


async def test_partitions_of_topics_that_may_not_be_described_are_left_out() -> None:
    def acl(kind: ResourceType, name: str) -> Acl:
        return Acl(kind, name, PatternType.LITERAL, "User:alice", "*", Operation.DESCRIBE, Permission.ALLOW)

    acls = {
        UUID(int=1): acl(ResourceType.GROUP, "g"),
        UUID(int=2): acl(ResourceType.TOPIC, "orders"),
    }
    image = image_of(NODES, [topic_image("orders", 1, [1])])
    explainer: Any = Explainer()
    sources = RestSources(
        lambda: True,
        lambda: image,
        dict,
        CollectorRegistry(),
        groups=lambda: explainer,
        access=Access(Decider(frozenset()), lambda: acls),
        principal_of=lambda _: "User:alice",
    )
    transport = httpx.ASGITransport(app=rest_application(sources))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        found = (await client.get("/v1/groups/g/explain")).json()
    assert found["partition_count"] == 3 and {one["topic"] for one in found["partitions"]} == {"orders"}
