"""The controller behind links: found, lost, replaced and repeated; and the proxy's own image behind it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.controller.config import ControllerConfig
from bmq.controller.runtime import Controller
from bmq.election.election import ControllerClaim
from bmq.internal.local_roles import HereController
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import METADATA_TOPIC_ID, OFFSETS_TOPIC_NAME, MetadataImage
from bmq.peers.link import LinkLost
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from bmq.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from bmq.routing.controller_requests import RemoteController, RemoteControllerConfig
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.fakes.store import FakeStore
from tests.unit.controller.support import NODE, create, delete, describe, full, grow, incremental, topic
from tests.unit.peers.looped_links import LoopedLinks, internal_services
from tests.unit.proxy.harness import services_over
from tests.unit.routing.group_cluster import virtual

pytestmark = pytest.mark.unit

CONTROLLERS = (11, 12)
PROXY = "User:somebody"


class Office:
    """Whether a node has the active controller."""

    def __init__(self) -> None:
        self.active: Controller | None = None
        self.epoch = -1


class World:
    """One metadata log; its controller sits at node 11 or 12, and the proxy's image follows it after `lag_s`."""

    def __init__(self, config: RemoteControllerConfig | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.image = MetadataImage()
        self.lag_s: float | None = 0.0
        log = FakePartitionLog(TopicPartition(METADATA_TOPIC_ID, 0))
        kafka = {"offsets.topic.num.partitions": "7", "num.partitions": "3"}
        settings = ControllerConfig(cluster_id="cluster", broker_configs=kafka)
        self.controller = Controller(
            log, FakeStore().client("c"), NODE, FakeClock(), Random(1), settings, self._published
        )
        self.offices = {node_id: Office() for node_id in CONTROLLERS}
        self.claim: ControllerClaim | None = None
        self.links = LoopedLinks({})
        self.remote = RemoteController(
            cast(Any, self.links), lambda: self.image, lambda: self.claim, node_id=NODE.node_id, config=config
        )

    async def start(self) -> None:
        await self.controller.start()
        nodes = {}
        for node_id, office in self.offices.items():
            here = HereController(office, lambda: self.image)
            services = services_over(cast(Any, here), FakePartitions())
            services.appender.stop()
            nodes[node_id] = internal_services(services, office=office)
        self.links.nodes = nodes
        self.elect(11)

    def _published(self, old: MetadataImage, new: MetadataImage) -> None:
        if self.lag_s is not None:
            self.loop.call_later(self.lag_s, self._show, new)

    def _show(self, image: MetadataImage) -> None:
        # The only node of this log has no internal listener, and so no epoch in images; it is registered under 0.
        self.image = replace(image, nodes={n: replace(node, epoch=0) for n, node in image.nodes.items()})
        self.remote.image_changed()

    def elect(self, node_id: int) -> None:
        """The controller is active there from now on, and everybody knows."""
        for at, office in self.offices.items():
            office.active = self.controller if at == node_id else None
        epoch = 1 if self.claim is None else self.claim.epoch + 1
        self.claim = ControllerClaim(node_id, f"host-{node_id}", 9192, epoch)

    def now_s(self) -> float:
        return self.loop.time()

    async def has(self, *names: str) -> None:
        """Topics that are there already."""
        await self.controller.create_topics(create(*(topic(name, 2) for name in names)), principal=PROXY)
        await asyncio.sleep((self.lag_s or 0) + 0.001)


Story = Callable[[World], Awaitable[None]]


def told(story: Story, config: RemoteControllerConfig | None = None) -> None:
    async def main() -> None:
        world = World(config)
        await world.start()
        await asyncio.sleep(0.001)
        await story(world)
        await world.controller.close()

    virtual(main)


# --- reading one's writes


def test_what_was_made_is_in_the_own_image_when_the_answer_comes() -> None:
    async def story(world: World) -> None:
        world.lag_s = 0.7
        response = await world.remote.create_topics(create(topic("a", 2), topic("b/ad")), principal=PROXY)
        made, bad = response.topics
        assert (made.error_code, made.num_partitions, bad.error_code) == (0, 2, ErrorCode.INVALID_TOPIC_EXCEPTION)
        assert world.remote.image.topics["a"].topic_id == made.topic_id and world.now_s() >= 0.7
        grown = await world.remote.create_partitions(grow("a", 5))
        assert grown.results[0].error_code == 0 and len(world.image.topics["a"].partitions) == 5
        deleted = await world.remote.delete_topics(delete("a"))
        assert deleted.responses[0].error_code == 0 and "a" not in world.image.topics

    told(story)


def test_an_image_that_does_not_follow_is_not_waited_for_for_ever() -> None:
    async def story(world: World) -> None:
        world.lag_s = None
        response = await world.remote.create_topics(create(topic("a")), principal=PROXY)
        assert response.topics[0].error_code == 0 and 5 <= world.now_s() < 5.2
        with pytest.raises(KafkaError) as caught:
            await world.remote.auto_create_topic("b")
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT

    told(story)


def test_what_is_only_validated_is_not_waited_for() -> None:
    async def story(world: World) -> None:
        response = await world.remote.create_topics(create(topic("a"), validate_only=True), principal=PROXY)
        await world.has("b")
        grown = await world.remote.create_partitions(grow("b", 3, validate_only=True))
        assert (response.topics[0].error_code, grown.results[0].error_code) == (0, 0)
        assert world.now_s() < 0.1 and "a" not in world.image.topics

    told(story)


def test_configs_are_altered_and_described_by_the_controller() -> None:
    async def story(world: World) -> None:
        await world.has("a")
        altered = await world.remote.incremental_alter_configs(incremental(2, "a", ("retention.ms", 0, "5")))
        assert [one.error_code for one in altered.responses] == [0]
        described = await world.remote.describe_configs(describe((2, "a", ("retention.ms",)), (2, "nono", None)))
        assert described.results[0].configs[0].value == "5"
        assert described.results[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        listed = await world.remote.list_partition_reassignments(ListPartitionReassignmentsRequest(topics=None))
        assert (listed.error_code, list(listed.topics)) == (0, [])
        elected = await world.remote.elect_leaders(
            ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0])])
        )
        assert elected.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED

    told(story)


