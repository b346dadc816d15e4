"""What a node owns follows the image: assigned, asked of its old owner, released, dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import structlog

from bmq.internode_client.link import LinkClosed, LinkLost
from bmq.log.config import LogConfig
from bmq.log.partition_log import TopicPartition
from bmq.membership.assignments import Assignments
from bmq.membership.settings import ClusterSettings
from bmq.metadata.image import OFFSETS_TOPIC_NAME, MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import UnsupportedVersion
from bmq.protocol.internal_messages import OwnedPartition, ReleasePartitionsRequest, ReleasePartitionsResponse
from tests.unit.internode_client.scripted_links import ScriptedLinks
from tests.unit.internode_client.waiting import until

pytestmark = pytest.mark.unit

ME, OTHER, THIRD = 1, 2, 3
TOPIC_ID = UUID(int=77)
KEY = TopicPartition(TOPIC_ID, 0)


class FakeManager:
    """Notes what is asked of a PartitionManager. `sealing`: cleared, hand-overs take until it is set."""

    def __init__(self) -> None:
        self.epochs: dict[TopicPartition, int] = {}
        self.floors: dict[TopicPartition, int] = {}
        self.handed_over: dict[TopicPartition, bool] = {}
        self.configs: dict[TopicPartition, LogConfig] = {}
        self.expected: dict[TopicPartition, int] = {}
        self.events: list[tuple[Any, ...]] = []
        self.sealing = asyncio.Event()
        self.sealing.set()
        self.changed = asyncio.Event()

    def _note(self, *event: Any) -> None:
        self.events.append(event)
        self.changed.set()

    def expect(self, key: TopicPartition, epoch: int) -> None:
        self.expected[key] = epoch

    def expect_no_more(self, key: TopicPartition, epoch: int | None = None) -> None:
        if epoch in (None, self.expected.get(key)):
            self.expected.pop(key, None)

    def assign(
        self,
        key: TopicPartition,
        epoch: int,
        name: str,
        config: LogConfig,
        floor: int = 0,
        *,
        is_handed_over: bool = False,
    ) -> None:
        assert self.epochs.get(key, -1) < epoch
        self.handed_over[key] = is_handed_over
        self.epochs[key], self.floors[key], self.configs[key] = epoch, floor, config
        self._note("assign", key, epoch)

    async def unassign(self, key: TopicPartition, epoch: int, *, is_sealed: bool = True) -> None:
        if self.epochs.get(key) != epoch:
            return
        del self.epochs[key]
        if is_sealed:
            await self.sealing.wait()
        self._note("sealed" if is_sealed else "let go", key, epoch)

    def drop(self, key: TopicPartition) -> None:
        self.epochs.pop(key, None)
        self._note("drop", key)

    def update_config(self, key: TopicPartition, config: LogConfig) -> None:
        self._note("config", key, config.retention_ms)

    def leader_epoch(self, key: TopicPartition) -> int | None:
        return self.epochs.get(key)

    def ready(self, key: TopicPartition) -> None:
        return None

    async def leader_of(self, key: TopicPartition, *, is_awaited: bool = True) -> None:
        assert not is_awaited, "no client waits for it"
        self._note("start", key)

    async def until(self, *event: Any) -> None:
        async with asyncio.timeout(5):
            while event not in self.events:
                self.changed.clear()
                await self.changed.wait()


def image(
    leader: int,
    epoch: int,
    *,
    live: tuple[int, ...] = (ME, OTHER, THIRD),
    name: str = "t",
    floor: int = 0,
    was_in_use: bool = False,
) -> MetadataImage:
    partition = PartitionImage(0, leader, epoch, (ME, OTHER), live, epoch, floor, was_in_use)
    topic = TopicImage(name, TOPIC_ID, (partition,), {}, LogConfig())
    nodes: Mapping[int, Node] = {node_id: Node(node_id, "h", 1, internal=("h", 2)) for node_id in live}
    return MetadataImage(offset=epoch, nodes=nodes, topics={name: topic}, topics_by_id={TOPIC_ID: topic})


class Setting:
    def __init__(self, release_wait_max_ms: int = 5_000, takeover_delay_ms: int = 1) -> None:
        self.manager = FakeManager()
        self.links = ScriptedLinks(RELEASE_PARTITIONS=self._released)
        self.release_answer = asyncio.Event()
        self.release_answer.set()
        self.release_failure: LinkLost | None = None
        self.lost_shards: list[int] = []
        self.is_store_away = False
        self.changes = 0
        self.seen = MetadataImage()
        self.assignments = Assignments(
            ME,
            self.manager,  # type: ignore[arg-type]
            self.links,  # type: ignore[arg-type]
            {OFFSETS_TOPIC_NAME: self.lost_shards.append},
            self._changed,
            ClusterSettings(release_wait_max_ms=release_wait_max_ms, takeover_delay_ms=takeover_delay_ms),
            is_store_away=lambda: self.is_store_away,
        )

    async def _released(self, node_id: int, request: Any) -> ReleasePartitionsResponse:
        await self.release_answer.wait()
        if self.release_failure is not None:
            raise self.release_failure
        return ReleasePartitionsResponse()

    def _changed(self) -> None:
        self.changes += 1

    def see(self, new: MetadataImage, *, is_registered: bool = True) -> None:
        old, self.seen = self.seen, new
        self.assignments.image_changed(old, new, is_registered=is_registered)

    async def release(self, epoch: int) -> None:
        request = ReleasePartitionsRequest(
            node_id=OTHER, partitions=[OwnedPartition(topic_id=TOPIC_ID, partition=0, leader_epoch=epoch)]
        )
        await self.assignments.release(request, self.seen)


async def test_a_new_partition_is_assigned_with_its_floor() -> None:
    setting = Setting()
    setting.see(image(ME, 3, floor=42))
    assert setting.manager.events == [("assign", KEY, 3)]
    assert setting.manager.floors == {KEY: 42}
    setting.see(image(ME, 3, floor=42))  # an equal image made anew
    assert len(setting.manager.events) == 1


async def test_a_live_owner_is_asked_before_its_partition_is_taken() -> None:
    setting = Setting()
    setting.see(image(OTHER, 3))
    setting.release_answer.clear()
    setting.see(image(ME, 4))
    await until(lambda: setting.links.calls)
    node_id, api_key, request = setting.links.calls[0]
    assert (node_id, api_key, request.partitions[0].leader_epoch) == (OTHER, ApiKey.RELEASE_PARTITIONS, 4)
    assert setting.manager.events == []
    assert setting.manager.expected == {KEY: 4}, "who asks for it waits for that"
    setting.release_answer.set()
    await setting.manager.until("assign", KEY, 4)
    await until(lambda: setting.changes == 1)
    assert setting.manager.expected == {}


@pytest.mark.parametrize("is_down", [True, False])
async def test_an_owner_that_does_not_answer_is_not_waited_for_long(is_down: bool) -> None:
    setting = Setting(release_wait_max_ms=20)
    setting.see(image(OTHER, 3))
    setting.release_answer.clear()
    if is_down:
        setting.links.down = {OTHER}
    setting.see(image(ME, 4))
    await setting.manager.until("assign", KEY, 4)


@pytest.mark.parametrize(("failure", "level"), [(LinkClosed, "debug"), (LinkLost, "warning")])
async def test_only_an_owner_that_has_not_left_is_told_of(failure: type[LinkLost], level: str) -> None:
    setting = Setting()
    setting.release_failure = failure("the link is gone")
    setting.see(image(OTHER, 3))
    with structlog.testing.capture_logs() as lines:
        setting.see(image(ME, 4))
        await setting.manager.until("assign", KEY, 4)
    assert [(line["log_level"], line["event"]) for line in lines] == [(level, "partitions_not_released")]


async def test_a_dead_owners_partition_is_assigned_at_once_and_started_behind() -> None:
    setting = Setting()
    setting.see(image(OTHER, 3))
    setting.see(image(ME, 4, live=(ME, THIRD)))
    assert setting.manager.events == [("assign", KEY, 4)]
    assert setting.links.calls == []
    await setting.manager.until("start", KEY)


@pytest.mark.parametrize("was_in_use", [True, False])
async def test_a_dead_owners_partition_that_was_in_use_is_started_at_once(was_in_use: bool) -> None:
    setting = Setting(takeover_delay_ms=60_000)
    setting.see(image(OTHER, 3))
    setting.see(image(ME, 4, live=(ME, THIRD), was_in_use=was_in_use))
    for _ in range(10):
        await asyncio.sleep(0)
    assert setting.manager.events == [("assign", KEY, 4), *([("start", KEY)] if was_in_use else [])]
    await setting.assignments.close()


@pytest.mark.parametrize("was_in_use", [True, False])
async def test_a_partition_in_use_that_is_handed_over_is_started_at_once(was_in_use: bool) -> None:
    setting = Setting(takeover_delay_ms=1)
    setting.see(image(OTHER, 3))
    setting.see(image(ME, 4, was_in_use=was_in_use))
    await setting.manager.until("assign", KEY, 4)
    await asyncio.sleep(0.02)
    assert setting.manager.events == [("assign", KEY, 4), *([("start", KEY)] if was_in_use else [])]
    assert setting.manager.handed_over == {KEY: True}


async def test_what_moves_away_is_sealed_and_its_shard_given_up() -> None:
    setting = Setting()
    setting.see(image(ME, 3, name=OFFSETS_TOPIC_NAME))
    setting.see(image(OTHER, 4, name=OFFSETS_TOPIC_NAME))
    await setting.manager.until("sealed", KEY, 3)
    assert setting.lost_shards == [0]


async def test_a_release_is_answered_when_the_partition_is_sealed() -> None:
    setting = Setting()
    setting.see(image(ME, 3))
    setting.manager.sealing.clear()
    release = asyncio.create_task(setting.release(4))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert setting.manager.leader_epoch(KEY) is None and not release.done()
    setting.see(image(OTHER, 4))  # the image says the same meanwhile: nothing happens twice
    setting.manager.sealing.set()
    await release
    assert setting.manager.events == [("assign", KEY, 3), ("sealed", KEY, 3)]


async def test_a_node_that_does_not_reach_the_store_lets_go_without_sealing() -> None:
    setting = Setting()
    setting.see(image(ME, 3))
    setting.manager.sealing.clear()
    setting.is_store_away = True
    await setting.release(4)
    assert setting.manager.events == [("assign", KEY, 3), ("let go", KEY, 3)]


async def test_a_released_epoch_is_never_assigned_again() -> None:
    setting = Setting()
    setting.see(image(ME, 3))
    await setting.release(5)
    stale = image(ME, 4)
    setting.see(stale)
    assert setting.manager.leader_epoch(KEY) is None
    setting.see(image(OTHER, 5))
    setting.see(image(ME, 6, live=(ME,)))
    assert setting.manager.leader_epoch(KEY) == 6


async def test_a_release_for_an_epoch_we_are_past_changes_nothing() -> None:
    setting = Setting()
    setting.see(image(ME, 6))
    await setting.release(5)
    assert setting.manager.events == [("assign", KEY, 6)]
    await setting.assignments.release(
        ReleasePartitionsRequest(partitions=[OwnedPartition(topic_id=UUID(int=5), partition=0, leader_epoch=1)]),
        setting.seen,
    )


async def test_a_partition_that_moved_on_while_its_owner_was_asked_is_not_assigned() -> None:
    setting = Setting()
    setting.see(image(OTHER, 3))
    setting.release_answer.clear()
    setting.see(image(ME, 4))
    setting.see(image(THIRD, 5))
    assert setting.manager.expected == {}
    setting.release_answer.set()
    await until(lambda: setting.changes)
    assert ("assign", KEY, 4) not in setting.manager.events


async def test_an_earlier_hand_over_that_ends_late_does_not_end_what_is_expected_by_now() -> None:
    setting = Setting()
    answers = {4: asyncio.Event(), 6: asyncio.Event()}

    async def released(node_id: int, request: Any) -> ReleasePartitionsResponse:
        await answers[request.partitions[0].leader_epoch].wait()
        return ReleasePartitionsResponse()

    setting.links.answers[ApiKey.RELEASE_PARTITIONS] = released
    for leader, epoch in ((OTHER, 3), (ME, 4), (THIRD, 5), (ME, 6)):
        setting.see(image(leader, epoch))
    answers[4].set()
    await until(lambda: setting.changes == 1)
    assert setting.manager.expected == {KEY: 6}
    answers[6].set()
    await setting.manager.until("assign", KEY, 6)
    await until(lambda: setting.manager.expected == {})


async def test_a_deleted_topic_is_expected_no_more() -> None:
    setting = Setting()
    setting.see(image(OTHER, 3))
    setting.release_answer.clear()
    setting.see(image(ME, 4))
    setting.see(MetadataImage(offset=9))
    assert setting.manager.expected == {}


async def test_an_epoch_ends_also_while_an_earlier_one_still_drains() -> None:
    setting = Setting()
    setting.see(image(ME, 1))
    setting.manager.sealing.clear()
    setting.see(image(OTHER, 2))
    await until(lambda: setting.manager.leader_epoch(KEY) is None)
    setting.see(image(ME, 3))
    await until(lambda: setting.manager.leader_epoch(KEY) == 3)
    release = asyncio.create_task(setting.release(4))
    await until(lambda: setting.manager.leader_epoch(KEY) is None)
    assert not release.done()
    setting.manager.sealing.set()
    await release
    assert {("sealed", KEY, 1), ("sealed", KEY, 3)} <= set(setting.manager.events)


async def test_settings_that_changed_while_the_owner_was_asked_are_the_ones_assigned() -> None:
    setting = Setting()
    setting.see(image(OTHER, 3))
    setting.release_answer.clear()
    moved = image(ME, 4)
    setting.see(moved)
    topic = replace(moved.topics["t"], log_config=LogConfig(retention_ms=5))
    setting.see(replace(moved, topics={"t": topic}, topics_by_id={TOPIC_ID: topic}))
    setting.release_answer.set()
    await setting.manager.until("assign", KEY, 4)
    assert setting.manager.configs[KEY].retention_ms == 5


async def test_an_owner_of_another_release_is_not_asked_and_is_fenced() -> None:
    setting = Setting()
    setting.links.answers[ApiKey.RELEASE_PARTITIONS] = unsupported
    setting.see(image(OTHER, 3))
    setting.see(image(ME, 4))
    await setting.manager.until("assign", KEY, 4)


async def unsupported(node_id: int, request: Any) -> Any:
    raise UnsupportedVersion("no version in common")


async def test_deleted_topics_are_dropped_and_configs_follow() -> None:
    setting = Setting()
    first = image(ME, 3)
    setting.see(first)
    topic = replace(first.topics["t"], log_config=LogConfig(retention_ms=5))
    setting.see(replace(first, topics={"t": topic}, topics_by_id={TOPIC_ID: topic}))
    assert ("config", KEY, 5) in setting.manager.events
    setting.see(MetadataImage(offset=9, nodes=first.nodes))
    assert setting.manager.events[-1] == ("drop", KEY)


async def test_nothing_is_assigned_after_the_close() -> None:
    setting = Setting()
    setting.see(image(OTHER, 3))
    setting.release_answer.clear()
    setting.see(image(ME, 4))
    await asyncio.sleep(0)
    await setting.assignments.close()
    setting.see(image(ME, 5))
    assert setting.manager.events == []


async def test_what_belongs_to_another_incarnation_of_the_node_is_not_ours() -> None:
    setting = Setting()
    manager = setting.manager
    setting.see(image(ME, 3), is_registered=False)
    assert not manager.events
    registered = image(ME, 3)
    setting.see(replace(registered, topics_by_id=setting.seen.topics_by_id))
    assert manager.events == [("assign", KEY, 3)]
    setting.see(image(ME, 4), is_registered=False)
    await manager.until("sealed", KEY, 3)
    assert manager.events == [("assign", KEY, 3), ("sealed", KEY, 3)]


async def test_a_release_that_begins_late_leaves_what_is_ours_again_by_then() -> None:
    setting = Setting()
    setting.see(image(ME, 3))
    release = asyncio.create_task(setting.release(4))
    await asyncio.sleep(0)  # it has begun, and what it begins has not
    setting.see(image(ME, 5))
    await release
    await setting.manager.until("assign", KEY, 5)
    assert setting.manager.leader_epoch(KEY) == 5
