"""Groups are explained from what the coordinators, the logs and the shards of share partitions say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bmq.admin.group_explainer import GroupExplainer, GroupLine, PartitionExplanation
from bmq.admin.orders import UnknownSubject
from bmq.coordinator.consumer.consumer_protocol import encode_assignment
from bmq.coordinator.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from bmq.log.partition_log import StateSnapshot, TopicPartition
from bmq.log.transactions import ActiveProducer
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from bmq.protocol.messages.describe_transactions_response import TransactionState as DescribedTransaction
from bmq.protocol.messages.list_transactions_response import ListTransactionsResponse
from bmq.protocol.messages.list_transactions_response import TransactionState as ListedTransaction
from bmq.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from bmq.protocol.request_context import by_itself
from bmq.protocol.share_state_messages import AcquirePartition, OffsetRange, ShareAcquireRequest
from tests.fakes.clock import FakeClock
from tests.fakes.cluster_controller import image_of, topic_image
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.unit.admin.rest.cluster import NODES
from tests.unit.broker.world import virtual
from tests.unit.coordinator.cluster import FakeTopics, request_context
from tests.unit.coordinator.share_membership.test_share_api import Shares

pytestmark = pytest.mark.unit

TOPIC = topic_image("orders", 1, [1, 1, -1])


class TenRecords(FakePartitionLog):
    """Offsets 0 to 9, as far as it says."""

    def __init__(self, number: int) -> None:
        super().__init__(TopicPartition(TOPIC.topic_id, number), first_offset=10)
        self._log_start_offset = 0


class TransactionIds:
    """Knows producer 7, unless it is away."""

    is_away = False

    async def handle(self, api_key: ApiKey, request: Any, context: Any) -> Any:
        if self.is_away:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if api_key is ApiKey.LIST_TRANSACTIONS:
            assert list(request.producer_id_filters) == [7]
            one = ListedTransaction(transactional_id="pay", producer_id=7, transaction_state="Ongoing")
            return ListTransactionsResponse(transaction_states=[one])
        assert list(request.transactional_ids) == ["pay"]
        state = DescribedTransaction(transactional_id="pay", producer_id=7, transaction_start_time_ms=1_000)
        return DescribeTransactionsResponse(transaction_states=[state])


class World:
    """A topic of three partitions, of which the last one has no owner; the others end at 10."""

    def __init__(self) -> None:
        self.shares = Shares()
        self.partitions = FakePartitions()
        for number in (0, 1):
            self.partitions.logs[TopicPartition(TOPIC.topic_id, number)] = TenRecords(number)
        internal = [topic_image(name, 50 + place, [1]) for place, name in enumerate((OFFSETS_TOPIC, SHARE_STATE_TOPIC))]
        self.image = image_of(NODES, [TOPIC, *internal])
        for topics in (self.shares.cluster, self.shares.states):
            topics.topics = cast(Any, self.image)
        self.transactions = TransactionIds()
        self.clock = FakeClock()
        services = SimpleNamespace(
            controller=self,
            groups=self.shares.coordinator,
            transactions=self.transactions,
            partitions=self.partitions,
            clock=self.clock,
        )
        self.explainer = GroupExplainer(cast(Any, services), self.shares.states.coordinator)

    def configure(self, **configs: str) -> None:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.image = replace(self.image, group_configs={"g": named})
        for topics in (self.shares.cluster, self.shares.states):
            topics.topics = cast(Any, self.image)

    async def acquire(self, member_id: str, last: int) -> None:
        part = AcquirePartition(
            topic_id=TOPIC.topic_id,
            records_max=50,
            batch_size=50,
            partition=0,
            reset_offset=0,
            batches=[OffsetRange(first=0, last=last)],
        )
        request = ShareAcquireRequest(
            group_id="g", member_id=member_id, node_id=1, node_epoch=1, session=1, partitions=[part]
        )
        states = self.shares.states.coordinator
        answer = await states.handle(ApiKey.SHARE_ACQUIRE, request, by_itself(ApiKey.SHARE_ACQUIRE))
        assert answer.partitions[0].error_code == 0

    async def explain(self) -> list[PartitionExplanation]:
        group = await self.explainer.group("g")
        return await self.explainer.explain(group, group.places)

    async def codes(self) -> list[list[str]]:
        """Of each partition."""
        return [[reason.code.value for reason in one.reasons] for one in await self.explain()]


def told(story: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(World())

    virtual(main)


def test_a_share_group_is_explained_from_its_first_heartbeat_to_its_last() -> None:
    async def story(world: World) -> None:
        shares = world.shares
        joined = await shares.beat("a", 0, "orders")
        assert await world.codes() == [["not_started"], ["not_started"], ["partition_offline", "not_started"]]
        await world.acquire("a", 9)
        first = (await world.explain())[0]
        assert [one.code.value for one in first.reasons] == ["all_locked"]
        assert (first.next_offset, first.lag, list(first.members)) == (10, 10, ["a"])
        assert first.state is not None
        (holder,) = first.state.holders
        assert (holder.member_id, holder.count, holder.first, holder.last, holder.left_ms) == ("a", 10, 0, 9, 30_000)
        await shares.beat("a", -1)
        assert (await world.codes())[:2] == [["no_members", "all_locked"], ["no_members", "not_started"]]
        assert (await shares.beat("a", joined.member_epoch)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        group = await world.explainer.group("g")
        assert (group.kind, group.state, len(group.members), len(group.places)) == ("share", "Empty", 0, 3)

    told(story)


def test_groups_are_listed_with_their_kinds() -> None:
    async def story(world: World) -> None:
        await world.shares.beat("a", 0, "orders")
        assert await world.explainer.listed() == [GroupLine("g", "share", "Stable", "share")]

    told(story)


def test_a_transaction_that_holds_the_last_stable_offset_is_named() -> None:
    async def story(world: World) -> None:
        world.configure(share_isolation_level="read_committed")
        log = world.partitions.logs[TopicPartition(TOPIC.topic_id, 0)]
        log.last_stable_offset_bound = 3
        log.producers = [ActiveProducer(5, 0, 1, 0, 0, -1), ActiveProducer(7, 0, 1, 0, 0, 3)]
        await world.shares.beat("a", 0, "orders")
        await world.acquire("a", 2)
        one = (await world.explain())[0]
        assert [reason.code.value for reason in one.reasons] == ["transaction_open", "all_locked"]
        transaction = one.log.transaction
        assert transaction is not None
        assert (transaction.producer_id, transaction.transactional_id, transaction.since_ms) == (7, "pay", 1_000)
        world.transactions.is_away = True
        transaction = (await world.explain())[0].log.transaction
        assert transaction is not None and (transaction.producer_id, transaction.transactional_id) == (7, None)

    told(story)


def test_a_damaged_shard_is_named_with_its_reason() -> None:
    async def story(world: World) -> None:
        await world.shares.beat("a", 0, "orders")
        for log in world.shares.states.shards.logs.values():
            log.snapshots.append(StateSnapshot(log.high_watermark, b"\0\0\0\x7fnonsense"))
        world.shares.states.topics = FakeTopics()
        heir = world.shares.states.take_over()
        world.explainer = GroupExplainer(world.explainer._services, heir.coordinator)
        one = (await world.explain())[0]
        assert one.reasons[0].code.value == "state_unavailable"
        assert "is not served: a snapshot of share partitions" in one.reasons[0].text
        assert one.lag is None

    told(story)


def test_an_owner_that_does_not_answer_stops_no_other_partition() -> None:
    async def story(world: World) -> None:
        await world.shares.beat("a", 0, "orders")
        await world.acquire("a", 9)
        world.partitions.errors[TopicPartition(TOPIC.topic_id, 1)] = ErrorCode.KAFKA_STORAGE_ERROR
        found = await world.explain()
        assert [one.reasons[0].code.value for one in found] == ["all_locked", "partition_offline", "partition_offline"]
        assert "node 1, does not serve it: " in found[1].reasons[0].text
        assert found[2].reasons[0].text == "no node owns the partition now"

    told(story)


def test_groups_of_consumers_are_explained_by_their_offsets() -> None:
    async def story(world: World) -> None:
        cluster = world.shares.cluster
        joined = await cluster.join("g")
        assignment = encode_assignment({TOPIC.topic_id: [0]}, world.image, 0)
        synced = await cluster.coordinator.classic.sync_group(
            SyncGroupRequest(
                group_id="g",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
            ),
            request_context(3),
        )
        assert synced.error_code == 0
        offsets = {("orders", 0): 4, ("orders", 1): 10}
        done = await cluster.commit("g", offsets, member_id=joined.member_id, generation=joined.generation_id)
        assert set(done.values()) == {0}
        group = await world.explainer.group("g")
        assert (group.kind, group.state, len(group.members)) == ("classic", "Stable", 1)
        found = await world.explainer.explain(group, group.places)
        assert [(one.partition, one.lag, one.next_offset) for one in found] == [(0, 6, 4), (1, 0, 10)]
        assert [[reason.code.value for reason in one.reasons] for one in found] == [
            ["behind"],
            ["not_assigned", "nothing_new"],
        ]

    told(story)


def test_a_group_that_is_not_there() -> None:
    async def story(world: World) -> None:
        await world.shares.coordinator.prepare("g")
        with pytest.raises(UnknownSubject, match="there is no share, consumer or classic group 'g'"):
            await world.explainer.group("g")

    told(story)


def test_a_coordinator_that_is_away_is_an_error_of_its_own() -> None:
    async def story(world: World) -> None:
        await world.shares.beat("a", 0, "orders")
        log = world.shares.cluster.log_of("g")
        log.snapshots.append(StateSnapshot(log.high_watermark, b"\0\0\0\x7fnonsense"))
        heir = world.shares.cluster.take_over()
        world.explainer._services.groups = cast(Any, heir.coordinator)
        with pytest.raises(KafkaError, match="the coordinator of the group does not serve it"):
            await world.explainer.group("g")

    told(story)