# --- finding the controller


def test_it_is_waited_for_while_there_is_none() -> None:
    async def story(world: World) -> None:
        claim, world.claim = world.claim, None
        asking = asyncio.create_task(world.remote.create_topics(create(topic("a"), timeout_ms=10_000), principal=PROXY))
        await asyncio.sleep(3)
        assert not asking.done()
        world.claim = claim
        assert (await asking).topics[0].error_code == 0 and world.now_s() < 3.4

    told(story)


@pytest.mark.parametrize("failure", ["refuses", "not_active"])
def test_the_next_controller_is_asked(failure: str) -> None:
    async def story(world: World) -> None:
        stale = world.claim
        world.elect(12)
        new, world.claim = world.claim, stale
        if failure == "refuses":
            world.links.down.add(11)
        asking = asyncio.create_task(world.remote.create_topics(create(topic("a")), principal=PROXY))
        await asyncio.sleep(1)
        assert not asking.done()
        world.claim = new
        assert (await asking).topics[0].error_code == 0
        assert (12, ApiKey.ENVELOPE) in world.links.calls

    told(story)


def test_a_hung_controller_is_left_when_it_is_replaced() -> None:
    async def story(world: World) -> None:
        world.links.hung.add(11)
        asking = asyncio.create_task(world.remote.create_topics(create(topic("a"), timeout_ms=60_000), principal=PROXY))
        await asyncio.sleep(2)
        world.elect(12)
        assert (await asking).topics[0].error_code == 0 and world.now_s() < 2.5

    told(story)


REQUESTS: list[tuple[str, Any]] = [
    ("create_topics", create(topic("a"), topic("b"))),
    ("delete_topics", delete("a", UUID(int=5))),
    ("create_partitions", grow("a", 3)),
    ("describe_configs", describe((2, "a", None), (4, "1", None))),
    ("incremental_alter_configs", incremental(2, "a", ("retention.ms", 0, "5"))),
    ("alter_configs", full(2, "a", ("retention.ms", "5"))),
    ("elect_leaders", ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0, 1])])),
    ("elect_leaders", ElectLeadersRequest(topic_partitions=None)),
    ("alter_partition_reassignments", AlterPartitionReassignmentsRequest()),
    ("list_partition_reassignments", ListPartitionReassignmentsRequest()),
]


def codes_in(part: Any) -> list[int]:
    """Every error code of a response, the outermost first."""
    if isinstance(part, (list, tuple)):
        return [code for one in part for code in codes_in(one)]
    if not dataclasses.is_dataclass(part):
        return []
    fields = [getattr(part, field.name) for field in dataclasses.fields(part)]
    own = [part.error_code] if hasattr(part, "error_code") else []
    return own + [code for value in fields for code in codes_in(value)]


