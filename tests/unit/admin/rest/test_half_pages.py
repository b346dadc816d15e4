"""Half messages over REST: listed, decided by the partition's owner, and what is refused in one sentence."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import httpx
import pytest
from prometheus_client import CollectorRegistry

from bmq.admin.rest.sources import RestSources
from bmq.log.config import LogConfig
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage
from tests.unit.admin.rest.shared_application import application_over
from tests.unit.broker.half.test_half_messages import HALF, decision, half, sent
from tests.unit.broker.timers.test_timers import values
from tests.unit.broker.world import KEY, Owner, World, virtual

pytestmark = pytest.mark.unit

PATH = "/v1/topics/topic/partitions/0/half"


def image(leader: int = 1) -> MetadataImage:
    partition = PartitionImage(0, leader, 1, (1, 2), (1, 2))
    topic = TopicImage("topic", KEY.topic_id, (partition,), {}, LogConfig())
    nodes = [Node(number, "127.0.0.1", 9000 + number, None, rest=("127.0.0.1", 8000 + number)) for number in (1, 2)]
    return replace(
        MetadataImage(),
        topics={"topic": topic},
        topics_by_id={KEY.topic_id: topic},
        nodes={node.node_id: node for node in nodes},
    )


def sources_of(owner: Owner | None, leader: int) -> RestSources:
    return RestSources(
        lambda: True,
        lambda: image(leader),
        dict,
        CollectorRegistry(),
        node_id=1,
        partitions=lambda: None if owner is None else owner.manager,
    )


class Pages:
    def __init__(self, owner: Owner | None, leader: int = 1) -> None:
        transport = httpx.ASGITransport(application_over(sources_of(owner, leader)))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://node")

    async def get(self, query: str = "") -> Any:
        response = await self.client.get(PATH + query)
        assert response.status_code == 200, response.text
        return response.json()

    async def decide(self, outcome: str, *offsets: Any) -> httpx.Response:
        return await self.client.post(f"{PATH}/{outcome}", json={"offsets": offsets})


def test_undecided_ones_are_listed_page_by_page() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(HALF)
        pages = Pages(owner)
        log = await owner.log()
        assert await pages.get() == {
            "topic": "topic",
            "partition": 0,
            "undecided": 0,
            "messages": [],
            "next_from": None,
        }
        await sent(log, half(b"a", "one"), half(b"b", "two"), half(b"c", "three"))
        await sent(log, decision("rollback", 2))
        page = await pages.get("?limit=1")
        assert (page["undecided"], page["next_from"]) == (2, 3)
        assert [(one["offset"], one["check_id"]) for one in page["messages"]] == [(1, "one")]
        page = await pages.get("?from=3")
        assert [one["check_id"] for one in page["messages"]] == ["three"] and page["next_from"] is None
        await pages.client.aclose()

    virtual(main)


def test_operators_decide_all_or_none() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(HALF)
        pages = Pages(owner)
        log = await owner.log()
        await sent(log, half(b"a"), half(b"b"), half(b"c"))
        refused = await pages.decide("commit", 1, 77)
        assert refused.status_code == 409
        assert refused.json()["detail"] == "no half message with offset 77 waits in this partition"
        assert (await pages.get())["undecided"] == 3
        done = await pages.decide("commit", 1, 3, 1)
        assert (done.status_code, done.json()["offsets"]) == (200, [1, 3])
        both = await asyncio.gather(pages.decide("rollback", 2), pages.decide("rollback", 2))
        assert [one.status_code for one in both] == [200, 200]
        assert (await pages.decide("commit", 1)).status_code == 200, "again"
        assert (await pages.decide("rollback", 1)).json()["detail"] == "the half message 1 was committed before"
        await asyncio.sleep(1)
        assert await values(log) == [b"a", b"c"] and (await pages.get())["undecided"] == 0
        await pages.client.aclose()

    virtual(main)


@pytest.mark.parametrize("offsets", [[], [-1], ["1"], [True], [2**63], list(range(501)), None])
def test_what_is_no_list_of_offsets(offsets: Any) -> None:
    async def main() -> None:
        pages = Pages(None)
        response = await pages.client.post(f"{PATH}/commit", json={"offsets": offsets})
        assert response.status_code == 422
        await pages.client.aclose()

    virtual(main)


def test_another_owner_answers() -> None:
    async def main() -> None:
        pages = Pages(None, leader=2)
        for response in (await pages.client.get(PATH + "?limit=3"), await pages.decide("commit", 1)):
            assert response.status_code == 307
            assert response.headers["location"].startswith(f"http://127.0.0.1:8002{PATH}")
        assert (await pages.client.get("/v1/topics/topic/partitions/9/half")).status_code == 404
        assert (await pages.client.get("/v1/topics/other/partitions/0/half")).status_code == 404
        await pages.client.aclose()
        starting = Pages(None, leader=1)
        assert (await starting.client.get(PATH)).status_code == 503
        await starting.client.aclose()

    virtual(main)


def test_the_topic_of_the_world_is_the_one_of_the_image() -> None:
    assert UUID(int=7) == KEY.topic_id
