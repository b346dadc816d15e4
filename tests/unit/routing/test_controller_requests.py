"""The controller behind links: found, lost, replaced and repeated; and the proxy's own image behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.controller.config import ControllerConfig
from bmq.controller.decision import Decision
from bmq.controller.runtime import Controller
from bmq.election.election import ControllerClaim
from bmq.internode_client.link import LinkLost
from bmq.internode_server.local_roles import LocalController
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import METADATA_TOPIC_ID, OFFSETS_TOPIC_NAME, MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from bmq.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from bmq.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from bmq.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from bmq.protocol.request_context import RequestContext
from bmq.routing.controller_requests import RemoteController, RemoteControllerConfig
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.fakes.store import FakeStore
from tests.support.asking import ask
from tests.unit.controller.cluster_support import registered
from tests.unit.controller.support import NODE, create, delete, describe, full, grow, incremental, topic
from tests.unit.internode_client.looped_links import LoopedLinks, internal_services
from tests.unit.proxy.harness import services_over
from tests.unit.routing.group_cluster import virtual

pytestmark = pytest.mark.unit

CONTROLLERS = (11, 12)
PROXY = "User:somebody"


class Leadership:
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
        self.clock = FakeClock()
        log = FakePartitionLog(TopicPartition(METADATA_TOPIC_ID, 0))
        kafka = {"offsets.topic.num.partitions": "7", "num.partitions": "3"}
        settings = ControllerConfig(cluster_id="cluster", broker_configs=kafka)
        self.controller = Controller(
            log, FakeStore().client("c"), NODE, self.clock, Random(1), settings, self._published
        )
        self.leaderships = {node_id: Leadership() for node_id in CONTROLLERS}
        self.claim: ControllerClaim | None = None
        self.links = LoopedLinks({})
        self.remote = RemoteController(
            cast(Any, self.links),
            lambda: self.image,
            lambda: self.claim,
            node_id=NODE.node_id,
            local=lambda: self.here,
            config=config,
            elapsed_s=self.clock.elapsed_s,
        )
        self.here: Controller | None = self.controller

    async def start(self) -> None:
        await self.controller.start()
        nodes = {}
        for node_id, leadership in self.leaderships.items():
            here = LocalController(leadership, lambda: self.image)
            services = services_over(cast(Any, here), FakePartitions())
            services.appender.stop()
            nodes[node_id] = internal_services(services, leadership=leadership)
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
        for at, leadership in self.leaderships.items():
            leadership.active = self.controller if at == node_id else None
        epoch = 1 if self.claim is None else self.claim.epoch + 1
        self.claim = ControllerClaim(node_id, f"host-{node_id}", 9192, epoch)

    def now_s(self) -> float:
        return self.loop.time()

    async def has(self, *names: str) -> None:
        """Topics that are there already."""
        await ask(self.controller, create(*(topic(name, 2) for name in names)))
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
        response = await ask(world.remote, create(topic("a", 2), topic("b/ad")))
        made, bad = response.topics
        assert (made.error_code, made.num_partitions, bad.error_code) == (0, 2, ErrorCode.INVALID_TOPIC_EXCEPTION)
        assert world.remote.image.topics["a"].topic_id == made.topic_id and world.now_s() >= 0.7
        grown = await ask(world.remote, grow("a", 5))
        assert grown.results[0].error_code == 0 and len(world.image.topics["a"].partitions) == 5
        deleted = await ask(world.remote, delete("a"))
        assert deleted.responses[0].error_code == 0 and "a" not in world.image.topics

    told(story)


def test_an_image_that_does_not_follow_is_not_waited_for_for_ever() -> None:
    async def story(world: World) -> None:
        world.lag_s = None
        response = await ask(world.remote, create(topic("a")))
        assert response.topics[0].error_code == 0 and 5 <= world.now_s() < 5.2
        with pytest.raises(KafkaError) as caught:
            await world.remote.auto_create_topic("b")
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT

    told(story)


def test_what_is_only_validated_is_not_waited_for() -> None:
    async def story(world: World) -> None:
        response = await ask(world.remote, create(topic("a"), validate_only=True))
        await world.has("b")
        grown = await ask(world.remote, grow("b", 3, validate_only=True))
        assert (response.topics[0].error_code, grown.results[0].error_code) == (0, 0)
        assert world.now_s() < 0.1 and "a" not in world.image.topics

    told(story)


def test_configs_are_altered_and_described_by_the_controller() -> None:
    async def story(world: World) -> None:
        await world.has("a")
        altered = await ask(world.remote, incremental(2, "a", ("retention.ms", 0, "5")))
        assert [one.error_code for one in altered.responses] == [0]
        described = await ask(world.remote, describe((2, "a", ("retention.ms",)), (2, "nono", None)))
        assert described.results[0].configs[0].value == "5"
        assert described.results[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        listed = await ask(world.remote, ListPartitionReassignmentsRequest(topics=None))
        assert (listed.error_code, list(listed.topics)) == (0, [])
        elected = await ask(
            world.remote, ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0])])
        )
        assert elected.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED

    told(story)


# --- finding the controller


def test_it_is_waited_for_while_there_is_none() -> None:
    async def story(world: World) -> None:
        claim, world.claim = world.claim, None
        asking = asyncio.create_task(ask(world.remote, create(topic("a"), timeout_ms=10_000)))
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
        asking = asyncio.create_task(ask(world.remote, create(topic("a"))))
        await asyncio.sleep(1)
        assert not asking.done()
        world.claim = new
        assert (await asking).topics[0].error_code == 0
        assert (12, ApiKey.ENVELOPE) in world.links.calls

    told(story)


def test_a_hung_controller_is_left_when_it_is_replaced() -> None:
    async def story(world: World) -> None:
        world.links.hung.add(11)
        asking = asyncio.create_task(ask(world.remote, create(topic("a"), timeout_ms=60_000)))
        await asyncio.sleep(2)
        world.elect(12)
        assert (await asking).topics[0].error_code == 0 and world.now_s() < 2.5

    told(story)


REQUESTS: list[Any] = [
    create(topic("a"), topic("b")),
    delete("a", UUID(int=5)),
    grow("a", 3),
    describe((2, "a", None), (4, "1", None)),
    incremental(2, "a", ("retention.ms", 0, "5")),
    full(2, "a", ("retention.ms", "5")),
    ElectLeadersRequest(topic_partitions=None),
    AlterPartitionReassignmentsRequest(),
    ListPartitionReassignmentsRequest(),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_when_the_time_is_over_the_request_is_refused(request_: Any) -> None:
    async def story(world: World) -> None:
        world.claim = None
        with pytest.raises(KafkaError) as refused:
            await ask(world.remote, request_)
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        # Not sent in the last fifth: the client counts its time from an earlier moment.
        assert world.now_s() == pytest.approx(0.8 * getattr(request_, "timeout_ms", 30_000) / 1000, abs=0.1)

    told(story)


# --- a controller in this very process


def test_a_controller_in_this_process_is_called_and_not_dialled() -> None:
    async def story(world: World) -> None:
        world.claim = ControllerClaim(NODE.node_id, "host", 9192, 2)
        assert (await ask(world.remote, create(topic("a")))).topics[0].error_code == 0
        assert (await ask(world.remote, describe((2, "a", None)))).results[0].error_code == 0
        blocks = [await world.remote.allocate_producer_ids() for _ in range(2)]
        assert blocks[0].stop <= blocks[1].start and world.links.calls == []

    told(story)


def test_an_elected_controller_that_has_not_begun_is_waited_for() -> None:
    async def story(world: World) -> None:
        world.claim = ControllerClaim(NODE.node_id, "host", 9192, 2)
        world.here = None
        asking = asyncio.create_task(ask(world.remote, create(topic("a"), timeout_ms=10_000)))
        await asyncio.sleep(0.5)
        assert not asking.done()
        world.here = world.controller
        assert (await asking).topics[0].error_code == 0

    told(story)


def test_a_controller_in_this_process_that_does_not_answer_is_given_up() -> None:
    class Stuck:
        async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
            await asyncio.get_running_loop().create_future()

    async def story(world: World) -> None:
        world.claim = ControllerClaim(NODE.node_id, "host", 9192, 2)
        world.here = cast(Any, Stuck())
        with pytest.raises(KafkaError) as refused:
            await ask(world.remote, create(topic("a"), timeout_ms=10_000))
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT and world.now_s() <= 10.1

    told(story)


def test_a_time_too_short_to_get_there_is_made_longer() -> None:
    async def story(world: World) -> None:
        claim, world.claim = world.claim, None
        asking = asyncio.create_task(ask(world.remote, create(topic("a"), timeout_ms=0)))
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
        response = await ask(world.remote, wanted)
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
            await ask(world.controller, create(other))
            raise LinkLost("the connection broke")

        world.links.before = interfere
        wanted = create(topic("a", 2, configs={"retention.ms": "5"}))
        response = await ask(world.remote, wanted)
        assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    told(story)


def test_a_connection_that_was_refused_makes_nothing_doubtful() -> None:
    async def story(world: World) -> None:
        world.links.down.add(11)
        asking = asyncio.create_task(ask(world.remote, create(topic("a", 2))))
        await asyncio.sleep(0.1)
        await ask(world.controller, create(topic("a", 2)))
        world.links.down.clear()
        assert (await asking).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    told(story)


def test_a_topic_whose_deletion_was_repeated_is_deleted() -> None:
    async def story(world: World) -> None:
        await world.has("a", "b")
        b = world.image.topics["b"].topic_id
        world.links.lose_answers(1)
        response = await ask(world.remote, delete("a", b, "nono"))
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
        response = await ask(world.remote, delete("a"))
        assert (response.responses[0].error_code, response.responses[0].topic_id) == (0, first)
        assert world.image.topics["a"].topic_id != first

    told(story)


def test_a_deletion_grows_old_while_the_machine_sleeps() -> None:
    async def story(world: World) -> None:
        await world.has("a")
        first = world.image.topics["a"].topic_id
        claim, world.claim = world.claim, None
        deleting = asyncio.ensure_future(ask(world.remote, delete("a")))
        await asyncio.sleep(0.1)
        world.clock.sleep(2.5)
        await ask(world.controller, delete("a"))
        await world.has("a")
        world.claim = claim
        assert (await deleting).responses[0].topic_id == first
        assert "a" in world.image.topics and world.image.topics["a"].topic_id != first

    told(story)


def test_a_deletion_that_waited_for_a_controller_spares_a_topic_of_that_name_that_was_made_anew() -> None:
    async def story(world: World) -> None:
        await world.has("a")
        first = world.image.topics["a"].topic_id
        claim, world.claim = world.claim, None
        deleting = asyncio.ensure_future(ask(world.remote, delete("a")))
        await asyncio.sleep(2.5)
        await ask(world.controller, delete("a"))
        await world.has("a")
        world.claim = claim
        assert (await deleting).responses[0].topic_id == first
        assert "a" in world.image.topics and world.image.topics["a"].topic_id != first

    told(story)


def test_partitions_whose_creation_was_repeated_are_created() -> None:
    async def story(world: World) -> None:
        await world.has("a")
        world.links.lose_answers(1)
        assert (await ask(world.remote, grow("a", 4))).results[0].error_code == 0
        again = await ask(world.remote, grow("a", 4))
        assert again.results[0].error_code == ErrorCode.INVALID_PARTITIONS
        for count in (3, 4):
            world.links.lose_answers(1)
            useless = await ask(world.remote, grow("a", count))
            assert useless.results[0].error_code == ErrorCode.INVALID_PARTITIONS

    told(story)


def test_a_node_that_an_earlier_try_forgot_is_forgotten() -> None:
    async def story(world: World) -> None:
        record = registered(5, fenced=True)
        await world.controller._decisions.decide(lambda image, broker: Decision(None, (record,)), 5_000)
        world.links.lose_answers(1)
        request = UnregisterBrokerRequest(broker_id=5)
        assert (await ask(world.remote, request)).error_code == 0
        again = await ask(world.remote, request)
        assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED

    told(story)


def test_users_are_in_the_own_image_when_the_answer_comes_and_a_repeated_deletion_is_one() -> None:
    async def story(world: World) -> None:
        world.lag_s = 0.7
        upsertion = ScramCredentialUpsertion(
            name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"salted"
        )
        added = await ask(world.remote, AlterUserScramCredentialsRequest(upsertions=[upsertion]))
        assert added.results[0].error_code == 0 and "alice" in world.image.users
        deletion = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="alice", mechanism=1)])
        world.links.lose_answers(1)
        deleted = await ask(world.remote, deletion)
        assert deleted.results[0].error_code == 0 and not world.image.users
        again = await ask(world.remote, deletion)
        assert again.results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND

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
        await ask(world.controller, create(topic("a")))
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
        world.leaderships[11].active = None
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