@pytest.mark.parametrize(("method", "request_"), REQUESTS)
def test_when_the_time_is_over_every_part_says_so(method: str, request_: Any) -> None:
    async def story(world: World) -> None:
        world.claim = None
        ask = getattr(world.remote, method)
        asked = ask(request_, principal=PROXY) if method == "create_topics" else ask(request_)
        codes = codes_in(await asked)
        wanted = {"create_topics": 2, "delete_topics": 2, "describe_configs": 2, "elect_leaders": 3}.get(method, 1)
        assert codes == [ErrorCode.REQUEST_TIMED_OUT] * (
            1 if getattr(request_, "topic_partitions", 0) is None else wanted
        )
        # Not sent in the last fifth: the client counts its time from an earlier moment.
        assert world.now_s() == pytest.approx(0.8 * getattr(request_, "timeout_ms", 30_000) / 1000, abs=0.1)

    told(story)


def test_a_time_too_short_to_get_there_is_made_longer() -> None:
    async def story(world: World) -> None:
        claim, world.claim = world.claim, None
        asking = asyncio.create_task(world.remote.create_topics(create(topic("a"), timeout_ms=0), principal=PROXY))
        await asyncio.sleep(0.5)
        world.claim = claim
        assert (await asking).topics[0].error_code == 0

    told(story)


# --- work an earlier try may have done


def test_a_topic_whose_creation_was_repeated_is_created() -> None:
    async def story(world: World) -> None:
        world.lag_s = 0.3
        await world.has("old")
        world.links.lose_answers(1)
        wanted = create(topic("a", 2, configs={"retention.ms": "5"}), topic("old", 2), topic("b", -1, -1))
        response = await world.remote.create_topics(wanted, principal=PROXY)
        a, old, b = response.topics
        assert (a.error_code, a.num_partitions, a.replication_factor, a.error_message) == (0, 2, 1, None)
        assert a.topic_id == world.image.topics["a"].topic_id
        assert old.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert (b.error_code, b.num_partitions) == (0, 3)

    told(story)


@pytest.mark.parametrize("other", [topic("a", 9), topic("a", 2, configs={"retention.ms": "6"})])
def test_somebody_elses_topic_is_not_ours(other: Any) -> None:
    """The first try never arrived, and before the second one another client made a topic of that name."""

    async def story(world: World) -> None:
        async def interfere(node_id: int, api_key: ApiKey) -> None:
            world.links.before = None
            await world.controller.create_topics(create(other), principal=PROXY)
            raise LinkLost("the connection broke")

        world.links.before = interfere
        wanted = create(topic("a", 2, configs={"retention.ms": "5"}))
        response = await world.remote.create_topics(wanted, principal=PROXY)
        assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    told(story)


def test_a_connection_that_was_refused_makes_nothing_doubtful() -> None:
    async def story(world: World) -> None:
        world.links.down.add(11)
        asking = asyncio.create_task(world.remote.create_topics(create(topic("a", 2)), principal=PROXY))
        await asyncio.sleep(0.1)
        await world.controller.create_topics(create(topic("a", 2)), principal=PROXY)
        world.links.down.clear()
        assert (await asking).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    told(story)


