"""The pages of delayed records that wait, and cancelling one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bmq.admin.delayed_records import PartitionDelays
from bmq.admin.orders import OrderRefused
from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import DelayedPage
from bmq.metadata.image import PartitionImage, TopicImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000
WAITING = [Position(NOW_MS - 1500, 7), *(Position(NOW_MS + 1000 * number, 10 + number) for number in range(4))]


class Delayed:
    """Each partition has the same five records that wait; the owner of the last one is away."""

    def __init__(self) -> None:
        self.cancelled: list[tuple[str, int, Position]] = []
        self.error: Exception | None = None

    def now_ms(self) -> int:
        return NOW_MS

    async def summaries(self, topic: TopicImage, partitions: Sequence[PartitionImage]) -> list[PartitionDelays]:
        last = topic.partitions[-1].partition
        full, empty = DelayedPage(5, WAITING[0].due_ms, ()), DelayedPage(0, None, ())
        return [
            PartitionDelays(one.partition, empty, "its owner is away" if one.partition == last else None)
            if one.partition
            else PartitionDelays(0, full)
            for one in partitions
        ]

    async def page(self, topic: TopicImage, partition: int, after: Position, limit: int) -> DelayedPage:
        if self.error is not None:
            raise self.error
        return DelayedPage(5, WAITING[0].due_ms, tuple(one for one in WAITING if one > after)[:limit])

    async def cancel(self, topic: TopicImage, partition: int, target: Position) -> None:
        if self.error is not None:
            raise self.error
        self.cancelled.append((topic.name, partition, target))


async def test_partitions_are_counted_page_by_page() -> None:
    async with RestCluster() as cluster:
        assert "does not serve yet" in (await cluster.get("/v1/topics/orders/timers", 503))["detail"]
        cluster.delayed = Delayed()
        found = await cluster.get("/v1/topics/orders/timers", limit=2)
        assert (found["topic"], found["is_delay_enabled"], found["next_skip"]) == ("orders", False, 2)
        assert found["partitions"] == [
            {
                "partition": 0,
                "pending": 5,
                "next_due": "2023-11-14T22:13:18.500000Z",
                "overdue_s": 1.5,
                "problem": None,
            },
            {"partition": 1, "pending": 0, "next_due": None, "overdue_s": 0.0, "problem": None},
        ]
        last = await cluster.get("/v1/topics/orders/timers", skip=2)
        assert last["partitions"] == [
            {"partition": 2, "pending": None, "next_due": None, "overdue_s": None, "problem": "its owner is away"}
        ]
        assert last["next_skip"] is None
        assert "there is no topic nothing" in (await cluster.get("/v1/topics/nothing/timers", 404))["detail"]


async def test_records_are_listed_page_by_page_and_from_a_time_on() -> None:
    path = "/v1/topics/orders/partitions/0/timers"
    async with RestCluster() as cluster:
        cluster.delayed = Delayed()
        first = await cluster.get(path, limit=2)
        assert first["timers"] == [
            {"id": f"7,{NOW_MS - 1500}", "offset": 7, "due": "2023-11-14T22:13:18.500000Z"},
            {"id": f"10,{NOW_MS}", "offset": 10, "due": "2023-11-14T22:13:20Z"},
        ]
        assert (first["pending"], first["overdue_s"]) == (5, 1.5)
        assert first["next_after"] == f"10,{NOW_MS}"
        rest = await cluster.get(path, after=first["next_after"])
        assert ([one["offset"] for one in rest["timers"]], rest["next_after"]) == ([11, 12, 13], None)
        for from_time in ("2023-11-14T22:13:21Z", "2023-11-14T22:13:21", "2023-11-14T23:13:21+01:00"):
            late = await cluster.get(path, from_time=from_time)
            assert [one["offset"] for one in late["timers"]] == [11, 12, 13], "those due at this very time too"
        assert len((await cluster.get(path, from_time="0001-01-01T00:00:00Z"))["timers"]) == 5
        assert (await cluster.get(path, after=f"{10**19 - 1},{10**19 - 1}"))["timers"] == []
        for wrong in ("7", "7,", "-1,5", "a,b", f"{10**19},1"):
            assert (await cluster.get(path, 422, after=wrong))["detail"].startswith("query.after: ")
        assert "no partition 9" in (await cluster.get("/v1/topics/orders/partitions/9/timers", 404))["detail"]


async def test_a_record_is_cancelled() -> None:
    path = "/v1/topics/orders/partitions/1/timers/cancel"
    async with RestCluster() as cluster:
        cluster.delayed = delayed = Delayed()
        for _ in range(2):
            answer = await cluster.post(path, 200, {"id": f"17,{NOW_MS}"})
            assert answer == {"topic": "orders", "partition": 1, "id": f"17,{NOW_MS}"}
        assert delayed.cancelled == [("orders", 1, Position(NOW_MS, 17))] * 2
        delayed.error = OrderRefused("too late: what was due at 5 has been delivered")
        assert (await cluster.post(path, 409, {"id": "1,5"}))["detail"] == str(delayed.error)
        assert (await cluster.post(path, 409, {"id": f"1,{10**18}"}))[
            "detail"
        ] == f"no record can have the id 1,{10**18}"
        assert (await cluster.post(path, 422, {"id": "1;5"}))["detail"].startswith("body.id: ")
        assert (await cluster.post(path, 422, {}))["detail"].startswith("body.id: ")
        nowhere = await cluster.post("/v1/topics/nothing/partitions/1/timers/cancel", 404, {"id": "1,5"})
        assert nowhere["detail"] == "there is no topic nothing"


async def test_an_owner_that_is_away_is_a_sentence() -> None:
    async with RestCluster() as cluster:
        cluster.delayed = delayed = Delayed()
        delayed.error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has another owner")
        found = await cluster.get("/v1/topics/orders/partitions/0/timers", 503)
        assert found["detail"] == "the partition has another owner"
        delayed.error = TimeoutError()
        found = await cluster.get("/v1/topics/orders/partitions/0/timers", 504)
        assert found["detail"].startswith("the owner of the partition did not answer in time")
