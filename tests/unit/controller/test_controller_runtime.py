"""The controller over logs and a store in memory: restarts, failing and slow writes, concurrency, background deletion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from prometheus_client.registry import CollectorRegistry

from bmq.controller.config import ControllerConfig
from bmq.controller.runtime import Controller, ControllerGone
from bmq.controller.unknown_topics import unknown_topics
from bmq.log.damage import accept, end_damage
from bmq.log.names import partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.log.state_log import StateLog
from bmq.log.store import SegmentStore, StorageUnavailable
from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.image import METADATA_TOPIC_ID, MetadataImage, Node
from bmq.metadata.state import ImpossibleRecord
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest
from bmq.protocol.metadata_records import PartitionRecord, encode_record
from bmq.views.view_filter import load_parser
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog
from tests.fakes.store import FakeStore
from tests.support.asking import ask
from tests.unit.controller.support import NODE, create, delete, describe, full, grow, incremental, topic
from tests.unit.routing.owner_nodes import until

pytestmark = pytest.mark.unit

CONFIG = ControllerConfig(
    cluster_id="cluster",
    request_wait_min_ms=1,
    topic_deletion_delay_ms=0,
    topic_deletion_again_ms=0,
    topic_deletion_retry_ms=1,
)


class Lab:
    """A metadata log and a store that outlive controllers; every image that was published."""

    def __init__(self) -> None:
        self.log = FakePartitionLog(TopicPartition(METADATA_TOPIC_ID, 0))
        self.store = FakeStore()
        self.images: list[MetadataImage] = []
        self.published = asyncio.Event()
        self.ran_aside: list[Callable[[], None]] = []

    async def run_aside(self, work: Callable[[], None]) -> None:
        self.ran_aside.append(work)
        work()

    def on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        assert not self.images or old is self.images[-1] or old.offset == 0
        self.images.append(new)
        self.published.set()

    @asynccontextmanager
    async def controller(
        self,
        config: ControllerConfig = CONFIG,
        *,
        node: Node = NODE,
        seed: int = 1,
        store: SegmentStore | None = None,
        lost_records: int = 0,
    ) -> AsyncIterator[Controller]:
        made = Controller(
            self.log,
            store or self.store.client("a"),
            node,
            FakeClock(),
            Random(seed),
            config,
            self.on_image,
        )
        await made.start(lost_records)
        try:
            yield made
        finally:
            self.log.is_acknowledging = True
            self.log.acknowledge()
            await made.close()

    async def until_written(self) -> None:
        """Let the loop turn until an append waits for its acknowledgement."""
        for _ in range(100):
            if self.log.pending_count:
                return
            await asyncio.sleep(0)
        raise AssertionError("nothing was written")

    async def until(self, is_true: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not is_true():
                self.published.clear()
                await self.published.wait()


@pytest.fixture
async def lab() -> Lab:
    return Lab()


async def test_topics_survive_a_restart_with_their_ids_and_new_epochs(lab: Lab) -> None:
    async with lab.controller() as first:
        response = await ask(first, create(topic("t", 3, configs={"retention.ms": "5"})))
        assert response.topics[0].error_code == ErrorCode.NONE
        before = first.image.topics["t"]
        assert before.topic_id == response.topics[0].topic_id
        assert [p.leader_epoch for p in before.partitions] == [0, 0, 0]
    for restart in (1, 2):
        async with lab.controller(seed=restart) as again:
            after = again.image.topics["t"]
            assert (after.topic_id, after.configs) == (before.topic_id, before.configs)
            assert [(p.leader, p.leader_epoch) for p in after.partitions] == [(1, restart)] * 3
            assert again.image.nodes == {1: NODE}
            assert again.image.controller_id == 1


async def test_a_thousand_partitions_get_new_epochs_in_one_batch(lab: Lab) -> None:
    async with lab.controller() as first:
        await ask(first, create(*(topic(f"t{n}", 10) for n in range(100))))
        assert first.image.partition_count == 1_000
    batches = len(lab.log.batches)
    async with lab.controller(seed=2) as again:
        assert len(lab.log.batches) == batches + 1
        epochs = {p.leader_epoch for found in again.image.topics.values() for p in found.partitions}
        assert epochs == {1}


async def test_the_parser_of_filters_is_loaded_beside_the_event_loop_for_views_alone(lab: Lab) -> None:
    async with lab.controller(replace(CONFIG, run_aside=lab.run_aside)) as controller:
        await ask(controller, create(topic("t", configs={"retention.ms": "5"})))
        assert lab.ran_aside == []
        made = await ask(controller, create(topic("v", -1, configs={"bmq.view.of": "t", "bmq.view.filter": "TRUE"})))
        assert made.topics[0].error_code == ErrorCode.NONE, made
        assert lab.ran_aside == [load_parser]


async def test_a_node_that_is_gone_leaves_its_partitions_to_the_one_that_came(lab: Lab) -> None:
    async with lab.controller() as first:
        await ask(first, create(topic("t", 2)))
    other = Node(7, "other", 9, "rack")
    async with lab.controller(node=other) as second:
        assert second.image.nodes == {7: other}
        assert [(p.leader, p.leader_epoch, p.replicas) for p in second.image.topics["t"].partitions] == [
            (7, 1, (7,))
        ] * 2


async def test_snapshot_and_tail_give_the_same_image(lab: Lab) -> None:
    async with lab.controller() as first:
        await ask(first, create(topic("a", 2), topic("b")))
        await ask(first, delete("b"))
        await first.allocate_producer_ids()
    assert len(lab.log.snapshots) == 1
    assert lab.log.snapshots[0].next_offset == lab.log.high_watermark
    async with lab.controller(seed=2) as from_snapshot:
        image = from_snapshot.image
    lab.log.snapshots.clear()
    lab.images.clear()
    async with lab.controller(seed=2) as from_log:
        # This is one incarnation later, and nothing else.
        older = image.topics["a"].partitions
        newer = from_log.image.topics["a"].partitions
        assert [p.leader_epoch + 1 for p in older] == [p.leader_epoch for p in newer]
        assert from_log.image.next_producer_id == image.next_producer_id == 1_000
        assert set(from_log.image.topics) == set(image.topics) == {"a"}


async def test_nothing_above_the_high_watermark_is_shown_or_answered(lab: Lab) -> None:
    async with lab.controller() as controller:
        lab.log.is_acknowledging = False
        published = len(lab.images)
        asking = asyncio.ensure_future(ask(controller, create(topic("t"))))
        await lab.until_written()
        described = await ask(controller, describe((2, "t", None)))
        assert described.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not asking.done() and "t" not in controller.image.topics and len(lab.images) == published
        lab.log.acknowledge()
        assert (await asking).topics[0].error_code == ErrorCode.NONE
        assert "t" in controller.image.topics and len(lab.images) == published + 1


async def test_concurrent_requests_decide_one_after_the_other(lab: Lab) -> None:
    async with lab.controller() as controller:
        made = await asyncio.gather(
            *(ask(controller, create(topic("same"))) for _ in range(5)),
            *(ask(controller, create(topic(f"t{n}"))) for n in range(20)),
        )
        codes = [response.topics[0].error_code for response in made]
        assert sorted(codes[:5]) == [ErrorCode.NONE, *[ErrorCode.TOPIC_ALREADY_EXISTS] * 4]
        assert set(codes[5:]) == {ErrorCode.NONE}
        assert len(controller.image.topics) == len(controller.image.topics_by_id) == 21


async def test_failed_write_changes_nothing_and_the_answer_says_why(lab: Lab) -> None:
    async with lab.controller() as controller:
        image = controller.image
        lab.log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
        (good, bad) = (await ask(controller, create(topic("t"), topic("a b")))).topics
        assert (good.error_code, good.topic_id, good.configs) == (ErrorCode.KAFKA_STORAGE_ERROR, None, ())
        assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        with pytest.raises(KafkaError) as refused:
            await controller.allocate_producer_ids()
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert controller.image is image
        lab.log.refuse_with = None
        assert (await ask(controller, create(topic("t")))).topics[0].error_code == 0
        assert controller.metrics.appends_failed == 2


async def test_controller_that_lost_its_log_decides_nothing_more(lab: Lab) -> None:
    async with lab.controller() as controller:
        lab.log.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
        for _ in range(2):
            with pytest.raises(ControllerGone):
                await ask(controller, create(topic("t")))
            lab.log.refuse_with = None
        for request in (incremental(4, "", ("message.max.bytes", 0, "5")), ElectLeadersRequest()):
            with pytest.raises(ControllerGone):
                await ask(controller, request)
        with pytest.raises(KafkaError) as refused:
            await controller.auto_create_topic("t")
        assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_timeout_is_honoured_and_what_waits_behind_is_not_done(lab: Lab) -> None:
    async with lab.controller() as controller:
        lab.log.is_acknowledging = False
        first = asyncio.ensure_future(ask(controller, create(topic("slow"), timeout_ms=20)))
        second = asyncio.ensure_future(ask(controller, replace(delete("slow"), timeout_ms=20)))
        third = asyncio.ensure_future(ask(controller, create(topic("late"), timeout_ms=20)))
        assert (await first).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        # What never had its turn is judged by what is known: the topic is not there yet.
        assert (await second).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await third).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        lab.log.is_acknowledging = True
        lab.log.acknowledge()
        assert (await ask(controller, create(topic("t")))).topics[0].error_code == 0
        # What was being written went on; what had not begun never happened.
        assert set(controller.image.topics) == {"slow", "t"}


async def test_too_many_waiting_requests_are_refused_at_once(lab: Lab) -> None:
    async with lab.controller(replace(CONFIG, requests_waiting_max=2)) as controller:
        lab.log.is_acknowledging = False
        waiting = [asyncio.ensure_future(controller.allocate_producer_ids()) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(KafkaError) as refused:
            await controller.allocate_producer_ids()
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        lab.log.is_acknowledging = True
        lab.log.acknowledge()
        assert {await task for task in waiting} == {range(1_000), range(1_000, 2_000)}


async def test_producer_ids_are_never_given_twice(lab: Lab) -> None:
    blocks = []
    for restart in range(3):
        async with lab.controller(seed=restart) as controller:
            blocks += await asyncio.gather(*(controller.allocate_producer_ids() for _ in range(3)))
    ids = [producer_id for block in blocks for producer_id in block]
    assert len(ids) == len(set(ids)) == 9_000


@pytest.mark.safety
@pytest.mark.parametrize("is_known", [True, False], ids=["witnesses know how many", "nobody knows"])
async def test_what_lost_records_gave_out_is_not_given_again(lab: Lab, is_known: bool) -> None:
    """Rule 55: an older checkpoint of HDFS has an older metadata log. Consumers and producers know what was given since."""
    async with lab.controller() as first:
        await ask(first, create(topic("t", 2), topic("u", 1)))
        await first.allocate_producer_ids()
    end_offset, snapshots = lab.log.high_watermark, tuple(lab.log.snapshots)
    for restart in range(3):
        async with lab.controller(seed=restart) as lost:
            given = await lost.allocate_producer_ids()
            epochs = [p.leader_epoch for found in lost.image.topics.values() for p in found.partitions]
    lost_records = lab.log.high_watermark - end_offset
    lab.log.lose_from(end_offset, snapshots)
    client = lab.store.client("operator")
    if not is_known:
        directory = partition_directory(lab.log.topic_partition)
        await client.make_directories(directory)
        damage = end_damage(directory, end_offset, "and more was there")
        await accept(client, damage, holder="operator", now_ms=1)
    async with lab.controller(seed=9, lost_records=lost_records if is_known else 0) as again:
        now = [p for found in again.image.topics.values() for p in found.partitions]
        assert min(p.leader_epoch for p in now) > max(epochs)
        assert {p.leader for p in now} == {NODE.node_id}
        assert (await again.allocate_producer_ids()).start >= given.stop
        raised = [p.leader_epoch for p in now]
    # What was accepted counts for that end alone.
    async with lab.controller(seed=10) as later:
        now = [p for found in later.image.topics.values() for p in found.partitions]
        assert [p.leader_epoch for p in now] == [epoch + 1 for epoch in raised]


# --- automatic topics


async def test_automatic_creation_is_shared_and_uses_the_servers_defaults(lab: Lab) -> None:
    config = replace(CONFIG, broker_configs={"num.partitions": "4"})
    async with lab.controller(config) as controller:
        published = len(lab.images)
        await asyncio.gather(*(controller.auto_create_topic("t") for _ in range(10)))
        await controller.auto_create_topic("t")
        assert len(controller.image.topics["t"].partitions) == 4
        assert len(lab.images) == published + 1
        with pytest.raises(KafkaError) as refused:
            await controller.auto_create_topic("a/b")
        assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert "a/b" in str(refused.value)


async def test_offsets_topic_is_compacted_and_as_large_as_kafkas(lab: Lab) -> None:
    async with lab.controller() as controller:
        await controller.auto_create_topic("__consumer_offsets")
        made = controller.image.topics["__consumer_offsets"]
        assert made.is_internal and len(made.partitions) == 50
        assert made.log_config.cleanup_policy == {"compact"}
        assert made.log_config.segment_bytes == 100 * 1024 * 1024
        assert {p.replicas for p in made.partitions} == {(1,)}


async def test_the_transactions_topic_has_the_configs_of_kafkas(lab: Lab) -> None:
    async with lab.controller() as controller:
        await controller.auto_create_topic("__transaction_state")
        assert dict(controller.image.topics["__transaction_state"].configs) == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "2",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        }


# --- deletion of files


async def test_files_of_a_deleted_topic_go_and_those_of_others_stay(lab: Lab) -> None:
    async with lab.controller() as controller:
        await ask(controller, create(topic("a", 2), topic("b")))
        ids = {name: found.topic_id for name, found in controller.image.topics.items()}
        for name in ids:
            lab.store.put_file(f"topics/{ids[name]}/0/00000000.open/00000000.log", b"x", is_open=True)
        await ask(controller, delete("a"))
        await lab.until(lambda: not controller.image.deleted_topics)
        assert list(lab.store.files()) == [f"topics/{ids['b']}/0/00000000.open/00000000.log"]
        assert await lab.store.client("look").status(f"topics/{ids['a']}") is None


async def test_deletion_goes_on_after_a_restart_and_after_errors(lab: Lab) -> None:
    async with lab.controller(replace(CONFIG, topic_deletion_delay_ms=3_600_000)) as controller:
        await ask(controller, create(topic("a")))
        topic_id = controller.image.topics["a"].topic_id
        lab.store.put_file(f"topics/{topic_id}/0/00000000/00000000.log", b"x")
        await ask(controller, delete("a"))
        assert controller.image.deleted_topics == {topic_id}
    assert lab.store.files()
    client = lab.store.client("b")
    failures = iter([StorageUnavailable("down"), StorageUnavailable("down")])
    remove = client.delete

    async def delete_at_last(path: str, *, recursive: bool = False) -> bool:
        error = next(failures, None)
        if error is not None:
            raise error
        return await remove(path, recursive=recursive)

    client.delete = delete_at_last  # type: ignore[method-assign]
    async with lab.controller(store=client) as again:
        await lab.until(lambda: not again.image.deleted_topics)
        assert not lab.store.files()
        assert next(failures, None) is None
    async with lab.controller(seed=3) as third:
        assert not third.image.deleted_topics


async def test_a_directory_that_an_owner_made_anew_goes_too(lab: Lab) -> None:
    """Left alone, it would be taken for a topic that the metadata lost."""
    async with lab.controller(replace(CONFIG, topic_deletion_again_ms=100)) as controller:
        await ask(controller, create(topic("a")))
        topic_id = controller.image.topics["a"].topic_id
        first = f"topics/{topic_id}/0/00000000.open/00000000.log"
        lab.store.put_file(first, b"x", is_open=True)
        await ask(controller, delete("a"))
        await until(lambda: not lab.store.files())
        assert controller.image.deleted_topics == {topic_id}
        lab.store.put_file(first, b"", is_open=True)
        await lab.until(lambda: not controller.image.deleted_topics)
        assert not lab.store.files()
        assert await unknown_topics(lab.store.client("look"), lambda: controller.image) == []


# --- configs


async def test_broker_configs_reach_the_logs_of_all_topics_and_stay(lab: Lab) -> None:
    async with lab.controller() as controller:
        await ask(controller, create(topic("t")))
        altered = await ask(controller, incremental(4, "1", ("log.retention.ms", 0, "123")))
        assert altered.responses[0].error_code == ErrorCode.NONE
        assert controller.image.topics["t"].log_config.retention_ms == 123
        assert controller.broker_configs.value_of("log.retention.ms") == "123"
    async with lab.controller(seed=2) as again:
        assert again.image.topics["t"].log_config.retention_ms == 123
        await ask(again, full(4, "1"))
        assert again.image.topics["t"].log_config.retention_ms == 7 * 24 * 3600 * 1000


async def test_partitions_are_added(lab: Lab) -> None:
    async with lab.controller() as controller:
        await ask(controller, create(topic("t", 1)))
        grown = await ask(controller, grow("t", 3))
        assert grown.results[0].error_code == ErrorCode.NONE
        assert len(controller.image.topics["t"].partitions) == 3


async def test_requests_after_closing_are_refused(lab: Lab) -> None:
    async with lab.controller() as controller:
        pass
    with pytest.raises(ControllerGone):
        await ask(controller, create(topic("t")))


async def test_settings_with_bad_broker_configs_stop_the_start(lab: Lab) -> None:
    with pytest.raises(InvalidConfig, match=r"Invalid value many for configuration num\.partitions"):
        async with lab.controller(replace(CONFIG, broker_configs={"num.partitions": "many"})):
            raise AssertionError("it started")


async def test_a_log_that_makes_no_sense_stops_the_start(lab: Lab) -> None:
    state_log = StateLog(lab.log, FakeClock())
    await state_log.replay(lambda key, value: None, lambda data: None)
    await state_log.append([(b"", encode_record(PartitionRecord(partition_id=0, topic_id=UUID(int=5))))])
    with pytest.raises(ImpossibleRecord):
        async with lab.controller():
            raise AssertionError("it started")


async def test_metrics_show_the_present(lab: Lab) -> None:
    async with lab.controller() as controller:
        registry = CollectorRegistry()
        controller.metrics.register(registry)
        await ask(controller, create(topic("t", 3)))
        assert registry.get_sample_value("bmq_topics") == 1
        assert registry.get_sample_value("bmq_topic_partitions") == 3
        assert registry.get_sample_value("bmq_metadata_log_offset") == lab.log.high_watermark
        assert registry.get_sample_value("bmq_active_controllers") == 1
        assert registry.get_sample_value("bmq_topic_deletions_pending") == 0
        assert registry.get_sample_value("bmq_metadata_records_written_total") == lab.log.high_watermark
