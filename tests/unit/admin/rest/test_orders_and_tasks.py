"""Orders through REST: plans, tasks, keys, and who has to be asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bmq.controller.moves import Move
from tests.fakes.cluster_controller import FakeController
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit


async def test_a_dry_run_gives_the_plan_and_changes_nothing() -> None:
    async with RestCluster() as cluster:
        before = cluster.image
        plan = await cluster.post("/v1/nodes/2/drain", 200, dry_run="true")
        assert plan["summary"] == "Node 2 takes no partitions on and gives 6 partitions away."
        assert plan["move_count"] == len(plan["moves"]) == 6
        assert set(plan["moves"][0]) == {"topic", "partition", "from_node", "to_node", "reason"}
        assert {move["from_node"] for move in plan["moves"]} == {2}
        plan = await cluster.post("/v1/scale", 200, {"brokers": 7}, dry_run="true")
        assert (plan["start"], plan["stop"]) == ([102, 103], [])
        plan = await cluster.post("/v1/scale", 200, {"brokers": 4}, dry_run="true")
        assert (plan["start"], plan["stop"]) == ([], [101])
        plan = await cluster.post("/v1/topics/orders/partitions/0/move", 200, {"to": 2}, dry_run="true")
        assert plan["moves"] == [
            {"topic": "orders", "partition": 0, "from_node": 1, "to_node": 2, "reason": "an operator wants it there"}
        ]
        assert cluster.image is before
        assert (await cluster.get("/v1/tasks"))["tasks"] == []


async def test_a_long_plan_is_cut_and_says_how_long_it_is() -> None:
    async with RestCluster() as cluster:
        topic = cluster.image.topics["orders"]
        cluster.controller.balanced = [Move(topic.topic_id, "orders", 0, 1, 2, "x")] * 1_500
        plan = await cluster.post("/v1/rebalance", 200, dry_run="true")
        assert (plan["move_count"], len(plan["moves"])) == (1_500, 1_000)


async def test_an_order_becomes_a_task_that_can_be_followed() -> None:
    async with RestCluster() as cluster:
        response = await cluster.client.post("/v1/nodes/2/drain")
        task = response.json()
        assert response.status_code == 202
        assert response.headers["location"] == f"/v1/tasks/{task['id']}"
        assert (task["kind"], task["subject"], task["state"], task["error"]) == ("drain", "node 2", "running", None)
        assert task["started_at"] == "2023-11-14T22:13:20Z"
        assert task["ended_at"] is None
        ended = await cluster.ended(task)
        assert (ended["state"], ended["progress"], ended["ended_at"]) == ("succeeded", 1.0, "2023-11-14T22:13:20Z")
        assert [step["number"] for step in ended["steps"]] == list(range(len(ended["steps"])))
        assert ended == await cluster.get(f"/v1/tasks/{task['id']}")
        other = await cluster.ended(await cluster.post("/v1/nodes/2/undrain"))
        assert (await cluster.get("/v1/tasks"))["tasks"] == [other, ended]
        assert (await cluster.get("/v1/tasks", limit=1))["tasks"] == [other]
        await cluster.get("/v1/tasks/0123456789abcdef", 404)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/rebalance", None),
        ("/v1/scale", {"brokers": 6}),
        ("/v1/scale", {"brokers": 4}),
        ("/v1/topics/orders/partitions/0/move", {"to": 2}),
    ],
)
async def test_every_order_ends_well(path: str, body: dict[str, int] | None) -> None:
    async with RestCluster() as cluster:
        ended = await cluster.ended(await cluster.post(path, body=body))
        assert (ended["state"], ended["error"]) == ("succeeded", None)


async def test_events_come_when_there_is_news_or_the_wait_is_over() -> None:
    async with RestCluster() as cluster:
        cluster.controller.is_stuck = True
        task = await cluster.post("/v1/nodes/2/drain")
        path = f"/v1/tasks/{task['id']}/events"
        version = (await cluster.get(path, after=task["version"], wait_ms=20_000))["version"]
        assert version > task["version"]
        assert (await cluster.get(path, after=version, wait_ms=10))["version"] == version
        assert (await cluster.get(path))["version"] == version
        following = [asyncio.create_task(cluster.get(path, after=version, wait_ms=20_000)) for _ in range(3)]
        cluster.controller.is_stuck = False
        assert [(await each)["version"] > version for each in following] == [True] * 3


async def test_keys_make_orders_safe_to_repeat() -> None:
    async with RestCluster() as cluster:
        first = await cluster.post("/v1/scale", body={"brokers": 6}, key="once")
        again = await cluster.post("/v1/scale", body={"brokers": 6}, key="once")
        assert first["id"] == again["id"]
        problem = await cluster.post("/v1/scale", 409, {"brokers": 7}, key="once")
        assert problem["detail"] == "the Idempotency-Key 'once' was used for another request; choose a new key"
        await cluster.post("/v1/nodes/2/drain", 409, key="once")
        await cluster.ended(first)
        assert (await cluster.post("/v1/scale", body={"brokers": 6}, key="once"))["state"] == "succeeded"
        for key in ("", " ", "x" * 129):
            response = await cluster.client.post("/v1/rebalance", headers={"Idempotency-Key": key})
            assert response.status_code == 422, key


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/v1/scale", {"brokers": 0}, 422, "body.brokers: Input should be greater than or equal to 1"),
        ("/v1/scale", {"brokers": "3"}, 422, "body.brokers: Value error, a number is wanted"),
        ("/v1/scale", {"brokers": 3.5}, 422, "body.brokers: Input should be a valid integer"),
        ("/v1/scale", {"brokers": 3, "x": 1}, 422, "body.x: Extra inputs are not permitted"),
        ("/v1/scale", None, 422, "body: Field required"),
        (
            "/v1/scale",
            {"brokers": 2},
            409,
            "3 of the brokers would have to go, and the driver manages only these: 100, 101;",
        ),
        ("/v1/scale", {"brokers": 99}, 409, "94 node ids are needed and 8 of 100 to 109 are free"),
        ("/v1/nodes/9/drain", None, 404, "there is no live node 9"),
        ("/v1/nodes/9/undrain", None, 404, "there is no live node 9"),
        ("/v1/topics/none/partitions/0/move", {"to": 1}, 404, "there is no topic none"),
        ("/v1/topics/orders/partitions/0/move", {}, 422, "body.to: Field required"),
    ],
)
@pytest.mark.parametrize("dry_run", ["true", "false"])
async def test_what_is_refused(path: str, body: Any, status: int, sentence: str, dry_run: str) -> None:
    async with RestCluster() as cluster:
        problem = await cluster.post(path, status, body, dry_run=dry_run)
        assert problem["detail"].startswith(sentence)


# --- who is asked


async def test_orders_are_sent_on_to_the_active_controller() -> None:
    async with RestCluster(node_id=2) as cluster:
        cluster.active = None
        for method, path in (
            ("POST", "/v1/nodes/2/drain?dry_run=true"),
            ("POST", "/v1/rebalance"),
            ("GET", "/v1/tasks?limit=3"),
            ("GET", "/v1/tasks/0123456789abcdef/events?wait_ms=5"),
        ):
            response = await cluster.client.request(method, path)
            assert response.status_code == 307
            assert response.headers["location"] == f"http://10.0.0.1:8080{path}"
        cluster.controller.image = replace(cluster.image, controller_id=3)
        response = await cluster.client.post("/v1/scale", json={"brokers": 5})
        assert response.headers["location"] == "http://[fe80::3]:8080/v1/scale"


@pytest.mark.parametrize("controller_id", [-1, 9, 2, 100])
async def test_without_an_active_controller_orders_are_refused(controller_id: int) -> None:
    """Nobody, a node that is gone, this node (not any more, or not yet), a node without a REST address."""
    async with RestCluster(node_id=2) as cluster:
        cluster.active = None
        cluster.controller.image = replace(cluster.image, controller_id=controller_id)
        problem = await cluster.post("/v1/rebalance", 503)
        assert problem["detail"] == "there is no active controller now; ask again in a moment"
        await cluster.get("/v1/tasks", 503)


async def test_a_node_that_was_the_controller_sends_followers_of_its_tasks_to_the_next_one() -> None:
    async with RestCluster(node_id=2) as cluster:
        cluster.controller.is_stuck = True
        task = await cluster.post("/v1/nodes/2/drain")
        path = f"/v1/tasks/{task['id']}/events?after={task['version'] + 10}&wait_ms=20000"
        following = asyncio.create_task(cluster.client.get(path))
        await asyncio.sleep(0.01)
        cluster.active = None
        cluster.operations.controller_lost()
        assert (await following).json()["state"] == "running"
        response = await cluster.client.get(path)
        assert (response.status_code, response.headers["location"]) == (307, f"http://10.0.0.1:8080{path}")


async def test_the_next_controller_has_the_tasks_of_the_last_one() -> None:
    async with RestCluster() as cluster:
        ended = await cluster.ended(await cluster.post("/v1/nodes/2/drain"))
        cluster.active = None
        cluster.operations.controller_lost()
        cluster.active = FakeController(cluster.image)
        cluster.operations.controller_gained()
        (task,) = (await cluster.get("/v1/tasks"))["tasks"]
        assert {**task, "version": 0} == {**ended, "version": 0}
        assert task["version"] > ended["version"]
