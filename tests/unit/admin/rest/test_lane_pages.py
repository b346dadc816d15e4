"""Lanes in the REST API."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bmq.log.lanes.intervals import NO_END
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.lane_messages import LaneListRequest, LaneListResponse, ListedInterval, UntakenLane
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit

PATH = "/v1/groups/g/lanes"


class Lanes:
    """As bmq.proxy.services.LaneDecisions: two intervals of `orders`, one of a topic that is gone."""

    def __init__(self, topic_id: UUID, error: ErrorCode = ErrorCode.NONE) -> None:
        self._topic_id = topic_id
        self._error = error
        self.asked: list[str] = []

    async def list(self, request: LaneListRequest) -> LaneListResponse:
        self.asked.append(request.group_id)
        if self._error:
            return LaneListResponse(error_code=self._error)

        def interval(topic_id: UUID, start: int, end: int, kept: int) -> ListedInterval:
            return ListedInterval(
                topic_id=topic_id, partition=1, lane="blue", start=start, end=end, kept=kept,
                opened_ms=1_700_000_000_000, copied=min(kept, 8), copied_records=0, waits="" if end == NO_END else "too large",
            )  # fmt: skip

        return LaneListResponse(
            intervals=[
                interval(self._topic_id, 9, NO_END, NO_END),
                interval(self._topic_id, 5, 8, 6),
                interval(UUID(int=999), 5, 8, 6),
            ],
            untaken=[UntakenLane(topic_id=self._topic_id, partition=2, lane="red", reason="no members")],
        )


async def test_intervals_are_in_order_and_an_open_one_has_no_end() -> None:
    async with RestCluster() as cluster:
        assert "does not serve yet" in (await cluster.get(PATH, 503))["detail"]
        cluster.lanes = lanes = Lanes(cluster.image.topics["orders"].topic_id)
        found = await cluster.get(PATH)
        assert [(one["topic"], one["start"], one["end"], one["kept"], one["copied"]) for one in found["intervals"]] == [
            ("orders", 5, 8, 6, 6),
            ("orders", 9, None, None, None),
        ]
        assert [one["waits"] for one in found["intervals"]] == ["too large", None]
        assert (found["group"], found["count"], lanes.asked) == ("g", 2, ["g"])
        assert found["untaken"] == [{"topic": "orders", "partition": 2, "lane": "red", "reason": "no members"}]
        assert len((await cluster.get(PATH, limit=1))["intervals"]) == 1


async def test_reader_of_a_record_is_explained() -> None:
    async with RestCluster() as cluster:
        cluster.lanes = Lanes(cluster.image.topics["orders"].topic_id)

        async def said(code: int = 200, path: str = PATH, **body: Any) -> Any:
            return await cluster.post(f"{path}/explain", code, {"topic": "orders", "partition": 1, **body})

        blue = [{"name": "x-lane", "value": "blue"}]
        assert await said(headers=blue) == {
            "lane": "blue",
            "reader": "lane",
            "group": "g@blue",
            "topic": "orders",
            "why": "the lane blue is taken from offset 9 on",
        }
        assert (await said(headers=blue, offset=6))["reader"] == "copy"
        assert (await said(headers=blue, offset=8))["group"] == "g"
        assert (await said())["lane"] is None
        red = [{"name": "x-lane", "value": "red"}]
        assert (await said(headers=red, partition=2))["why"] == "the lane red is not taken now: no members"
        assert "'a@b' is no lane" in (await said(headers=[{"name": "x-lane", "value": "a@b"}]))["why"]
        for unknown in ({"topic": "nothing"}, {"partition": 99}):
            assert "there is no partition" in (await said(404, **unknown))["detail"]
        assert "cannot have lanes" in (await said(422, "/v1/groups/g@blue/lanes"))["detail"]
        await said(422, offset="6")


async def test_coordinator_that_is_away_is_a_problem() -> None:
    async with RestCluster() as cluster:
        cluster.lanes = Lanes(UUID(int=1), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert (await cluster.get(PATH, 503))["detail"] == "COORDINATOR_NOT_AVAILABLE"
