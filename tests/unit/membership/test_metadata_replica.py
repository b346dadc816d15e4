"""A node's copy of the metadata: snapshots, deltas, controllers that change, hang or are outdated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from uuid import UUID

import pytest

from bmq.election.election import ControllerClaim
from bmq.membership.known_controller import KnownController
from bmq.membership.metadata_replica import MetadataReplica
from bmq.membership.settings import ClusterSettings
from bmq.metadata.image import MetadataImage
from bmq.metadata.state import MetadataState
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import MetadataFetchRequest, MetadataFetchResponse
from bmq.protocol.metadata_records import (
    BrokerEndpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from tests.unit.controller.controller_lab import on_virtual_time
from tests.unit.internode_client.scripted_links import ScriptedLinks
from tests.unit.internode_client.waiting import until

pytestmark = pytest.mark.unit

SETTINGS = ClusterSettings(metadata_wait_max_ms=500, retry_min_ms=1, retry_max_ms=4)


def topic_records(number: int) -> list[MetadataRecord]:
    topic_id = UUID(int=1000 + number)
    return [
        TopicRecord(name=f"t{number}", topic_id=topic_id),
        PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
        ),
    ]


def registration(node_id: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        broker_epoch=node_id,
        end_points=(BrokerEndpoint(name="INTERNAL", host=f"node-{node_id}", port=9093),),
        fenced=False,
        roles=("broker",),
    )


class FakeController:
    """A metadata log of topics, two records each, polled through METADATA_FETCH."""

    def __init__(self, epoch: int = 1, node_id: int = 1) -> None:
        self.epoch = epoch
        self.node_id = node_id
        self.records: list[MetadataRecord] = []
        self.first_offset = 0
        self.moved = asyncio.Event()
        self.refuse_with: ErrorCode | None = None
        self.is_hung = False
        self.is_garbled = False

    def add(self, number: int) -> None:
        self.records += topic_records(number)
        self.moved.set()

    async def answer(self, node_id: int, request: MetadataFetchRequest) -> MetadataFetchResponse:
        if self.is_hung:
            await asyncio.Event().wait()
        if self.refuse_with is not None:
            return MetadataFetchResponse(
                error_code=self.refuse_with, controller_id=self.node_id, controller_epoch=self.epoch
            )
        end = len(self.records)
        if request.offset == end:
            self.moved.clear()
            try:
                async with asyncio.timeout(request.max_wait_ms / 1000):
                    await self.moved.wait()
            except TimeoutError:
                pass
            end = len(self.records)
        known = {"controller_id": self.node_id, "controller_epoch": self.epoch, "end_offset": end}
        if self.is_garbled:
            self.is_garbled = False
            return MetadataFetchResponse(**known, data=b"x" * 80)  # type: ignore[arg-type]
        if request.offset < self.first_offset:
            state = MetadataState("cluster", self.node_id, {})
            for record in self.records:
                state.replay(record)
            return MetadataFetchResponse(**known, is_snapshot=True, data=state.snapshot())  # type: ignore[arg-type]
        # From the start of a batch before the offset on, as a log gives it.
        start = max(0, request.offset - 1)
        values = [Record(b"", encode_record(record)) for record in self.records[start:]]
        data = bytes(encode_batch(values, base_offset=start)) if values else b""
        return MetadataFetchResponse(**known, data=data)  # type: ignore[arg-type]


class Setting:
    def __init__(self, controller: FakeController) -> None:
        self.controllers = {controller.node_id: controller}
        self.claim: ControllerClaim | None = ControllerClaim(controller.node_id, "host", 1, controller.epoch)
        self.images: list[MetadataImage] = []
        self.changed = asyncio.Event()
        self.links = ScriptedLinks(METADATA_FETCH=self._answer)
        self.known = KnownController(lambda: self.claim, lambda: self.replica.image)
        self.replica = MetadataReplica(
            7,
            "cluster",
            self.links,  # type: ignore[arg-type]
            self.known,
            self._on_image,
            {},
            SETTINGS,
            Random(1),
        )

    async def _answer(self, node_id: int, request: Any) -> Any:
        return await self.controllers[node_id].answer(node_id, request)

    def _on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        assert old is (self.images[-1] if self.images else old)
        self.images.append(new)
        self.changed.set()

    async def until(self, condition: Callable[[MetadataImage], bool]) -> MetadataImage:
        async with asyncio.timeout(5):
            while not condition(self.replica.image):
                self.changed.clear()
                await self.changed.wait()
        return self.replica.image

    async def until_asked(self, count: int) -> None:
        await until(lambda: len(self.links.calls) >= count)

    def elect(self, controller: FakeController) -> None:
        self.controllers[controller.node_id] = controller
        self.claim = ControllerClaim(controller.node_id, "host", 1, controller.epoch)
        self.replica.leader_changed()


@asynccontextmanager
async def running(controller: FakeController) -> AsyncIterator[Setting]:
    setting = Setting(controller)
    task = asyncio.create_task(setting.replica.run())
    try:
        yield setting
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


async def test_deltas_are_replayed_once_each() -> None:
    controller = FakeController()
    controller.add(1)
    async with running(controller) as setting:
        await setting.until(lambda image: "t1" in image.topics)
        for number in range(2, 30):
            controller.add(number)
            await setting.until(lambda image, number=number: f"t{number}" in image.topics)  # type: ignore[misc]
        assert setting.replica.offset == len(controller.records)
        assert setting.replica.image.partition_count == 29
        assert setting.replica.image.controller_id == 1
        offsets = [image.offset for image in setting.images]
        assert offsets == sorted(offsets)


async def test_a_log_that_begins_later_is_begun_with_a_snapshot() -> None:
    controller = FakeController()
    for number in range(5):
        controller.add(number)
    controller.first_offset = 4
    async with running(controller) as setting:
        image = await setting.until(lambda image: len(image.topics) == 5)
        assert setting.links.asked(setting.links.calls[0][1])[0].offset == -1
        controller.add(9)
        image = await setting.until(lambda image: len(image.topics) == 6)
        assert image.topics["t9"].partitions[0].leader == 1


async def test_the_next_controller_is_asked_from_where_the_last_one_ended() -> None:
    first = FakeController(epoch=1, node_id=1)
    first.add(1)
    async with running(first) as setting:
        await setting.until(lambda image: "t1" in image.topics)
        second = FakeController(epoch=2, node_id=2)
        second.records = list(first.records)
        first.is_hung = True
        second.add(2)
        setting.elect(second)
        image = await setting.until(lambda image: "t2" in image.topics)
        assert image.controller_id == 2
        asked = [request for node_id, _, request in setting.links.calls if node_id == 2]
        assert asked[0].offset == len(first.records)


async def test_a_hung_controller_is_left_as_soon_as_there_is_another() -> None:
    first = FakeController(epoch=1, node_id=1)
    first.is_hung = True
    async with running(first) as setting:
        await setting.until_asked(1)
        second = FakeController(epoch=2, node_id=2)
        second.add(1)
        setting.elect(second)
        await setting.until(lambda image: "t1" in image.topics)


async def test_a_lower_epoch_is_not_listened_to() -> None:
    controller = FakeController(epoch=5)
    controller.add(1)
    async with running(controller) as setting:
        await setting.until(lambda image: "t1" in image.topics)
        controller.epoch = 4
        controller.add(2)
        asked = len(setting.links.calls)
        await setting.until_asked(asked + 2)
        assert "t2" not in setting.replica.image.topics
        controller.epoch = 6
        await setting.until(lambda image: "t2" in image.topics)
        assert setting.replica.controller_epoch == 6


async def test_what_cannot_be_understood_is_begun_anew() -> None:
    controller = FakeController()
    controller.add(1)
    async with running(controller) as setting:
        await setting.until(lambda image: "t1" in image.topics)
        controller.is_garbled = True
        controller.add(2)
        image = await setting.until(lambda image: "t2" in image.topics)
        assert set(image.topics) == {"t1", "t2"}
        assert [request.offset for _, _, request in setting.links.calls].count(-1) >= 2


async def test_who_the_controller_is_can_be_heard_from_any_node() -> None:
    """The election out of reach, the old controller gone: another node knows the new one."""
    first = FakeController(epoch=1, node_id=1)
    first.records += [registration(1), registration(2), registration(3)]
    first.add(1)
    async with running(first) as setting:
        await setting.until(lambda image: "t1" in image.topics and len(image.nodes) == 3)
        second = FakeController(epoch=2, node_id=2)
        second.records = list(first.records)
        second.add(2)
        bystander = FakeController(epoch=2, node_id=2)
        bystander.refuse_with = ErrorCode.NOT_CONTROLLER
        setting.controllers = {1: first, 2: second, 3: bystander}
        setting.links.down = {1}
        setting.links.break_waiting(1)
        image = await setting.until(lambda image: "t2" in image.topics)
        assert image.controller_id == 2 and setting.replica.controller_epoch == 2
        assert setting.known.claim == ControllerClaim(2, "node-2", 9093, 2)


async def test_errors_and_lost_links_are_waited_out() -> None:
    controller = FakeController()
    controller.refuse_with = ErrorCode.NOT_CONTROLLER
    async with running(controller) as setting:
        await setting.until_asked(2)
        setting.links.down = {1}
        setting.replica.leader_changed()
        controller.refuse_with = None
        controller.add(1)
        await asyncio.sleep(0)
        setting.links.down = set()
        await setting.until(lambda image: "t1" in image.topics)


@on_virtual_time
async def test_it_is_current_while_a_controller_answers_its_polls() -> None:
    controller = FakeController()
    setting = Setting(controller)
    assert not setting.replica.is_current
    task = asyncio.create_task(setting.replica.run())
    controller.add(1)
    await setting.until(lambda image: "t1" in image.topics)
    for _ in range(10):
        await asyncio.sleep(SETTINGS.metadata_wait_max_ms / 1000)
        assert setting.replica.is_current
    controller.is_hung = True
    controller.moved.set()
    await asyncio.sleep(2 * SETTINGS.metadata_wait_max_ms / 1000 + 2.1)
    assert not setting.replica.is_current
    after = FakeController(epoch=2, node_id=2)
    after.records = controller.records
    setting.elect(after)
    await asyncio.sleep(SETTINGS.metadata_wait_max_ms / 1000 + 0.1)
    assert setting.replica.is_current
    task.cancel()
    await asyncio.wait({task})


async def test_a_controller_that_is_replaced_while_its_link_is_made_is_left_as_well() -> None:
    first = FakeController(epoch=1, node_id=1)
    first.is_hung = True
    second = FakeController(epoch=2, node_id=2)
    second.add(1)
    async with running(first) as setting:
        real = setting.links.link

        async def slow(node_id: int, *arguments: Any) -> Any:
            link = await real(node_id, *arguments)
            if node_id == 1 and setting.claim is not None and setting.claim.node_id == 1:
                setting.elect(second)
                await asyncio.sleep(0)
            return link

        setting.links.link = slow  # type: ignore[method-assign,assignment]
        setting.replica.leader_changed()
        await setting.until(lambda image: "t1" in image.topics)
