"""The page that says why members of a group get nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import httpx
import pytest
from prometheus_client import CollectorRegistry

from bmq.admin.group_explainer import GroupLine, GroupMember, KnownGroup, PartitionExplanation, Place
from bmq.admin.group_reasons import LogFacts, OpenTransaction, Reason, ReasonCode
from bmq.admin.orders import UnknownSubject
from bmq.admin.rest.sources import RestSources
from bmq.coordinator.subscription_type import SubscriptionType
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_messages import ExplainedPartition, LockHolder
from bmq.proxy.access import Access
from bmq.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import Decider
from tests.fakes.cluster_controller import image_of, topic_image
from tests.unit.admin.rest.cluster import NODES, RestCluster
from tests.unit.admin.rest.shared_application import application_over

pytestmark = pytest.mark.unit

STATE = ExplainedPartition(
    state_epoch=2,
    start_offset=0,
    first_available=10,
    window_end=10,
    locked_count=10,
    locks_max=200,
    delayed_count=2,
    delayed_first_ms=1_000,
    delayed_last_ms=9_000,
    archiving_count=3,
    archiving_first=4,
    archiving_why="topic dlq.t does not exist",
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

    async def listed(self) -> list[GroupLine]:
        if self.error is not None:
            raise self.error
        return [
            GroupLine("sinks/a", "classic", "Empty", "connect"),
            GroupLine("g", "share", "Stable", "share"),
            GroupLine("payments", "consumer", "Stable", "consumer"),
        ]

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
            "delayed": 2,
            "delayed_until": "1970-01-01T00:00:10Z",
            "archiving": 3,
            "archiving_first": 4,
            "archiving_why": "topic dlq.t does not exist",
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


async def test_groups_of_all_kinds_are_listed_page_by_page() -> None:
    async with RestCluster() as cluster:
        assert "does not serve yet" in (await cluster.get("/v1/groups", 503))["detail"]
        cluster.explainer = explainer = Explainer()
        first = await cluster.get("/v1/groups", limit=2)
        assert first == {
            "groups": [
                {"group": "g", "kind": "share", "state": "Stable", "protocol_type": "share"},
                {"group": "payments", "kind": "consumer", "state": "Stable", "protocol_type": "consumer"},
            ],
            "next_after": "payments",
        }
        rest = await cluster.get("/v1/groups", limit=2, after="payments")
        assert ([one["group"] for one in rest["groups"]], rest["next_after"]) == (["sinks/a"], None)
        assert [one["group"] for one in (await cluster.get("/v1/groups", kind="share"))["groups"]] == ["g"]
        assert [one["group"] for one in (await cluster.get("/v1/groups", prefix="p"))["groups"]] == ["payments"]
        assert (await cluster.get("/v1/groups", 422, kind="queue"))["detail"].startswith("query.kind: ")
        explainer.error = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "not all coordinators of groups answer")
        assert (await cluster.get("/v1/groups", 503))["detail"] == "not all coordinators of groups answer"


async def test_a_name_may_have_slashes() -> None:
    async with RestCluster() as cluster:
        cluster.explainer = Explainer()
        assert (await cluster.get("/v1/groups/team%2Fa/explain"))["group"] == "team/a"


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


def client_with(*acls: tuple[ResourceType, str]) -> httpx.AsyncClient:
    """Of alice, who may describe these resources."""
    known = {
        UUID(int=place): Acl(kind, name, PatternType.LITERAL, "User:alice", "*", Operation.DESCRIBE, Permission.ALLOW)
        for place, (kind, name) in enumerate(acls, 1)
    }
    image = image_of(NODES, [topic_image("orders", 1, [1])])
    explainer: Any = Explainer()
    sources = RestSources(
        lambda: True,
        lambda: image,
        dict,
        CollectorRegistry(),
        groups=lambda: explainer,
        access=Access(Decider(frozenset()), lambda: known),
        principal_of=lambda _: "User:alice",
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=application_over(sources)), base_url="http://node")


async def test_partitions_of_topics_that_may_not_be_described_are_left_out() -> None:
    async with client_with((ResourceType.GROUP, "g"), (ResourceType.TOPIC, "orders")) as client:
        found = (await client.get("/v1/groups/g/explain")).json()
    assert found["partition_count"] == 3 and {one["topic"] for one in found["partitions"]} == {"orders"}


@pytest.mark.parametrize(
    ("right", "seen"),
    [
        ((ResourceType.GROUP, "sinks/a"), ["sinks/a"]),
        ((ResourceType.TOPIC, "orders"), []),
        ((ResourceType.CLUSTER, CLUSTER_NAME), ["g", "payments", "sinks/a"]),
    ],
)
async def test_groups_that_may_not_be_described_are_left_out(right: tuple[ResourceType, str], seen: list[str]) -> None:
    async with client_with(right) as client:
        assert [one["group"] for one in (await client.get("/v1/groups")).json()["groups"]] == seen


async def test_a_right_to_a_group_with_slashes() -> None:
    async with client_with((ResourceType.GROUP, "team/a")) as client:
        assert (await client.get("/v1/groups/team%2Fa/explain")).status_code == 200
        assert (await client.get("/v1/groups/team%2Fb/explain")).status_code == 403
