"""A group's offsets are moved with a plan first, and a group is deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bmq.admin.group_explainer import GroupMember, KnownGroup
from bmq.admin.orders import UnknownSubject
from bmq.coordinator.subscription_type import SubscriptionType
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.kafka_requests import FakeKafkaRequests
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit

OFFSETS = "/v1/groups/readers/offsets"


class Explainer:
    """Knows group `readers`. `error`: is raised in place of an answer."""

    def __init__(self, kind: str = "consumer") -> None:
        self.kind = kind
        self.members: list[GroupMember] = []
        self.error: Exception | None = None

    async def group(self, group_id: str) -> KnownGroup:
        if self.error is not None:
            raise self.error
        if group_id != "readers":
            raise UnknownSubject(f"there is no group {group_id!r}")
        share = self.kind == "share"
        return KnownGroup(
            group_id,
            self.kind,
            "Empty",
            self.members,
            [("orders", 0)],
            SubscriptionType.SHARED if share else None,
            committed=None if share else {("orders", 0): 4, ("orders", 1): -1},
        )


class Grouped(RestCluster):
    """Topic `orders` has offsets 2 to 7 in partition 0."""

    def __init__(self, kind: str = "consumer") -> None:
        super().__init__()
        self.fake = self.kafka = FakeKafkaRequests()
        self.explainer = Explainer(kind)
        self.fake.starts["orders", 0] = 2
        self.fake.put("orders", 0, *(Record(None, b"v", (), 1_000 + number) for number in range(5)))


@pytest.mark.parametrize(
    ("form", "after"),
    [
        ({"to": "earliest"}, 2),
        ({"to": "latest"}, 7),
        ({"to": "offset", "offset": 3}, 3),
        ({"to": "offset", "offset": 0}, 2),
        ({"to": "offset", "offset": 10**15}, 7),
        ({"to": "time", "time_ms": 1_003}, 5),
        ({"to": "time", "time_ms": 9_999}, 7),
    ],
)
@pytest.mark.parametrize("kind", ["consumer", "classic", "share"])
async def test_a_plan_changes_nothing_and_the_order_does_the_same(kind: str, form: dict[str, Any], after: int) -> None:
    async with Grouped(kind) as cluster:
        body = {"topic": "orders", "partitions": [0], **form}
        plan = await cluster.post(OFFSETS, 200, body, dry_run=True)
        before = None if kind == "share" else 4
        assert plan["moves"] == [{"partition": 0, "before": before, "after": after}]
        assert cluster.fake.committed == {}
        assert await cluster.post(OFFSETS, 200, body) == plan
        assert cluster.fake.committed == {("readers", "orders", 0): after}


async def test_all_partitions_are_meant_where_none_is_named() -> None:
    async with Grouped() as cluster:
        moves = (await cluster.post(OFFSETS, 200, {"topic": "orders", "to": "earliest"}))["moves"]
        assert [(one["partition"], one["before"], one["after"]) for one in moves] == [
            (0, 4, 2),
            (1, None, 0),
            (2, None, 0),
        ]


async def test_a_group_with_members_keeps_its_offsets() -> None:
    async with Grouped() as cluster:
        cluster.explainer.members = [GroupMember("a", "client", "/10.0.0.5", ["orders"], [("orders", 0)])]
        body = {"topic": "orders", "to": "earliest"}
        answer = await cluster.post(OFFSETS, 409, body)
        assert answer["detail"] == "group readers has 1 members: stop them first, then move its offsets"
        assert cluster.fake.committed == {}
        await cluster.post(OFFSETS, 200, body, dry_run=True)


async def test_half_a_reset_is_not_done() -> None:
    async with Grouped() as cluster:
        cluster.fake.refused[ApiKey.LIST_OFFSETS] = ErrorCode.KAFKA_STORAGE_ERROR
        answer = await cluster.post(OFFSETS, 503, {"topic": "orders", "to": "latest"})
        assert answer["detail"].startswith("the owner of partition 0 does not tell its offsets now")
        assert cluster.fake.committed == {}


@pytest.mark.parametrize(
    ("code", "status"), [(ErrorCode.GROUP_AUTHORIZATION_FAILED, 403), (ErrorCode.UNKNOWN_MEMBER_ID, 409)]
)
@pytest.mark.parametrize("kind", ["consumer", "share"])
async def test_a_refused_commit_is_told(kind: str, code: ErrorCode, status: int) -> None:
    async with Grouped(kind) as cluster:
        api_key = ApiKey.OFFSET_COMMIT if kind == "consumer" else ApiKey.ALTER_SHARE_GROUP_OFFSETS
        cluster.fake.refused[api_key] = code
        await cluster.post(OFFSETS, status, {"topic": "orders", "to": "latest"})


async def test_what_does_not_exist_or_does_not_answer() -> None:
    async with Grouped() as cluster:
        body = {"topic": "orders", "to": "latest"}
        await cluster.post("/v1/groups/none/offsets", 404, body)
        await cluster.post(OFFSETS, 404, {**body, "topic": "none"})
        await cluster.post(OFFSETS, 404, {**body, "partitions": [9]})
        await cluster.post(OFFSETS, 422, {**body, "to": "somewhere"})
        await cluster.post(OFFSETS, 422, {**body, "partitions": []})
        cluster.explainer.error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator")
        assert (await cluster.post(OFFSETS, 503, body))["detail"] == "no coordinator"
        cluster.explainer.error = TimeoutError()
        await cluster.post(OFFSETS, 504, body)
        cluster.explainer = None
        await cluster.post(OFFSETS, 503, body)


async def test_a_group_is_deleted_also_one_with_a_slash() -> None:
    async with Grouped() as cluster:
        assert await cluster.delete("/v1/groups/a%2Fb") == {"summary": "Group a/b is deleted."}
        assert cluster.fake.deleted == ["a/b"]
        cluster.fake.refused[ApiKey.DELETE_GROUPS] = ErrorCode.NON_EMPTY_GROUP
        await cluster.delete("/v1/groups/readers", 409)
        cluster.fake.refused[ApiKey.DELETE_GROUPS] = ErrorCode.GROUP_ID_NOT_FOUND
        await cluster.delete("/v1/groups/readers", 404)


async def test_orders_do_not_disturb_each_other() -> None:
    async with Grouped() as cluster:
        bodies = [{"topic": "orders", "partitions": [number], "to": "latest"} for number in range(3)]
        await asyncio.gather(*(cluster.post(OFFSETS, 200, body) for body in bodies))
        assert cluster.fake.committed == {
            ("readers", "orders", 0): 7,
            ("readers", "orders", 1): 0,
            ("readers", "orders", 2): 0,
        }
