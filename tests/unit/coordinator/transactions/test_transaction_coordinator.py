"""The transaction coordinator over its log: answers, markers, failures of both, and what the next owner makes of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from bmq.coordinator.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from bmq.coordinator.transactions.transaction import MAX_EPOCH
from bmq.log.transactions import TransactionClaim, TransactionMarker
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from bmq.protocol.messages.end_txn_request import EndTxnRequest
from bmq.protocol.messages.list_transactions_request import ListTransactionsRequest
from bmq.protocol.record_batch import batches
from bmq.protocol.transaction_records import TransactionStatus
from tests.unit.coordinator.transactions.world import FAST, TIMEOUT_MS, World, virtual

pytestmark = pytest.mark.unit

S = TransactionStatus
E = ErrorCode


async def settled(world: World, status: TransactionStatus, transactional_id: str = "id") -> None:
    async with asyncio.timeout(30):
        while world.state(transactional_id).status != status:  # noqa: ASYNC110 -- virtual time
            await asyncio.sleep(0.001)


def test_a_transaction_of_version_0() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        assert producer == (1_001, 0)
        assert await world.add(producer, ("t", 0), ("u", 3)) == [0, 0]
        assert await world.end(producer, version=3) == (0, -1, -1)
        assert world.state().status == S.PREPARE_COMMIT and not world.markers.written, "answered before the markers"
        await settled(world, S.COMPLETE_COMMIT)
        marker = TransactionMarker(1_001, 0, coordinator_epoch=0, is_commit=True, transaction_version=0)
        assert sorted(world.markers.written) == [("t", 0, marker), ("u", 3, marker)]
        assert await world.end(producer, version=3) == (0, -1, -1)
        assert (await world.end(producer, False, version=3))[0] == E.INVALID_TXN_STATE
        assert await world.begun(given=producer) == (1_001, 1)
        assert (await world.end(producer, version=1))[0] == E.INVALID_PRODUCER_EPOCH
        assert (await world.end(producer, version=2))[0] == E.PRODUCER_FENCED
        await world.coordinator.close()

    virtual(main)


def test_a_transaction_of_version_2() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        assert await world.claim(producer, ("t", 0)) == [0]
        assert await world.claim(producer, ("t", 0), ("t", 1), verify_only=True) == [0, E.TRANSACTION_ABORTABLE]
        world.markers.gate.clear()
        assert await world.end(producer) == (0, 1_001, 1)
        assert await world.claim((1_001, 1), ("t", 0)) == [E.CONCURRENT_TRANSACTIONS], "old markers are on their way"
        assert await world.end(producer) == (E.CONCURRENT_TRANSACTIONS, -1, -1)
        world.markers.gate.set()
        await settled(world, S.COMPLETE_COMMIT)
        assert world.markers.written == [("t", 0, TransactionMarker(1_001, 1, 0, True, 2))]
        assert await world.end(producer) == (0, 1_001, 1), "its answer was lost"
        assert await world.claim(producer, ("t", 0)) == [E.PRODUCER_FENCED]
        assert await world.end((1_001, 1), False) == (0, 1_001, 2), "nothing was written"
        await settled(world, S.COMPLETE_ABORT)
        assert len(world.markers.written) == 1
        await world.coordinator.close()

    virtual(main)


def test_bad_requests() -> None:
    async def main() -> None:
        world = World()
        assert (await world.add((1, 0), ("t", 0))) == [E.NOT_COORDINATOR], "there is no topic"
        assert (await world.init(""))[0] == E.INVALID_REQUEST
        assert (await world.init("x" * 40_000))[0] == E.INVALID_REQUEST
        assert (await world.init(given=(5, -1)))[0] == E.INVALID_REQUEST
        assert (await world.init(timeout_ms=0))[0] == E.INVALID_TRANSACTION_TIMEOUT
        assert (await world.init(timeout_ms=900_001))[0] == E.INVALID_TRANSACTION_TIMEOUT
        producer = await world.begun()
        assert (await world.init(given=(producer[0], 9), version=3))[0] == E.INVALID_PRODUCER_EPOCH
        assert (await world.init(given=(producer[0], 9), version=4))[0] == E.PRODUCER_FENCED
        assert await world.add(producer, ("t", 0), ("t", 99), ("nope", 0), (TRANSACTIONS_TOPIC, 0)) == [
            E.OPERATION_NOT_ATTEMPTED,
            E.UNKNOWN_TOPIC_OR_PARTITION,
            E.UNKNOWN_TOPIC_OR_PARTITION,
            E.TOPIC_AUTHORIZATION_FAILED,
        ]
        assert world.state().status == S.EMPTY
        assert await world.add((producer[0], 3), ("t", 0), version=1) == [E.INVALID_PRODUCER_EPOCH]
        assert await world.add((producer[0], 3), ("t", 0), version=2) == [E.PRODUCER_FENCED]
        assert await world.add((77, 0), ("t", 0)) == [E.INVALID_PRODUCER_ID_MAPPING]
        assert (await world.end(producer, transactional_id=""))[0] == E.INVALID_REQUEST
        assert (await world.end(producer, transactional_id="other"))[0] == E.INVALID_PRODUCER_ID_MAPPING
        assert "other" not in world.shard().transactions
        await world.coordinator.close()

    virtual(main)


def test_offsets_join_the_transaction() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        assert await world.add_offsets((producer[0], 5), version=1) == E.INVALID_PRODUCER_EPOCH
        assert await world.add_offsets(producer) == 0
        (partitions,) = world.state().partitions or ()
        assert partitions.topic == OFFSETS_TOPIC
        assert await world.add(producer, (OFFSETS_TOPIC, 1)) == [E.TOPIC_AUTHORIZATION_FAILED], (
            "for groups' coordinators"
        )
        assert await world.claim(producer, (OFFSETS_TOPIC, partitions.partition_ids[0])) == [0]
        await world.end(producer)
        await settled(world, S.COMPLETE_COMMIT)
        assert [written[0] for written in world.markers.written] == [OFFSETS_TOPIC]
        await world.coordinator.close()

    virtual(main)


def test_partitions_added_together_wait_for_each_other() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        world.log.is_acknowledging = False
        asking = [asyncio.create_task(world.claim(producer, ("t", number))) for number in range(4)]
        await asyncio.sleep(0.01)
        client = asyncio.create_task(world.add(producer, ("u", 0)))
        await asyncio.sleep(0.01)
        assert not client.done()
        world.log.is_acknowledging = True
        world.log.acknowledge()
        assert await asyncio.gather(*asking, client) == [[0]] * 5
        added = {(topic.topic, n) for topic in world.state().partitions or () for n in topic.partition_ids}
        assert added == {("t", 0), ("t", 1), ("t", 2), ("t", 3), ("u", 0)}
        world.log.is_acknowledging = False
        stuck = [asyncio.create_task(world.claim(producer, ("u", number))) for number in (1, 2)]
        await asyncio.sleep(2)
        assert stuck[1].done() and stuck[1].result() == [E.CONCURRENT_TRANSACTIONS], "but not for ever"
        world.log.acknowledge()
        assert await stuck[0] == [0]
        await world.coordinator.close()

    virtual(main)


def test_what_begins_the_next_transaction_waits_for_the_end_of_the_last_one() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        for version in (3, 5, 3):
            await world.add(producer, ("t", 0))
            world.markers.gate.clear()
            _, producer_id, epoch = await world.end(producer, version=version)
            producer = producer if producer_id < 0 else (producer_id, epoch)
            begin = world.add(producer, ("t", 1)) if version == 3 else world.claim(producer, ("t", 1))
            beginning = asyncio.create_task(begin)
            await asyncio.sleep(0.1)
            assert not beginning.done() and world.state().status == S.PREPARE_COMMIT
            assert (await world.end(producer, version=3))[0] == E.CONCURRENT_TRANSACTIONS, "an end never waits"
            world.markers.gate.set()
            assert await beginning == [0] and world.state().status == S.ONGOING
        await world.coordinator.close()

    virtual(main)


def test_the_end_of_the_last_transaction_is_not_waited_for_for_long() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.add(producer, ("t", 0))
        world.markers.gate.clear()
        await world.end(producer, version=3)
        begun_s = asyncio.get_running_loop().time()
        answers = await asyncio.gather(world.add(producer, ("t", 0)), world.init(), world.add_offsets(producer))
        assert answers == [[E.CONCURRENT_TRANSACTIONS], (E.CONCURRENT_TRANSACTIONS, -1, -1), E.CONCURRENT_TRANSACTIONS]
        assert 0.2 < asyncio.get_running_loop().time() - begun_s < 0.3
        world.markers.gate.set()
        await world.coordinator.close()

    virtual(main)


def test_who_waits_for_an_end_goes_on_in_the_order_of_coming() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.add(producer, ("t", 0))
        aborting = asyncio.create_task(world.init())
        answers: list[tuple[int, int, int]] = []
        for _ in range(20):  # one comes in each turn of the loop while the others go on
            await asyncio.sleep(0.0002)
            later = asyncio.create_task(world.init())
            later.add_done_callback(lambda done: answers.append(done.result()))
        first = await aborting
        await asyncio.sleep(0.1)
        assert first == (0, 1_001, 2) and answers == [(0, 1_001, epoch) for epoch in range(3, 23)]
        await world.coordinator.close()

    virtual(main)


def test_a_shard_that_is_lost_keeps_nobody_waiting_for_an_end() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.add(producer, ("t", 0))
        world.markers.gate.clear()
        await world.end(producer, version=3)
        waiting = [asyncio.create_task(world.add(producer, ("t", 0))) for _ in range(2)]
        await asyncio.sleep(0.05)
        world.coordinator.resign(0)
        begun_s = asyncio.get_running_loop().time()
        assert await asyncio.gather(*waiting) == [[E.NOT_COORDINATOR]] * 2
        assert asyncio.get_running_loop().time() - begun_s < 0.01
        await world.coordinator.close()

    virtual(main)


def test_a_producer_without_an_id_to_give() -> None:
    async def main() -> None:
        world = World()
        world.producer_ids.error = E.NOT_CONTROLLER
        assert await world.init() == (E.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
        assert not world.shard().transactions
        world.producer_ids.error = None
        assert await world.begun() == (1_001, 0)
        await world.coordinator.close()

    virtual(main)


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_append_that_fails_changes_nothing(refusal: ErrorCode, told: ErrorCode) -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0))
        world.log.refuse_with = refusal
        before = world.state()
        assert (await world.end(producer))[0] == told
        assert (await world.init("new"))[0] == told
        assert await world.claim(producer, ("t", 1)) == [told]
        assert world.state() == before and world.shard().transactions["id"].pending is None
        assert "new" not in world.shard().transactions
        world.log.refuse_with = None
        assert await world.end(producer) == (0, 1_001, 1)
        await settled(world, S.COMPLETE_COMMIT)
        await world.coordinator.close()

    virtual(main)


def test_an_end_that_is_in_the_log_is_carried_out_though_its_append_was_refused() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0))
        world.log.is_short_after = True
        assert (await world.end(producer))[0] == E.COORDINATOR_NOT_AVAILABLE
        world.log.is_short_after = False
        await settled(world, S.COMPLETE_COMMIT)
        assert [marker.is_commit for _, _, marker in world.markers.written] == [True]
        assert await world.end(producer) == (0, 1_001, 1)
        await world.coordinator.close()

    virtual(main)


def test_a_record_too_long_is_its_own_transactions_trouble() -> None:
    async def main() -> None:
        world = World(replace(FAST, message_max_bytes=90))
        producer = await world.begun()
        assert await world.claim(producer, *(("t", number) for number in range(4))) == [0] * 4
        world.topics.topics["t"] = replace(world.topics.topics["t"], partitions=tuple(range(100)))
        many = [("t", number) for number in range(100)]
        assert set(await world.claim(producer, *many)) == {E.UNKNOWN_SERVER_ERROR}
        assert world.shard().transactions["id"].pending is None
        assert (await world.end(producer))[0] == 0
        await world.coordinator.close()

    virtual(main)


# ---------------------------------------------------------------- markers


@pytest.mark.parametrize("refusal", [3, 6, 7, 13, 14, 15, 16, 19, 20, 51, 56, 74, -1])
def test_markers_are_tried_until_they_are_written(refusal: int) -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0), ("t", 1))
        world.markers.refusals["t", 0] = [ErrorCode(refusal)] * 5
        await world.end(producer)
        await settled(world, S.COMPLETE_COMMIT)
        assert sorted(written[1] for written in world.markers.written) == [0, 1]
        assert len(world.markers.tried) == 7
        assert world.shard().delivery.waiting_count == 0
        await world.coordinator.close()

    virtual(main)


@pytest.mark.parametrize("refusal", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_a_marker_that_is_refused_for_good_leaves_the_end_to_the_next_owner(refusal: ErrorCode) -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0), ("t", 1))
        world.markers.refusals["t", 0] = [refusal]
        await world.end(producer)
        await asyncio.sleep(60)
        assert len(world.markers.tried) == 2 and world.state().status == S.PREPARE_COMMIT
        assert (await world.end(producer))[0] == E.CONCURRENT_TRANSACTIONS
        world.take_over()
        await world.coordinator.prepare("id")
        await settled(world, S.COMPLETE_COMMIT)
        assert [(n, marker.coordinator_epoch) for _, n, marker in world.markers.written] == [(1, 0), (0, 1), (1, 1)]
        await world.coordinator.close()

    virtual(main)


def test_a_deleted_topic_needs_no_marker() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0), ("u", 0))
        world.markers.refusals["t", 0] = [E.UNKNOWN_TOPIC_OR_PARTITION] * 100
        await world.end(producer)
        await asyncio.sleep(1)
        del world.topics.topics["t"]
        await settled(world, S.COMPLETE_COMMIT)
        assert [written[0] for written in world.markers.written] == ["u"]
        await world.coordinator.close()

    virtual(main)


def test_a_topic_that_the_next_owner_has_not_heard_of_yet_gets_its_marker_all_the_same() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0), ("u", 0))
        world.markers.gate.clear()
        await world.end(producer)
        former = world.coordinator
        world.take_over()
        world.shards.epoch_known = 0  # the shard was handed over, and the metadata have not come that far
        late = world.topics.topics.pop("t")
        await former.close()
        world.markers.gate.set()
        await world.coordinator.prepare("id")
        await asyncio.sleep(10)
        assert [written[0] for written in world.markers.written] == ["u"] and world.state().status == S.PREPARE_COMMIT
        world.topics.topics["t"] = late
        await settled(world, S.COMPLETE_COMMIT)
        assert [written[0] for written in world.markers.written] == ["u", "t"]
        await world.coordinator.close()

    virtual(main)


def test_a_topic_that_was_deleted_before_the_next_owners_reign_holds_up_nothing() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0), ("u", 0))
        world.markers.gate.clear()
        await world.end(producer)
        former = world.coordinator
        world.take_over()
        world.shards.epoch_known = 0
        del world.topics.topics["t"]
        await former.close()
        world.markers.gate.set()
        await world.coordinator.prepare("id")
        await asyncio.sleep(10)
        assert world.state().status == S.PREPARE_COMMIT
        world.shards.epoch_known = 1
        await settled(world, S.COMPLETE_COMMIT)
        assert [written[0] for written in world.markers.written] == ["u"]
        await world.coordinator.close()

    virtual(main)


def test_an_end_is_answered_before_its_markers_are_begun() -> None:
    """They are as much work as the rest of the transaction, and nobody who waits for the answer needs them."""

    async def main() -> None:
        world = World()
        producer = await world.begun()
        partitions = [("t", 0), ("u", 0), ("u", 1)]
        assert await world.add(producer, *partitions) == [0, 0, 0]
        for is_commit in (True, False):
            tried = len(world.markers.tried)
            error, producer_id, epoch = await world.end(producer, is_commit)
            await asyncio.sleep(0)  # in the next turn the answer is sent
            assert (error, len(world.markers.tried)) == (0, tried)
            await settled(world, S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
            assert len(world.markers.tried) == tried + 3
            producer = producer_id, epoch
            assert await world.add(producer, *partitions) == [0, 0, 0]

    virtual(main)


def test_a_partition_that_cannot_be_written_holds_up_its_own_markers_alone() -> None:
    async def main() -> None:
        world = World()
        world.markers.refusals["t", 0] = [E.KAFKA_STORAGE_ERROR] * 1_000_000
        producers = {name: await world.begun(name) for name in ("a", "b", "c")}
        await world.claim(producers["a"], ("t", 0), transactional_id="a")
        await world.claim(producers["b"], ("t", 0), transactional_id="b")
        await world.claim(producers["c"], ("t", 1), transactional_id="c")
        for name, producer in producers.items():
            await world.end(producer, transactional_id=name)
        await settled(world, S.COMPLETE_COMMIT, "c")
        await asyncio.sleep(100)
        assert world.state("a").status == world.state("b").status == S.PREPARE_COMMIT
        assert world.shard("a").delivery.waiting_count == 2
        assert len(world.markers.tried) < 400, "the pauses between tries grow"
        del world.markers.refusals["t", 0]
        await settled(world, S.COMPLETE_COMMIT, "a")
        await settled(world, S.COMPLETE_COMMIT, "b")
        await world.coordinator.close()

    virtual(main)


def test_the_completion_is_written_however_often_it_fails() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0))
        world.markers.gate.clear()
        await world.end(producer)
        world.log.refuse_with = E.NOT_ENOUGH_REPLICAS
        world.markers.gate.set()
        await asyncio.sleep(20)
        assert world.markers.written and world.state().status == S.PREPARE_COMMIT
        assert await world.claim((1_001, 1), ("t", 0)) == [E.CONCURRENT_TRANSACTIONS]
        world.log.refuse_with = None
        await settled(world, S.COMPLETE_COMMIT)
        assert len(world.markers.written) == 1
        await world.coordinator.close()

    virtual(main)


# ---------------------------------------------------------------- the next owner


def test_the_next_owner_sends_the_markers_again_and_the_last_one_completes_nothing() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0))
        world.markers.gate.clear()
        assert await world.end(producer) == (0, 1_001, 1)
        former = world.coordinator
        heir = world.take_over()
        await heir.prepare("id")
        world.markers.gate.set()
        await settled(world, S.COMPLETE_COMMIT)
        assert sorted(marker.coordinator_epoch for _, _, marker in world.markers.written) == [0, 1]
        assert former.directory.find("id") is None, "its completion was refused"
        assert await world.end(producer) == (0, 1_001, 1)
        assert len(world.log.batches) == 4, "init, add, end and one completion"
        await heir.close()
        await former.close()

    virtual(main)


def test_the_next_owner_carries_out_a_settled_end_that_nobody_asks_about() -> None:
    """Its client has had the answer, and may wait for the markers itself; the shard cannot be loaded at once."""

    async def main() -> None:
        world = World(shard_count=2)
        for transactional_id in ("id", "ie"):
            producer = await world.begun(transactional_id)
            await world.claim(producer, ("t", 0), transactional_id=transactional_id)
            world.markers.gate.clear()
            assert (await world.end(producer, transactional_id=transactional_id))[0] == 0
        assert len({world.shard(transactional_id).number for transactional_id in ("id", "ie")}) == 2
        await world.coordinator.close()
        heir = world.take_over()
        world.shards.error = KafkaError(E.NOT_LEADER_OR_FOLLOWER)
        heir.shards_changed()
        await asyncio.sleep(10)
        world.shards.error = None
        world.markers.gate.set()
        await asyncio.sleep(FAST.retry_max_ms / 1000 + 1)
        assert {world.state(transactional_id).status for transactional_id in ("id", "ie")} == {S.COMPLETE_COMMIT}
        assert [marker.coordinator_epoch for _, _, marker in world.markers.written] == [1, 1]
        await heir.close()

    virtual(main)


def test_the_next_owner_ends_a_transaction_whose_time_is_over_though_nobody_asks() -> None:
    async def main() -> None:
        world = World()
        await world.claim(await world.begun(), ("t", 0))
        world.coordinator.resign(0)
        world.take_over().shards_changed()
        await asyncio.sleep(TIMEOUT_MS / 1000 + 2)
        assert world.state().status == S.COMPLETE_ABORT
        await world.coordinator.close()

    virtual(main)


def test_a_shard_that_fails_is_loaded_again_unless_the_coordinator_stops() -> None:
    async def main() -> None:
        world = World()
        await world.begun()
        world.coordinator.resign(0)
        heir = world.take_over()
        heir.shards_changed()
        heir.shards_changed()
        await asyncio.sleep(0.1)
        world.shard().fail(RuntimeError("a bug"))
        await asyncio.sleep(0.1)
        assert world.state().status == S.EMPTY
        await heir.close()
        heir.shards_changed()
        await asyncio.sleep(1)
        assert not heir.directory.ready

    virtual(main)


def test_the_first_owner_carries_out_a_settled_end_though_its_shard_failed_and_nobody_asks() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0))
        world.markers.gate.clear()
        assert (await world.end(producer))[0] == 0
        await asyncio.sleep(0.01)
        world.shard().fail(RuntimeError("a bug"))
        world.markers.gate.set()
        await asyncio.sleep(1)
        assert world.state().status == S.COMPLETE_COMMIT
        assert [marker.is_commit for _, _, marker in world.markers.written] == [True]
        await world.coordinator.close()

    virtual(main)


def test_shards_that_had_no_owner_before_are_left_until_somebody_asks() -> None:
    async def main() -> None:
        world = World()
        world.coordinator.shards_changed()
        await asyncio.sleep(1)
        assert not world.coordinator.directory.ready
        await world.coordinator.close()

    virtual(main)


def test_a_shard_lost_in_the_middle_of_an_end() -> None:
    """The client hears that there is another coordinator, which has the outcome if it was written."""

    async def main() -> None:
        for is_durable in (True, False):
            world = World()
            producer = await world.begun()
            await world.claim(producer, ("t", 0))
            world.log.is_acknowledging = False
            asking = asyncio.create_task(world.end(producer))
            await asyncio.sleep(0.01)
            world.coordinator.resign(0)
            if is_durable:
                world.log.acknowledge()
            else:
                world.log.fail_pending(E.NOT_LEADER_OR_FOLLOWER)
            assert (await asking)[0] == E.NOT_COORDINATOR
            await asyncio.sleep(0.5)
            assert not world.markers.tried, "a lost shard writes nothing"
            world.log.is_acknowledging = True
            world.take_over()
            await world.coordinator.prepare("id")
            if not is_durable:
                assert world.state().status == S.ONGOING
                assert (await world.end(producer))[0] == 0
            await settled(world, S.COMPLETE_COMMIT)
            assert await world.end(producer) == (0, 1_001, 1)
            assert {marker.is_commit for _, _, marker in world.markers.written} == {True}
            await world.coordinator.close()

    virtual(main)


def test_a_former_owner_does_not_say_what_it_cannot_know() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.add(producer, ("t", 0))
        former = world.coordinator
        await world.take_over().prepare("id")
        await world.end(producer, version=3)
        await settled(world, S.COMPLETE_COMMIT)
        heir, world.coordinator = world.coordinator, former
        assert await world.claim(producer, ("t", 0), verify_only=True) == [E.NOT_COORDINATOR]
        assert former.directory.find("id") is None
        await heir.close()
        await former.close()

    virtual(main)


def test_replay_has_the_live_state_with_and_without_a_snapshot() -> None:
    async def main() -> None:
        for limit in (10_000, 5):
            world = World(replace(FAST, snapshot_records_max=limit), shard_count=1)
            for number in range(12):
                name = f"id-{number}"
                producer = await world.begun(name)
                if number % 3:
                    await world.claim(producer, ("t", number % 2), transactional_id=name)
                if number % 3 == 2:
                    await world.end(producer, number % 2 == 0, transactional_id=name)
            await asyncio.sleep(1)
            assert bool(world.log.snapshots) == (limit == 5)
            live = {name: one.value for name, one in world.shard().transactions.items()}
            world.take_over()
            await world.coordinator.prepare("id")
            assert {name: one.value for name, one in world.shard().transactions.items()} == live
            assert {name: one.pending for name, one in world.shard().transactions.items()} == dict.fromkeys(live)
            await world.coordinator.close()

    virtual(main)


def test_a_state_that_cannot_be_read_is_not_left_out() -> None:
    async def main() -> None:
        world = World()
        await world.begun()
        with pytest.raises(KafkaError):
            await world.shard().append([(b"\0\0\0\x01x", b"\0\x63")])
        world.take_over()
        assert (await world.init())[0] == E.COORDINATOR_NOT_AVAILABLE
        await world.coordinator.close()

    virtual(main)


def test_a_request_for_another_leader_epoch_is_refused() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        request = EndTxnRequest(transactional_id="id", producer_id=producer[0], producer_epoch=producer[1])
        with pytest.raises(KafkaError) as refused:
            await world.ask(ApiKey.END_TXN, request, 5, leader_epoch=4)
        assert refused.value.code is E.NOT_COORDINATOR
        assert (await world.ask(ApiKey.END_TXN, request, 5, leader_epoch=0)).error_code == 0
        await world.coordinator.close()

    virtual(main)


# ---------------------------------------------------------------- time


def test_a_transaction_whose_time_is_over_is_aborted() -> None:
    async def main() -> None:
        world = World()
        producer = await world.begun()
        await world.claim(producer, ("t", 0))
        await asyncio.sleep(TIMEOUT_MS / 1000 - 1)
        assert world.state().status == S.ONGOING
        await asyncio.sleep(2.1)
        assert world.state().status == S.COMPLETE_ABORT
        assert world.markers.written == [("t", 0, TransactionMarker(1_001, 1, 0, False, 2))]
        assert (await world.end(producer))[0] == E.PRODUCER_FENCED
        assert (await world.end(producer, version=1))[0] == E.INVALID_PRODUCER_EPOCH
        assert await world.end(producer, False) == (0, 1_001, 1)
        assert world.coordinator.metrics.timed_out == 1
        await world.coordinator.close()

    virtual(main)


def test_the_time_goes_on_at_the_next_owner_and_epochs_run_out() -> None:
    async def main() -> None:
        world = World()
        await world.begun()
        worn = replace(world.state(), producer_epoch=MAX_EPOCH)
        await world.shard().write("id", worn)
        await world.claim((1_001, MAX_EPOCH), ("t", 0))
        world.producer_ids.error = E.NOT_CONTROLLER
        await asyncio.sleep(TIMEOUT_MS / 1000 + 5)
        assert world.state().status == S.ONGOING
        world.coordinator.resign(0)
        world.take_over()
        await world.coordinator.prepare("id")
        world.producer_ids.error = None
        await asyncio.sleep(2)
        assert world.state().status == S.COMPLETE_ABORT
        ((_, _, marker),) = world.markers.written
        assert (marker.producer_id, marker.producer_epoch) == (1_001, MAX_EPOCH + 1)
        assert await world.init(given=(1_001, MAX_EPOCH)) == (0, 1_002, 0)
        await world.coordinator.close()

    virtual(main)


def test_an_idle_id_expires() -> None:
    async def main() -> None:
        world = World(replace(FAST, transactional_id_expiration_ms=100_000))
        producer = await world.begun()
        busy = await world.begun("busy", timeout_ms=900_000)
        await world.claim(busy, ("t", 0), transactional_id="busy")
        await asyncio.sleep(95)
        assert "id" in world.shard().transactions
        await asyncio.sleep(30)
        assert set(world.shard().transactions) == {"busy"}
        assert (await world.end(producer))[0] == E.INVALID_PRODUCER_ID_MAPPING
        assert await world.begun(given=producer) == (1_003, 0)
        world.take_over()
        await world.coordinator.prepare("id")
        assert world.state().producer_id == 1_003
        await world.coordinator.close()

    virtual(main)


def test_a_standstill_ends_no_transaction() -> None:
    async def main() -> None:
        world = World(replace(FAST, abort_timed_out_interval_ms=10_000))
        producer = await world.begun()
        await world.claim(producer, ("t", 0))
        await asyncio.sleep(TIMEOUT_MS / 1000 - 1)
        world.coordinator.after_stall()
        await asyncio.sleep(9)
        assert (await world.end(producer))[0] == 0, "it was sent in time, and lay unread"
        await world.coordinator.close()

    virtual(main)


# ---------------------------------------------------------------- administration


def test_describe_and_list() -> None:
    async def main() -> None:
        world = World(shard_count=3)

        async def described(*names: str) -> list[Any]:
            answer = await world.ask(
                ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=names), 0
            )
            return list(answer.transaction_states)

        async def listed(**filters: Any) -> set[tuple[str, str]]:
            answer = await world.ask(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(**filters), 2)
            assert answer.error_code == 0
            return {(one.transactional_id, one.transaction_state) for one in answer.transaction_states}

        assert await listed() == set()
        assert [one.error_code for one in await described("a")] == [E.NOT_COORDINATOR]
        a, b = await world.begun("app-a"), await world.begun("app-b")
        await world.claim(b, ("t", 0), ("t", 2), transactional_id="app-b")
        one, other, none, empty = await described("app-a", "app-b", "app-c", "")
        assert (one.transaction_state, one.producer_id, one.producer_epoch) == ("Empty", a[0], 0)
        assert (other.transaction_state, other.transaction_timeout_ms) == ("Ongoing", TIMEOUT_MS)
        assert other.transaction_start_time_ms > 0
        assert [n for topic in other.topics for n in topic.partitions] == [0, 2]
        assert (none.error_code, empty.error_code) == (E.TRANSACTIONAL_ID_NOT_FOUND, E.INVALID_REQUEST)
        # As Kafka: a known id without a transaction has none, an unknown one the field's default.
        assert (one.transaction_start_time_ms, none.transaction_start_time_ms) == (-1, 0)

        both = {("app-a", "Empty"), ("app-b", "Ongoing")}
        assert await listed() == both
        assert await listed(state_filters=["Ongoing"]) == {("app-b", "Ongoing")}
        assert await listed(producer_id_filters=[a[0]]) == {("app-a", "Empty")}
        assert await listed(transactional_id_pattern="app-.") == both
        assert await listed(transactional_id_pattern="app") == set(), "the whole id is matched"
        assert await listed(transactional_id_pattern="") == both
        await asyncio.sleep(5)
        assert await listed(duration_filter=4_000) == both
        assert await listed(duration_filter=6_000) == {("app-a", "Empty")}, "as in Kafka"
        request = ListTransactionsRequest(state_filters=["Ongoing", "Sleeping"])
        answer = await world.ask(ApiKey.LIST_TRANSACTIONS, request, 0)
        assert list(answer.unknown_state_filters) == ["Sleeping"] and len(answer.transaction_states) == 1
        for pattern in ("a(", "x" * 20_000, "(?=a)"):
            request = ListTransactionsRequest(transactional_id_pattern=pattern)
            answer = await world.ask(ApiKey.LIST_TRANSACTIONS, request, 2)
            assert answer.error_code == E.INVALID_REGULAR_EXPRESSION
        world.coordinator.resign(1)
        world.shards.error = KafkaError(E.KAFKA_STORAGE_ERROR)
        answer = await world.ask(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(), 2)
        assert answer.error_code == E.COORDINATOR_NOT_AVAILABLE
        await world.coordinator.close()

    virtual(main)


def test_verification_in_one_process() -> None:
    async def main() -> None:
        world = World()
        producer_id, epoch = await world.begun()
        verify = world.coordinator.verify
        asked = TransactionClaim("id")
        assert await verify(asked, producer_id, epoch, "t", [0, 1]) == [E.TRANSACTION_ABORTABLE] * 2
        assert await verify(asked._replace(may_add=True), producer_id, epoch, "t", [0, 1]) == [E.NONE] * 2
        assert await verify(asked, producer_id, epoch, "t", [0, 1]) == [E.NONE] * 2
        assert await verify(TransactionClaim("x"), producer_id, epoch, "t", [0]) == [E.INVALID_PRODUCER_ID_MAPPING]
        assert await verify(TransactionClaim(""), producer_id, epoch, "t", [0]) == [E.INVALID_REQUEST]
        assert world.coordinator.metrics.verifications == 8
        states = next(metric for metric in world.coordinator.metrics.collect())
        assert {sample.labels["state"]: sample.value for sample in states.samples}["Ongoing"] == 1
        await world.coordinator.close()

    virtual(main)


@pytest.mark.parametrize("is_added_by_owners", [False, True])
def test_a_transaction_that_can_take_no_more_partitions_ends(is_added_by_owners: bool) -> None:
    """The record of its end is longer than the one that was still accepted."""

    async def main() -> None:
        for message_max_bytes in range(200, 212):
            world = World(replace(FAST, message_max_bytes=message_max_bytes))
            for number in range(60):
                world.topics.add(f"topic{number}", 100 + number)
            add = world.claim if is_added_by_owners else world.add
            for transactional_id, is_timed_out in (("late", True), ("early", False)):
                producer = await world.begun(transactional_id)
                codes = [0]
                for number in range(200):
                    partition = (f"topic{number // 4}", number % 4)
                    codes = await add(producer, partition, transactional_id=transactional_id)
                    if codes[0]:
                        break
                assert codes == [E.UNKNOWN_SERVER_ERROR], "as Kafka calls a record of a state that is too large"
                if is_timed_out:
                    await asyncio.sleep(TIMEOUT_MS / 1000 + 2)
                else:
                    version = 5 if is_added_by_owners else 3
                    assert (await world.end(producer, version=version, transactional_id=transactional_id))[0] == 0
                await settled(world, S.COMPLETE_ABORT if is_timed_out else S.COMPLETE_COMMIT, transactional_id)
            await world.coordinator.close()

    virtual(main)


def test_many_ids_are_described_with_few_proofs() -> None:
    async def main() -> None:
        world = World()
        await world.begun()
        before = world.log.proof_count
        names = ["id", *(f"nobody-{number}" for number in range(700))]
        answer = await world.ask(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=names), 0)
        assert [one.transactional_id for one in answer.transaction_states] == names
        assert [one.error_code for one in answer.transaction_states] == [0] + [E.TRANSACTIONAL_ID_NOT_FOUND] * 700
        assert world.log.proof_count - before <= 4
        await world.coordinator.close()

    virtual(main)


@pytest.mark.parametrize("what", ["expire", "time out"])
def test_many_ids_that_are_due_at_once_leave_room_for_clients(what: str) -> None:
    async def main() -> None:
        config = replace(FAST, transactional_id_expiration_ms=100_000, ids_per_turn_max=10)
        world = World(config)
        for number in range(95):
            producer = await world.begun(f"id-{number}")
            if what == "time out":
                assert await world.claim(producer, ("t", 0), transactional_id=f"id-{number}") == [0]
        appended = len(world.log.batches)
        world.log.is_acknowledging = False
        await asyncio.sleep(200)
        written = [header for batch in world.log.batches[appended:] for _, header in batches(batch.data)]
        waiting = sum(header.record_count for header in written)
        assert waiting == 10, "those of one turn are on their way; the others wait for them"
        world.log.is_acknowledging = True
        world.log.acknowledge()
        await asyncio.sleep(20)
        transactions = world.shard("id-0").transactions.values()
        if what == "time out":
            assert {one.value.status for one in transactions if one.value is not None} == {S.COMPLETE_ABORT}
        else:
            assert not transactions
        await world.coordinator.close()

    virtual(main)


@pytest.mark.timeout(60)
def test_no_pattern_holds_up_other_requests_for_long() -> None:
    async def main() -> None:
        world = World()
        await world.begun("ab" * 16_000)
        for number in range(20):
            await world.begun(f"{number}" + "ab" * 1_000)
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        for pattern in ("(.*)*" * 500, "((((a|b)*)*)*)*" * 100, ".*a.{500}c", "(((x{1000}){1000}){1000})"):
            before, began_s = turns, time.process_time()
            answer = await world.ask(
                ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(transactional_id_pattern=pattern), 2
            )
            assert answer.error_code in (E.NONE, E.INVALID_REGULAR_EXPRESSION)
            # Of the processor: one that others take away holds up nobody by the pattern's fault.
            assert time.process_time() - began_s < 5, pattern
            assert answer.error_code or turns - before > 3
        counting.cancel()
        await world.coordinator.close()

    virtual(main)
