"""The page of one partition's owners over time."""

from __future__ import annotations

import pytest

from bmq.metadata.history import StateChange
from tests.unit.admin.rest.cluster import NOW_MS, RestCluster

pytestmark = pytest.mark.unit


async def test_the_owners_of_one_partition_with_the_time_without_one() -> None:
    async with RestCluster() as cluster:
        topic_id = cluster.image.topics["orders"].topic_id
        cluster.controller.history.add(topic_id, 0, StateChange(2_600, -1, 4, "node 1 was started again"))
        cluster.controller.history.add(topic_id, 0, StateChange(3_100, 2, 5, "it had no owner"))
        found = await cluster.get("/v1/topics/orders/partitions/0/history")
        terms = found.pop("terms")
        assert found == {
            "topic": "orders",
            "partition": 0,
            "owner": 1,
            "leader_epoch": 1,
            "without_owner_ms": 500,
            "earlier_epochs": 2,
        }
        assert [term["leader_epoch"] for term in terms] == [5, 4, 3, 2]
        assert terms[0] == {
            "leader": 2,
            "leader_epoch": 5,
            "since": "1970-01-01T00:00:03.100000Z",
            "until": None,
            "lasted_ms": NOW_MS - 3_100,
            "without_owner_ms": 500,
            "reason": "it had no owner",
        }
        assert (terms[1]["leader"], terms[1]["lasted_ms"], terms[1]["without_owner_ms"]) == (-1, 500, 0)
        assert terms[2]["until"] == "1970-01-01T00:00:02.600000Z"


async def test_nobody_owns_it_now_and_nothing_is_known_of_another() -> None:
    async with RestCluster() as cluster:
        nobody = await cluster.get("/v1/topics/orders/partitions/2/history")
        assert (nobody["owner"], nobody["without_owner_ms"]) == (-1, NOW_MS - 1_500)
        (first,) = (await cluster.get("/v1/topics/orders/partitions/1/history"))["terms"]
        assert (first["leader"], first["since"], first["lasted_ms"], first["reason"]) == (2, None, None, "")
        problem = await cluster.get("/v1/topics/none/partitions/0/history", 404)
        assert problem["detail"] == "there is no topic none"
        problem = await cluster.get("/v1/topics/orders/partitions/3/history", 404)
        assert problem["detail"] == "topic orders has no partition 3; it has 3"
