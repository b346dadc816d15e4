"""A node's REST application over fakes with data in them: three nodes, topics with files, a history, operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any, Final, Self, cast
from uuid import UUID

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter

from bmq.admin.delayed_records import DelayedRecords
from bmq.admin.group_explainer import GroupExplainer
from bmq.admin.operations import Operations, OperationsConfig
from bmq.admin.recent_logs import RecentLogs
from bmq.admin.redrives import Redrives
from bmq.admin.rest.application import rest_application
from bmq.admin.rest.sources import RestSources
from bmq.broker.manager import PartitionManager
from bmq.log.delegated_compaction import DelegationRefused
from bmq.log.half.half_headers import AskedDecision
from bmq.log.half.half_order import HalfOrder
from bmq.log.names import topic_directory
from bmq.log.partition_log import TopicPartition
from bmq.metadata.history import StateChange
from bmq.metadata.image import MetadataImage, Node, TopicImage
from bmq.proxy.dead_letters.redrive import Redriver
from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.stored import StoredTable
from tests.fakes.clock import FakeClock
from tests.fakes.cluster_controller import FakeController, FakeDriver, image_of, topic_image
from tests.fakes.kafka_requests import FakeKafkaRequests
from tests.fakes.store import FakeStore
from tests.unit.log.owned_log import PARTITION, Owner, batch_of
from tests.unit.table_definitions.definitions import json_form

QUICK = OperationsConfig(
    poll_interval_ms=1,
    driver_poll_interval_ms=1,
    drain_wait_ms=200,
    register_wait_ms=200,
    gone_wait_ms=200,
)
NODES = (
    Node(1, "10.0.0.1", 9092, "r1", ("10.0.0.1", 9093), ("10.0.0.1", 8080), epoch=11),
    Node(2, "10.0.0.2", 9092, "r2", ("10.0.0.2", 9093), ("10.0.0.2", 8080), frozenset({"broker", "proxy"}), 12),
    Node(3, "", -1, None, ("10.0.0.3", 9093), ("fe80::3", 8080), frozenset({"broker"}), 13),
)


class _Partitions:
    """Of a node that owns all it is asked for, none of which has anything to clean."""

    context = None

    @property
    def problems(self) -> tuple[str, ...]:
        return _present[-1].problems

    @property
    def compaction(self) -> Self:
        return self

    @property
    def delegation(self) -> Self:
        return self

    def owned(self) -> Iterator[SimpleNamespace]:
        """Partition 0 of orders, which is started, with 77 bytes."""
        found = SimpleNamespace(files=SimpleNamespace(size_bytes=77))
        yield SimpleNamespace(topic_partition=_present[-1].partition("orders", 0), inspect=lambda: found)

    async def leader_of(self, _: TopicPartition) -> Self:
        return self

    async def plan(self, job: str, time_limit_ms: int, *, is_dry_run: bool) -> None:
        return

    async def swap(self, reservation: str, leader_epoch: int, pace: object) -> None:
        raise DelegationRefused(f"the partition is not reserved for {reservation}")

    def release(self, reservation: str) -> None:
        return

    def runtime(self, _: object) -> SimpleNamespace:
        """It is owned here, and has no half messages."""
        order = HalfOrder()

        async def decide(asked: Sequence[AskedDecision]) -> str | None:
            for one in asked:
                order.check(one)
            return None

        return SimpleNamespace(is_owning=True, half=SimpleNamespace(order=order, checks=SimpleNamespace(decide=decide)))


_present: list[RestCluster] = []
NOW_MS: Final = 10_000


@cache
def application(node_id: int = 1, store_wait_s: float = 3) -> FastAPI:
    """Made once, since it takes a tenth of a second, and looks at the cluster that is entered."""
    registry = CollectorRegistry()
    Counter("bmq_things", "Things.", registry=registry).inc(3)
    sources = RestSources(
        lambda: _present[-1].is_ready,
        lambda: _present[-1].image,
        lambda: {"leader": 4, "starting": 1},
        registry,
        node_id=node_id,
        store=lambda: _present[-1].client_of_store,
        history=lambda: _present[-1].controller.history,
        loads=lambda: _present[-1].controller.loads() if _present[-1].active else None,
        now_ms=lambda: NOW_MS,
        high_watermark=lambda topic_partition: _present[-1].high_watermarks.get(topic_partition),
        operations=lambda: _present[-1].operations,
        table_controller=lambda: _present[-1].active,
        redrives=lambda: _present[-1].redrives,
        partitions=lambda: cast(PartitionManager, _Partitions()),
        groups=lambda: cast(GroupExplainer | None, _present[-1].explainer),
        delayed=lambda: cast(DelayedRecords | None, _present[-1].delayed),
        lanes=lambda: _present[-1].lanes,
        create_topics=lambda: _present[-1].create_topics,
        channel_watch=lambda: _present[-1].controller.watch,
        kafka=lambda: _present[-1].kafka,
        logs=lambda: _present[-1].logs,
    )
    return rest_application(sources, store_wait_s=store_wait_s)


def topics() -> list[TopicImage]:
    internal = replace(topic_image("__consumer_offsets", 0, [1, 2, 3]), is_internal=True)
    return [
        internal,
        topic_image("orders", 1, [1, 2, -1], (1, 2)),
        *(topic_image(f"t{number:02d}", 2 + number, [number % 3 + 1]) for number in range(12)),
    ]


def stored_orders(topic_id: UUID) -> StoredTable:
    """Table `orders` of topic `orders`."""
    form = {**json_form(), "topic": "orders"}
    return StoredTable(
        table_id=UUID(int=9_000),
        topic_id=topic_id,
        version=1,
        created_at_ms=1_000,
        altered_at_ms=1_000,
        definition=TableDefinition.model_validate(form),
    )


class RestCluster:
    """`async with` it: the files of `orders-0` are there then, and everything has ended afterwards."""

    def __init__(self, *, managed: tuple[int, ...] = (100, 101), node_id: int = 1, store_wait_s: float = 3) -> None:
        self.clock = FakeClock()
        self.problems: tuple[str, ...] = ()
        self.explainer: Any = None
        self.delayed: Any = None
        self.lanes: Any = None
        self.create_topics: Any = None
        self.kafka: FakeKafkaRequests | None = None
        self.logs = RecentLogs(self.clock.now_ms)
        nodes = (*NODES, *(Node(n, "10.0.0.9", 9092, roles=frozenset({"broker"}), epoch=n) for n in managed))
        image = image_of(nodes, topics())
        table = stored_orders(image.topics["orders"].topic_id)
        self.controller = FakeController(replace(image, tables={"orders": table.to_text()}), self.clock)
        self.active: FakeController | None = self.controller
        self.driver = FakeDriver(self.controller)
        self.driver.running = dict.fromkeys(managed, "broker")
        self.operations = Operations(lambda: self.active, self.driver, self.clock, Random(1), QUICK)
        unused: Any = None  # nothing here gets so far
        redriver = Redriver(lambda: self.image, unused, unused, unused, unused, self.clock)
        self.redrives = Redrives(redriver, self.clock, Random(1), lambda: self.active is not None)
        self.store = FakeStore()
        self.is_ready = True
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.client_of_store = self.store.client("rest")
        self.application = application(node_id, store_wait_s)
        transport = httpx.ASGITransport(app=self.application, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://node")

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def partition(self, name: str, number: int) -> TopicPartition:
        return TopicPartition(self.image.topics[name].topic_id, number)

    async def __aenter__(self) -> Self:
        _present.append(self)
        orders = self.image.topics["orders"]
        for epoch, (at_ms, leader, reason) in enumerate(
            ((1_000, 2, "node 1 is gone: its connection was lost"), (2_000, 1, "node 1 is back and preferred")), 2
        ):
            self.controller.history.add(orders.topic_id, 0, StateChange(at_ms, leader, epoch, reason))
        self.controller.history.add(orders.topic_id, 2, StateChange(1_500, -1, 2, "no replica lives"))
        self.high_watermarks[self.partition("orders", 0)] = 5
        owner = await Owner(self.store.client("owner"), 1).start()
        await owner.produce(batch_of(3))
        await owner.roll_segment()
        await owner.produce(batch_of(2))
        await self.store.client("tests").rename(PARTITION.rpartition("/")[0], topic_directory(orders.topic_id))
        return self

    async def __aexit__(self, *_: object) -> None:
        _present.remove(self)
        await self.operations.close()
        await self.redrives.close()
        await self.client.aclose()

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        response = await self.client.get(path, params=query)
        assert response.status_code == status, response.text
        return response.json()

    async def post(self, path: str, status: int = 202, body: Any = None, key: str | None = None, **query: Any) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        response = await self.client.post(path, params=query, json=body, headers=headers)
        assert response.status_code == status, response.text
        return response.json()

    async def patch(self, path: str, status: int = 200, body: Any = None, **query: Any) -> Any:
        response = await self.client.patch(path, params=query, json=body)
        assert response.status_code == status, response.text
        return response.json()

    async def put(self, path: str, status: int = 200, body: Any = None, **query: Any) -> Any:
        response = await self.client.put(path, params=query, json=body)
        assert response.status_code == status, response.text
        return response.json()

    async def delete(self, path: str, status: int = 200, **query: Any) -> Any:
        response = await self.client.delete(path, params=query)
        assert response.status_code == status, response.text
        return response.json()

    async def ended(self, task: Any) -> Any:
        """The task as its events tell it, once it has ended."""
        while task["state"] == "running":
            task = await self.get(f"/v1/tasks/{task['id']}/events", after=task["version"], wait_ms=20_000)
        return task
