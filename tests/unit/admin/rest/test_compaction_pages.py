"""The compaction of a partition through REST: its owner answers, any other node names it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import httpx
import pytest
from prometheus_client import CollectorRegistry

from bmq.admin.rest.sources import RestSources
from bmq.log.delegated_compaction import DelegatedPlan
from bmq.metadata.image import Node, TopicImage, ViewImage
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.jobs.partition_owner import PartitionOwner
from tests.fakes.cluster_controller import image_of, topic_image
from tests.unit.admin.rest.shared_application import application_over
from tests.unit.broker.compaction.test_compaction import COMPACT, filled, newest, read
from tests.unit.broker.compaction.test_delegation import clean
from tests.unit.broker.world import KEY, World, virtual

pytestmark = pytest.mark.unit

PATH = "/v1/topics/topic/partitions/0/compaction"
NODES = [Node(number, "10.0.0.1", 9092, None, ("10.0.0.1", 9093), ("10.0.0.1", 8080 + number)) for number in (1, 2)]
ORDER = {"job": "spark", "time_limit_ms": 60_000}


def topic_led_by(leaders: list[int]) -> TopicImage:
    return replace(topic_image("topic", 1, leaders), topic_id=KEY.topic_id)


def test_a_plan_is_asked_for_and_swapped_in() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)
        before = newest(await read(log))
        image = image_of(NODES, [topic_led_by([1])])
        sources = RestSources(
            lambda: True, lambda: image, dict, CollectorRegistry(), node_id=1, partitions=lambda: owner.manager
        )
        transport = httpx.ASGITransport(app=application_over(sources))
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
            dry = (await client.post(f"{PATH}?dry_run=true", json=ORDER)).json()["plan"]
            assert dry["reservation"] == "" and not log.compaction.delegation.is_reserved
            answer = await client.post(PATH, json=ORDER)
            assert answer.status_code == 200, answer.text
            plan = DelegatedPlan.decode(httpx.Response(200, json=answer.json()["plan"]).content)
            other = await client.post(PATH, json={**ORDER, "job": "another"})
            assert other.status_code == 409 and "has the compaction" in other.json()["detail"]
            swap = f"{PATH}/{plan.reservation}/swap"
            stale = await client.post(swap, json={"leader_epoch": plan.leader_epoch - 1})
            assert stale.status_code == 409 and "leader epoch 0" in stale.json()["detail"]
            await clean(owner, plan)
            end = await client.post(swap, json={"leader_epoch": plan.leader_epoch})
            assert end.status_code == 200, end.text
            assert end.json()["records_kept"] == 10
            assert (await client.post(PATH, json=ORDER)).json() == {"plan": None}
            assert (await client.delete(f"{PATH}/{plan.reservation}")).json() == {"released": plan.reservation}
        assert newest(await read(log)) == before
        await owner.manager.close()

    virtual(main)


async def test_another_node_names_the_owner() -> None:
    image = image_of(NODES, [topic_led_by([2])])
    sources = RestSources(lambda: True, lambda: image, dict, CollectorRegistry(), node_id=1)
    transport = httpx.ASGITransport(app=application_over(sources))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        answer = await client.post(f"{PATH}?dry_run=true", json=ORDER)
        assert answer.status_code == 307
        assert answer.headers["location"] == f"http://10.0.0.1:8082{PATH}?dry_run=true"
        assert (await client.post(PATH.replace("partitions/0", "partitions/7"), json=ORDER)).status_code == 404


async def test_view_is_not_compacted() -> None:
    base = topic_led_by([1])
    view = replace(base, name="paid", topic_id=UUID(int=9), view=ViewImage(base.name, base.topic_id, "TRUE"))
    image = image_of(NODES, [base, view])
    sources = RestSources(lambda: True, lambda: image, dict, CollectorRegistry(), node_id=1)
    transport = httpx.ASGITransport(app=application_over(sources))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        answer = await client.post(PATH.replace("topic/", "paid/"), json=ORDER)
    assert answer.status_code == 422
    assert answer.json()["detail"] == "paid is a view, which has no log: compact topic, whose records it shows"


def test_a_job_tells_what_passes_from_what_does_not() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        status = int(request.url.path.split("/")[3])
        return httpx.Response(status, json={"detail": f"status {status}"}) if status != 418 else httpx.Response(200)

    owner = PartitionOwner("node:8080", transport=httpx.MockTransport(answer))
    for status, kind in ((409, BrokenOff), (404, JobFailed), (422, JobFailed), (500, BrokenOff)):
        with pytest.raises(JobFailed, match=f"status {status}") as failed:
            owner.partitions(str(status))
        assert type(failed.value) is kind
    with pytest.raises(JobFailed, match="no node of bmq"):
        owner.partitions("418")
    owner.close()
