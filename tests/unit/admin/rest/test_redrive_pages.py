"""Redrives over REST: begun on the active controller, followed, cancelled; and what is refused in one sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from bmq.admin.rest.sources import RestSources
from bmq.metadata.image import Node
from tests.unit.admin.rest.shared_application import application_over
from tests.unit.proxy_dead_letters.letter_cluster import LetterCluster
from tests.unit.proxy_dead_letters.test_redrive import Redriving

pytestmark = pytest.mark.unit


class Pages:
    def __init__(self, redriving: Redriving) -> None:
        self.redriving = redriving
        cluster = redriving.cluster
        sources = RestSources(
            lambda: True,
            lambda: cluster.image,
            dict,
            CollectorRegistry(),
            node_id=1,
            redrives=lambda: redriving.redrives,
        )
        transport = httpx.ASGITransport(application_over(sources))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://node")

    async def post(self, body: dict[str, Any], query: str = "") -> httpx.Response:
        return await self.client.post(f"/v1/redrives{query}", json=body)

    async def ended(self, task: Any) -> Any:
        while task["state"] == "running":
            path = f"/v1/redrives/{task['id']}/events?after={task['version']}&wait_ms=10000"
            task = (await self.client.get(path)).json()
        return task


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    made = Pages(Redriving(LetterCluster()))
    yield made
    await made.client.aclose()
    await made.redriving.redrives.close()
    await made.redriving.cluster.close()


async def test_a_redrive_is_begun_and_followed(pages: Pages) -> None:
    await pages.redriving.write(4)
    begun = await pages.post({"group": "g", "to": "retry"})
    assert begun.status_code == 202
    task = begun.json()
    assert begun.headers["Location"] == f"/v1/redrives/{task['id']}" and task["kind"] == "redrive"
    ended = await pages.ended(task)
    assert (ended["state"], ended["progress"]) == ("succeeded", 1.0)
    assert ended["steps"][-1]["text"] == "4 redriven, 0 without a copy, 0 others, of 4"
    assert len(pages.redriving.values()) == 4
    listed = (await pages.client.get("/v1/redrives")).json()["tasks"]
    assert [one["id"] for one in listed] == [task["id"]]
    assert (await pages.client.get(f"/v1/redrives/{task['id']}")).json()["state"] == "succeeded"


async def test_a_dry_run_counts(pages: Pages) -> None:
    await pages.redriving.write(3)
    begun = await pages.post({"group": "g", "to_source": True, "key": "k1"}, "?dry_run=true")
    ended = await pages.ended(begun.json())
    assert ended["steps"][-1]["text"] == "1 would be redriven, 0 without a copy, 2 others, of 3"


async def test_a_redrive_is_cancelled(pages: Pages) -> None:
    await pages.redriving.write(40)
    task = (await pages.post({"group": "g", "to": "retry", "records_per_s": 1})).json()
    ended = (await pages.client.delete(f"/v1/redrives/{task['id']}")).json()
    assert (ended["state"], ended["error"]) == ("failed", "cancelled; the same order goes on from there")


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"group": "g"}, 422, "name a topic in `to`, or say `to_source`"),
        ({"group": "g", "to": "retry", "to_source": True}, 422, "and not both"),
        ({"group": "g", "to": "a/b"}, 422, "to"),
        ({"group": "", "to": "retry"}, 422, "group"),
        ({"group": "g", "to": "retry", "records_per_s": 0}, 422, "records_per_s"),
        ({"group": "g", "to": "retry", "reason": "bored"}, 422, "reason"),
        ({"group": "g", "to": "retry", "from_time": "2030-01-01T00:00:00"}, 422, "a time needs its zone"),
        ({"group": "g", "to": "none"}, 409, "topic none does not exist"),
        ({"group": "h", "to": "retry"}, 409, "group h names no topic of dead letters"),
    ],
)
async def test_bad_orders(pages: Pages, body: dict[str, Any], status: int, why: str) -> None:
    answer = await pages.post(body)
    assert answer.status_code == status and why in answer.text
    assert "Traceback" not in answer.text


async def test_another_node_is_named_where_the_controller_is(pages: Pages) -> None:
    pages.redriving.is_active = False
    assert (await pages.post({"group": "g", "to": "retry"})).status_code == 503
    cluster = pages.redriving.cluster
    controller = replace(Node(2, "h", 1), rest=("10.0.0.2", 8080))
    cluster.change(controller_id=2, nodes={**cluster.image.nodes, 2: controller})
    answer = await pages.post({"group": "g", "to": "retry"})
    assert answer.status_code == 307 and answer.headers["Location"].startswith("http://10.0.0.2:8080/v1/redrives")


async def test_an_unknown_task(pages: Pages) -> None:
    for method, path in (("GET", ""), ("GET", "/events"), ("DELETE", "")):
        answer = await pages.client.request(method, f"/v1/redrives/{'0' * 16}{path}")
        assert answer.status_code == 404
