"""Active controllers of a cluster on virtual time: a metadata log that outlives them, and nodes that talk to the present one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps
from random import Random
from typing import Any

from bmq.controller.config import ControllerConfig
from bmq.controller.runtime import Controller
from bmq.log.partition_log import TopicPartition, internal_batch
from bmq.metadata.image import METADATA_TOPIC_ID, MetadataImage, Node
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import (
    MetadataFetchRequest,
    MetadataFetchResponse,
    PartitionReport,
    ReportPartitionsRequest,
)
from bmq.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from bmq.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from bmq.protocol.metadata_records import MetadataRecord, encode_record
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog
from tests.fakes.store import FakeStore
from tests.simulation.loop import VirtualTimeLoop
from tests.support.asking import ask
from tests.unit.controller.cluster_support import BROKER_ROLES, heartbeat, registration
from tests.unit.controller.support import create, topic

CONFIG = ControllerConfig(cluster_id="cluster", balancer_enabled=False, topic_deletion_delay_ms=0)
BALANCED = replace(CONFIG, balancer_enabled=True)
CONTROLLER_NODE = Node(99, "", -1)
"""Not registered: a controller need not be."""


def on_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop whose clock jumps to whatever is due next."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        loop = VirtualTimeLoop(time_limit_s=600)
        try:
            loop.run_until_complete(test(*arguments, **named))
            assert not loop.failures, loop.failures
        finally:
            loop.discard()

    return run


class Wire:
    """A connection of a node, lost when a test says so."""

    def __init__(self) -> None:
        self.is_lost = False
        self._callbacks: list[Callable[[], None]] = []

    def on_lost(self, lost: Callable[[], None]) -> None:
        if self.is_lost:
            lost()
        else:
            self._callbacks.append(lost)

    def lose(self) -> None:
        self.is_lost = True
        callbacks, self._callbacks = self._callbacks, []
        for lost in callbacks:
            lost()


class LabNode:
    """A node that registers, beats every half second, and reports when told to. `controller` may change at any time."""

    def __init__(self, lab: ControllerLab, node_id: int, roles: tuple[str, ...], rack: str | None) -> None:
        self.node_id = node_id
        self.roles = roles
        self.rack = rack
        self.incarnation = 0
        self.epoch = -1
        self.wire: Wire | None = Wire()
        self.want_shut_down = False
        self.may_stop = False
        self.last: BrokerHeartbeatResponse | None = None
        self._lab = lab
        self._beating: asyncio.Task[None] | None = None

    async def register(self) -> BrokerRegistrationResponse:
        request = registration(self.node_id, self.incarnation, roles=self.roles, rack=self.rack)
        response = await self._lab.active.register_node(request, self.wire)
        if response.error_code == ErrorCode.NONE:
            self.epoch = response.broker_epoch
        return response

    async def beat(self) -> BrokerHeartbeatResponse:
        request = heartbeat(self.node_id, self.epoch, want_shut_down=self.want_shut_down)
        self.last = await self._lab.active.heartbeat(request, self.wire)
        self.may_stop = self.may_stop or self.last.should_shut_down
        return self.last

    async def join(self) -> None:
        """Register, take part and go on beating."""
        response = await self.register()
        assert response.error_code == ErrorCode.NONE, response
        joined = await self.beat()
        assert not joined.is_fenced, joined
        self.go_on()

    def go_on(self) -> None:
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            await self.beat()

    def stop(self) -> None:
        """Fall silent; its connection stays."""
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    def die(self) -> None:
        """kill -9: silent, and its connection is closed."""
        self.stop()
        if self.wire is not None:
            self.wire.lose()

    async def come_back(self) -> None:
        """As a new process."""
        self.incarnation += 1
        self.wire = Wire()
        await self.join()

    async def report(self, high_watermark: int, *, bytes_in: Callable[[int], int] = lambda number: 0) -> ErrorCode:
        """The same high watermark of everything it owns by the newest image."""
        reports = [
            PartitionReport(
                topic_id=found.topic_id,
                partition=partition.partition,
                leader_epoch=partition.leader_epoch,
                high_watermark=high_watermark,
                bytes_in=bytes_in(partition.partition),
            )
            for found in self._lab.image.topics.values()
            for partition in found.partitions
            if partition.leader == self.node_id
        ]
        request = ReportPartitionsRequest(
            node_id=self.node_id, node_epoch=self.epoch, interval_ms=1_000, partitions=reports
        )
        return ErrorCode((await self._lab.active.report_partitions(request)).error_code)


class ControllerLab:
    """`active` is the controller that was made last; `images` is everything published, with the time."""

    def __init__(self) -> None:
        self.log = FakePartitionLog(TopicPartition(METADATA_TOPIC_ID, 0))
        self.store = FakeStore()
        self.clock = FakeClock()
        self.nodes: dict[int, LabNode] = {}
        self.images: list[tuple[float, MetadataImage]] = []
        self.epoch = 0
        self._active: Controller | None = None

    @property
    def active(self) -> Controller:
        assert self._active is not None
        return self._active

    @property
    def image(self) -> MetadataImage:
        return self.active.image

    @property
    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    @asynccontextmanager
    async def controller(self, config: ControllerConfig = CONFIG) -> AsyncIterator[Controller]:
        """The next one, of the next epoch; nodes talk to it from now on."""
        self.epoch += 1
        made = Controller(
            self.log,
            self.store.client(f"controller-{self.epoch}"),
            CONTROLLER_NODE,
            self.clock,
            Random(self.epoch),
            config,
            lambda old, new: self.images.append((self.now_s, new)),
            epoch=self.epoch,
        )
        await made.start()
        self._active = made
        try:
            yield made
        finally:
            for node in self.nodes.values():
                node.stop()
            self.log.is_acknowledging = True
            self.log.acknowledge()
            await made.close()

    async def join(
        self, *node_ids: int, roles: tuple[str, ...] = BROKER_ROLES, rack: str | None = None
    ) -> list[LabNode]:
        joined = []
        for node_id in node_ids:
            node = self.nodes[node_id] = LabNode(self, node_id, roles, rack)
            await node.join()
            joined.append(node)
        return joined

    async def create(self, name: str, partitions: int, factor: int = 1) -> None:
        response = await ask(self.active, create(topic(name, partitions, factor)))
        assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0].error_message

    def write(self, record: MetadataRecord) -> None:
        """Put it into the log, as a controller before the next one would have."""
        batch = encode_batch([Record(b"", encode_record(record))])
        self.log.append(internal_batch(self.log.topic_partition, memoryview(batch), lambda result: None))

    def leaders(self, name: str) -> list[int]:
        return [partition.leader for partition in self.image.topics[name].partitions]

    def reasons(self, name: str, partition: int) -> list[str]:
        return [change.reason for change in self.active.history.of(self.image.topics[name].topic_id, partition)]

    async def until(self, is_true: Callable[[], bool], *, within_s: float = 60.0) -> float:
        """Let time pass; how much did."""
        began_s = self.now_s
        while not is_true():
            assert self.now_s - began_s < within_s, "it did not come true in time"
            await asyncio.sleep(0.01)
        return self.now_s - began_s

    async def fetch(
        self, offset: int, *, epoch: int | None = None, wait_ms: int = 0, offset_epoch: int = -1
    ) -> MetadataFetchResponse:
        return await self.active.metadata_fetch(
            MetadataFetchRequest(
                node_id=7,
                controller_epoch=self.epoch if epoch is None else epoch,
                offset=offset,
                max_wait_ms=wait_ms,
                bytes_max=100_000,
                offset_epoch=offset_epoch,
            )
        )