def test_a_topic_whose_deletion_was_repeated_is_deleted() -> None:
    async def story(world: World) -> None:
        await world.has("a", "b")
        b = world.image.topics["b"].topic_id
        world.links.lose_answers(1)
        response = await world.remote.delete_topics(delete("a", b, "nono"))
        assert [(one.name, one.error_code) for one in response.responses] == [
            ("a", 0),
            ("b", 0),
            ("nono", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert not world.image.topics

    told(story)


def test_a_repeated_deletion_spares_a_topic_of_that_name_that_was_made_anew() -> None:
    async def story(world: World) -> None:
        await world.has("a")
        first = world.image.topics["a"].topic_id

        async def make_anew(node_id: int, api_key: ApiKey) -> None:
            world.links.after = None
            await world.has("a")
            raise LinkLost("the connection broke")

        world.links.after = make_anew
        response = await world.remote.delete_topics(delete("a"))
        assert (response.responses[0].error_code, response.responses[0].topic_id) == (0, first)
        assert world.image.topics["a"].topic_id != first

    told(story)


def test_a_deletion_that_waited_for_a_controller_spares_a_topic_of_that_name_that_was_made_anew() -> None:
    async def story(world: World) -> None:
        await world.has("a")
        first = world.image.topics["a"].topic_id
        claim, world.claim = world.claim, None
        deleting = asyncio.ensure_future(world.remote.delete_topics(delete("a")))
        await asyncio.sleep(2.5)
        await world.controller.delete_topics(delete("a"))
        await world.has("a")
        world.claim = claim
        assert (await deleting).responses[0].topic_id == first
        assert "a" in world.image.topics and world.image.topics["a"].topic_id != first

    told(story)


def test_partitions_whose_creation_was_repeated_are_created() -> None:
    async def story(world: World) -> None:
        await world.has("a")
        world.links.lose_answers(1)
        assert (await world.remote.create_partitions(grow("a", 4))).results[0].error_code == 0
        again = await world.remote.create_partitions(grow("a", 4))
        assert again.results[0].error_code == ErrorCode.INVALID_PARTITIONS
        for count in (3, 4):
            world.links.lose_answers(1)
            useless = await world.remote.create_partitions(grow("a", count))
            assert useless.results[0].error_code == ErrorCode.INVALID_PARTITIONS

    told(story)


# --- topics made on demand, producer ids


def test_topics_are_made_with_the_controllers_defaults_once_for_all_who_ask() -> None:
    async def story(world: World) -> None:
        world.lag_s = 0.2
        await asyncio.gather(*(world.remote.auto_create_topic(name) for name in ["a", "a", OFFSETS_TOPIC_NAME, "a"]))
        assert len(world.links.calls) == 2
        assert len(world.image.topics["a"].partitions) == 3
        offsets = world.image.topics[OFFSETS_TOPIC_NAME]
        assert len(offsets.partitions) == 7 and offsets.configs["cleanup.policy"] == "compact"
        await world.remote.auto_create_topic("a")
        assert len(world.links.calls) == 2, "it is in the image"

    told(story)


def test_a_topic_the_own_image_has_not_heard_of_yet_is_waited_for() -> None:
    async def story(world: World) -> None:
        world.lag_s = 1.0
        await world.controller.create_topics(create(topic("a")), principal=PROXY)
        await world.remote.auto_create_topic("a")
        assert "a" in world.image.topics and world.now_s() >= 1

    told(story)


def test_why_a_topic_was_not_made_is_raised() -> None:
    async def story(world: World) -> None:
        for name, code in (("a b", ErrorCode.INVALID_TOPIC_EXCEPTION), ("", ErrorCode.INVALID_TOPIC_EXCEPTION)):
            with pytest.raises(KafkaError) as caught:
                await world.remote.auto_create_topic(name)
            assert caught.value.code is code
        world.claim = None
        with pytest.raises(KafkaError) as caught:
            await world.remote.auto_create_topic("a")
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT and world.now_s() < 16
        assert not world.remote._auto_creations

    told(story)


def test_producer_ids_are_never_given_twice() -> None:
    async def story(world: World) -> None:
        first = await world.remote.allocate_producer_ids()
        world.links.lose_answers(1)
        second = await world.remote.allocate_producer_ids()
        world.offices[11].active = None
        asking = asyncio.create_task(world.remote.allocate_producer_ids())
        await asyncio.sleep(1)
        world.elect(12)
        third = await asking
        blocks = [first, second, third]
        assert all(len(block) == 1000 for block in blocks)
        assert len({number for block in blocks for number in block}) == 3000
        assert world.image.next_producer_id == 4000, "the block of the lost answer is nobody's"

    told(story)


def test_a_node_that_is_not_registered_yet_waits_for_its_ids() -> None:
    async def story(world: World) -> None:
        image, world.image = world.image, MetadataImage()
        asking = asyncio.create_task(world.remote.allocate_producer_ids())
        await asyncio.sleep(1)
        assert not asking.done()
        world.image = image
        assert len(await asking) == 1000

    told(story)


def test_without_a_controller_there_are_no_ids_after_a_while() -> None:
    async def story(world: World) -> None:
        world.claim = None
        with pytest.raises(KafkaError) as caught:
            await world.remote.allocate_producer_ids()
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT and world.now_s() == pytest.approx(1.6, abs=0.1)

    told(story, RemoteControllerConfig(request_wait_default_ms=2_000))
