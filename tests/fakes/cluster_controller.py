"""An active controller that decides at once, and a driver whose nodes register with it after a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from bmq.admin.channel_watch import ChannelWatch
from bmq.admin.drivers.driver import DriverFailed, NodeHandle, NodeSpec, first_free
from bmq.controller.balancer import equalize
from bmq.controller.decision import Decision
from bmq.controller.moves import Move
from bmq.controller.partition_reports import NodeLoad
from bmq.controller.replica_placement import owner_nodes
from bmq.log.config import LogConfig
from bmq.metadata.history import StateChange, StateChangeHistory
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage
from bmq.metadata.state import ALL_CHANNELS, CHANNEL_CONFIG, CHANNELS_VERSION_CONFIG, TABLE_CONFIG, MetadataState
from bmq.protocol.metadata_records import RESOURCE_TYPE_CHANNEL, RESOURCE_TYPE_TABLE, ConfigRecord
from tests.fakes.clock import FakeClock

R = TypeVar("R")


def topic_image(name: str, number: int, leaders: Sequence[int], replicas: Sequence[int] = ()) -> TopicImage:
    """One partition for each of `leaders`; the id is made of `number`."""
    partitions = tuple(
        PartitionImage(partition, leader, 1, tuple(replicas) or (leader,), tuple(replicas) or (leader,))
        for partition, leader in enumerate(leaders)
    )
    return TopicImage(name, UUID(int=100 + number), partitions, {"retention.ms": "1000"}, LogConfig())


def image_of(nodes: Iterable[Node], topics: Iterable[TopicImage] = (), controller_id: int = 1) -> MetadataImage:
    by_name = {topic.name: topic for topic in topics}
    return MetadataImage(
        offset=42,
        cluster_id="cluster",
        controller_id=controller_id,
        nodes={node.node_id: node for node in nodes},
        topics=by_name,
        topics_by_id={topic.topic_id: topic for topic in by_name.values()},
        partition_count=sum(len(topic.partitions) for topic in by_name.values()),
    )


class FakeController:
    """Implements bmq.admin.ports.ClusterController and TableController.

    `error`: raised by the next change. `keep_error`: by each task that is written. `is_stuck`: nothing moves. `balanced`: what `rebalance_plan` says instead of what
    would even the numbers out. `end_offsets`: of partitions, by topic id and number.
    """

    def __init__(self, image: MetadataImage, clock: FakeClock | None = None) -> None:
        self.image = image
        self.history = StateChangeHistory()
        self.error: Exception | None = None
        self.keep_error: Exception | None = None
        self.balanced: list[Move] | None = None
        self.reasons: list[str] = []
        self.is_stuck = False
        self.watch = ChannelWatch()
        self.end_offsets: dict[tuple[UUID, int], int] = {}
        self._ids = 0
        self._clock = clock or FakeClock()

    def loads(self) -> Mapping[int, NodeLoad]:
        return {node_id: NodeLoad(3, 1000.5, 2000.0, 7.25) for node_id in self.image.nodes}

    async def set_draining(self, node_id: int, is_draining: bool, reason: str) -> None:
        await self._turn()
        node = self.image.nodes.get(node_id)
        if node is None:
            return
        self.set_node(replace(node, is_draining=is_draining))
        self.reasons.append(f"{'drain' if is_draining else 'undrain'} {node_id}: {reason}")
        if is_draining:
            asyncio.get_running_loop().call_soon(self._drain, node_id, reason)

    def _drain(self, node_id: int, reason: str) -> None:
        node = self.image.nodes.get(node_id)
        moves = self.drain_plan(node_id) if node is not None and node.is_draining else ()
        if not self.is_stuck:
            self._apply(moves[:4], reason)
        if moves:
            asyncio.get_running_loop().call_later(0.001, self._drain, node_id, reason)

    def drain_plan(self, node_id: int) -> Sequence[Move]:
        others = [n for n, node in self.image.nodes.items() if n != node_id and not node.is_draining]
        if not others:
            return ()
        return [
            Move(topic.topic_id, topic.name, each.partition, node_id, others[each.partition % len(others)], "drained")
            for topic in self.image.topics.values()
            for each in topic.partitions
            if each.leader == node_id
        ]

    def rebalance_plan(self) -> Sequence[Move]:
        if self.balanced is not None:
            return list(self.balanced)
        takers = {n: node for n, node in owner_nodes(self.image.nodes).items() if not node.is_draining}
        return equalize(self.image, takers, lambda key: True, self.image.partition_count)

    async def keep_task(self, task_id: str, text: str, forgotten: Sequence[str]) -> None:
        if self.keep_error is not None:
            raise self.keep_error
        kept = {**self.image.tasks, task_id: text}
        self.image = replace(self.image, tasks={one: kept[one] for one in kept if one not in forgotten})

    async def apply_moves(self, moves: Sequence[Move], reason: str) -> None:
        await self._turn()
        if not self.is_stuck:
            self._apply(moves, reason)
        self.reasons.append(f"move {len(moves)}: {reason}")
        if self.balanced is not None:
            self.balanced = [move for move in self.balanced if move not in moves]

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def decide_with_id(self, decide: Callable[[MetadataImage, UUID, int], Decision[R]]) -> R:
        await self._turn()
        self._ids += 1
        decision = decide(self.image, UUID(int=9_000 + self._ids), self._clock.now_ms())
        old, state = self.image, MetadataState("cluster", 1, {})
        texts = ((RESOURCE_TYPE_TABLE, TABLE_CONFIG, old.tables), (RESOURCE_TYPE_CHANNEL, CHANNEL_CONFIG, old.channels))
        version = str(old.channels_version)
        before = [
            ConfigRecord(resource_type=kind, resource_name=name, name=config, value=text)
            for kind, config, known in texts
            for name, text in known.items()
        ]
        before.append(
            ConfigRecord(
                resource_type=RESOURCE_TYPE_CHANNEL,
                resource_name=ALL_CHANNELS,
                name=CHANNELS_VERSION_CONFIG,
                value=version,
            )
        )
        for record in (*before, *decision.records):
            assert isinstance(record, ConfigRecord)
            state.replay(record)
        new = state.image_at(old.offset + 1)
        self.image = replace(old, tables=new.tables, channels=new.channels, channels_version=new.channels_version)
        self.watch.image_changed(old, self.image)
        return decision.response

    def end_offset(self, topic_id: UUID, number: int) -> int:
        return self.end_offsets.get((topic_id, number), 0)

    # --- for tests

    def set_node(self, node: Node) -> None:
        self.image = replace(self.image, nodes={**self.image.nodes, node.node_id: node})

    def remove_node(self, node_id: int) -> None:
        nodes = {n: node for n, node in self.image.nodes.items() if n != node_id}
        self.image = replace(self.image, nodes=nodes)

    async def _turn(self) -> None:
        await asyncio.sleep(0)
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def _apply(self, moves: Iterable[Move], reason: str) -> None:
        topics = dict(self.image.topics)
        for move in moves:
            topic = topics[move.topic_name]
            old = topic.partitions[move.partition]
            assert old.leader == move.from_node, "a plan that rests on an older image"
            assert move.to_node in self.image.nodes, "a move to a node that is not there"
            new = replace(old, leader=move.to_node, leader_epoch=old.leader_epoch + 1)
            partitions = (*topic.partitions[: move.partition], new, *topic.partitions[move.partition + 1 :])
            topics[move.topic_name] = replace(topic, partitions=partitions)
            change = StateChange(self._clock.now_ms(), new.leader, new.leader_epoch, f"{reason}: {move.reason}")
            self.history.add(topic.topic_id, move.partition, change)
        by_id = {topic.topic_id: topic for topic in topics.values()}
        self.image = replace(self.image, offset=self.image.offset + 1, topics=topics, topics_by_id=by_id)


class FakeDriver:
    """Implements Driver. `never_register`: nodes that run and are not heard of; `ending`: nodes that end at once.

    `answers`: cleared, `list_nodes` waits. `failing_stops`, `never_leave`: nodes whose stop fails, or changes nothing.
    """

    def __init__(
        self, controller: FakeController, node_ids: range = range(100, 110), *, is_in_order: bool = False
    ) -> None:
        self.stops_in_order = is_in_order
        self.running: dict[int, str] = {}
        self.never_register: set[int] = set()
        self.ending: set[int] = set()
        self.failing_stops: set[int] = set()
        self.never_leave: set[int] = set()
        self.answers = asyncio.Event()
        self.answers.set()
        self._controller = controller
        self._node_ids = node_ids

    async def next_node_ids(self, count: int, taken: Collection[int]) -> Sequence[int]:
        return first_free(self._node_ids, count, {*taken, *self.running})

    async def start_node(self, spec: NodeSpec) -> NodeHandle:
        await asyncio.sleep(0)
        self.running[spec.node_id] = spec.roles
        if spec.node_id not in self.never_register | self.ending:
            node = Node(spec.node_id, "127.0.0.1", 9092, roles=frozenset(spec.roles.split(",")), epoch=1)
            asyncio.get_running_loop().call_later(0.01, self._controller.set_node, node)
        return NodeHandle(spec.node_id, True, "pid 1")

    async def stop_node(self, node_id: int) -> None:
        await asyncio.sleep(0)
        if node_id in self.failing_stops:
            raise DriverFailed(f"node {node_id} cannot be stopped")
        if self.stops_in_order and any(other > node_id for other in self.running):
            raise DriverFailed(f"node {max(self.running)} has to stop before node {node_id}")
        self.running.pop(node_id, None)
        if node_id not in self.never_leave:
            self._controller.remove_node(node_id)

    async def list_nodes(self) -> Sequence[NodeHandle]:
        await self.answers.wait()
        return [
            NodeHandle(node_id, node_id not in self.ending, "it ended: no ZooKeeper" if node_id in self.ending else "")
            for node_id in sorted(self.running)
        ]
