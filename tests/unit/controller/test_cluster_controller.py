"""The active controller of a cluster on virtual time: who is fenced when, who owns what then, and what outlives a controller."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise

import pytest

from bmq.controller.decision_log import ControllerGone
from bmq.controller.moves import Move
from bmq.metadata.image import NO_LEADER
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, UnsupportedVersion
from bmq.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from bmq.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from bmq.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from bmq.protocol.metadata_records import BrokerRegistrationChangeRecord, FeatureLevelRecord, decode_record
from tests.support.asking import ask
from tests.unit.controller.cluster_support import heartbeat, owners_by_count, registration, require_sound
from tests.unit.controller.controller_lab import BALANCED, CONFIG, ControllerLab, LabNode, Wire, on_virtual_time
from tests.unit.controller.support import create, describe, incremental, topic

pytestmark = pytest.mark.unit


# --- start


@on_virtual_time
async def test_the_first_controller_writes_the_level_and_nothing_else() -> None:
    lab = ControllerLab()
    async with lab.controller() as first:
        assert first.epoch == 1
        assert not first.image.nodes and first.image.controller_id == 99
        assert first.image.features == {}
        records = [decode_record(r.value or b"") for batch in lab.log.batches for r in decode_records(batch.data, 0)]
        assert records == [FeatureLevelRecord(name="bmq.metadata.version", feature_level=1)]
    async with lab.controller() as second:
        assert len(lab.log.batches) == 1 and second.image.controller_id == 99


@on_virtual_time
async def test_a_cluster_of_a_later_release_is_not_taken_over() -> None:
    lab = ControllerLab()
    lab.write(FeatureLevelRecord(name="bmq.metadata.version", feature_level=7))
    with pytest.raises(UnsupportedVersion, match=r"bmq.metadata.version is 7 and this server supports 1 to 2"):
        async with lab.controller():
            raise AssertionError("it started")


@on_virtual_time
async def test_nodes_go_on_under_the_next_controller_as_they_are() -> None:
    lab = ControllerLab()
    async with lab.controller():
        nodes = await lab.join(1, 2)
        await lab.create("t", 4, 2)
        before = lab.image
    async with lab.controller() as second:
        for node in nodes:
            node.go_on()
        await asyncio.sleep(5)
        assert second.image.nodes == before.nodes
        assert second.image.topics == before.topics
        assert second.metrics.nodes_fenced == 0


@on_virtual_time
async def test_who_is_not_heard_of_by_the_next_controller_is_fenced_after_two_seconds() -> None:
    lab = ControllerLab()
    async with lab.controller():
        alive, _ = await lab.join(1, 2)
        await lab.create("t", 4, 2)
    async with lab.controller() as second:
        alive.go_on()
        assert set(second.image.nodes) == {1, 2}
        passed_s = await lab.until(lambda: set(lab.image.nodes) == {1})
        assert 1.9 < passed_s < 2.3
        assert lab.leaders("t") == [1] * 4
        assert "node 2 was not heard of for 2 s" in lab.reasons("t", 0) + lab.reasons("t", 1)


@on_virtual_time
async def test_an_unknown_epoch_has_to_register() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        for request in (heartbeat(1, 0), heartbeat(1, -1)):
            assert (await controller.heartbeat(request, None)).error_code == ErrorCode.STALE_BROKER_EPOCH
        (node,) = await lab.join(1)
        assert (await controller.heartbeat(heartbeat(1, node.epoch + 1), None)).error_code == 77


# --- registration


@on_virtual_time
async def test_refusals_have_a_sentence() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(1)
        for request, code, why in (
            (registration(1, 5), ErrorCode.DUPLICATE_BROKER_REGISTRATION, "another living process has node id 1"),
            (registration(2, cluster_id="x"), ErrorCode.INCONSISTENT_CLUSTER_ID, "node 2 belongs to cluster x"),
            (registration(2, levels=(2, 2)), ErrorCode.UNSUPPORTED_VERSION, "node 2 supports bmq.metadata.version 2"),
        ):
            response = await controller.register_node(request, Wire())
            assert response.error_code == code and why in (response.error_message or "")
            assert response.broker_epoch == -1


@on_virtual_time
async def test_a_node_that_died_may_come_back_at_once() -> None:
    lab = ControllerLab()
    async with lab.controller():
        first, _ = await lab.join(1, 2)
        await lab.create("t", 6, 2)
        old_epoch = first.epoch
        epochs = [p.leader_epoch for p in lab.image.topics["t"].partitions]
        first.die()
        await lab.until(lambda: 1 not in lab.image.nodes, within_s=0.3)
        assert lab.leaders("t") == [2] * 6
        await first.come_back()
        assert first.epoch > old_epoch
        assert lab.image.nodes[1].epoch == first.epoch
        # What it had before stays where it is, and nothing of it goes on under an old epoch.
        assert lab.leaders("t") == [2] * 6
        after = [p.leader_epoch for p in lab.image.topics["t"].partitions]
        assert sum(after) == sum(epochs) + 3
        require_sound(lab.image)


@on_virtual_time
async def test_within_the_grace_another_process_is_still_another() -> None:
    lab = ControllerLab()
    async with lab.controller():
        (node,) = await lab.join(1)
        node.die()
        node.incarnation += 1
        assert (await node.register()).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await asyncio.sleep(0.11)
        assert (await node.register()).error_code == ErrorCode.NONE


@on_virtual_time
async def test_a_process_that_the_last_controller_knew_and_nobody_hears_may_be_replaced() -> None:
    lab = ControllerLab()
    async with lab.controller():
        node, _ = await lab.join(1, 2)
        await lab.create("t", 2)
    async with lab.controller():
        await node.come_back()
        assert lab.image.nodes[1].epoch == node.epoch
        assert 1 not in lab.leaders("t")


# --- fencing


@on_virtual_time
async def test_a_lost_connection_has_a_grace() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        node, _ = await lab.join(1, 2)
        await lab.create("t", 4, 2)
        assert node.wire is not None
        node.wire.lose()
        node.wire = Wire()
        await asyncio.sleep(0.05)
        await node.beat()
        await asyncio.sleep(3)
        assert set(controller.image.nodes) == {1, 2} and controller.metrics.nodes_fenced == 0
        node.wire.lose()
        passed_s = await lab.until(lambda: 1 not in lab.image.nodes)
        assert 0.09 < passed_s < 0.15
        assert lab.leaders("t") == [2] * 4
        assert controller.metrics.nodes_fenced == 1
        # It was only the connection: the same process takes part again with its next heartbeat, under its epoch.
        epoch, node.wire = node.epoch, Wire()
        assert not (await node.beat()).is_fenced
        assert lab.image.nodes[1].epoch == epoch


@on_virtual_time
async def test_a_hung_node_is_fenced_after_two_seconds_and_its_floors_are_known() -> None:
    lab = ControllerLab()
    async with lab.controller():
        hung, _ = await lab.join(1, 2)
        await lab.create("t", 4, 2)
        assert await hung.report(1_234) is ErrorCode.NONE
        owned = [number for number, leader in enumerate(lab.leaders("t")) if leader == 1]
        hung.stop()
        passed_s = await lab.until(lambda: 1 not in lab.image.nodes)
        assert 1.4 < passed_s < 2.3
        assert lab.leaders("t") == [2] * 4
        floors = [partition.high_watermark_floor for partition in lab.image.topics["t"].partitions]
        assert floors == [1_234 if number in owned else 0 for number in range(4)]
        assert lab.reasons("t", owned[0]) == ["node 1 was silent for 2 s"]
        # Fencing and the next owners are one image: nobody ever sees partitions of a node that is not there.
        for _, image in lab.images:
            require_sound(image) if image.nodes else None


@on_virtual_time
async def test_idle_partitions_of_a_dead_node_follow_those_in_use() -> None:
    lab = ControllerLab()
    async with lab.controller():
        dead, _ = await lab.join(1, 2)
        await lab.create("t", 1_200, 2)
        owned = [number for number, leader in enumerate(lab.leaders("t")) if leader == 1]
        busy = set(owned[-5:])
        assert await dead.report(7, bytes_in=lambda number: 1_000 * (number in busy)) is ErrorCode.NONE
        dead.die()
        await lab.until(lambda: 1 not in lab.image.nodes)
        first = next(image for _, image in lab.images if 1 not in image.nodes and 2 in image.nodes and image.topics)
        assert {first.topics["t"].partitions[number].leader for number in busy} == {2}
        passed_s = await lab.until(lambda: set(lab.leaders("t")) == {2})
        assert 0.2 < passed_s < 0.6
        for number in (owned[0], owned[300], owned[-1]):
            assert lab.reasons("t", number) == ["node 1 lost its connection to the controller"]
            assert lab.image.topics["t"].partitions[number].high_watermark_floor == 7


@on_virtual_time
async def test_the_next_controller_names_the_owners_that_the_last_one_did_not() -> None:
    lab = ControllerLab()
    async with lab.controller():
        gone, other = await lab.join(1, 2)
        await lab.create("t", 500, 2)
        before = lab.image.topics["t"].partitions
    lab.write(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=gone.epoch, fenced=1))
    async with lab.controller():
        other.go_on()
        await lab.until(lambda: set(lab.leaders("t")) == {2}, within_s=1)
        owned = [number for number, partition in enumerate(before) if partition.leader == 1]
        assert {tuple(lab.reasons("t", number)) for number in owned} == {("node 1 does not live",)}


@on_virtual_time
async def test_owners_are_named_again_when_that_could_not_be_written() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        dead, _ = await lab.join(1, 2)
        await lab.create("t", 1_200, 2)
        dead.die()
        await lab.until(lambda: 1 not in lab.image.nodes)
        lab.log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(1)
        assert 1 in lab.leaders("t") and controller.metrics.appends_failed > 0
        lab.log.refuse_with = None
        await lab.until(lambda: set(lab.leaders("t")) == {2}, within_s=1.5)


@on_virtual_time
async def test_the_election_may_tell_of_a_death() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(1, 2)
        silent = LabNode(lab, 3, ("broker",), None)
        silent.wire = None
        await silent.register()
        await silent.beat()
        assert set(controller.image.nodes) == {1, 2, 3}
        for node_id in (1, 3, 44):
            controller.node_gone(node_id, "cannot be reached")
        await lab.until(lambda: 3 not in lab.image.nodes, within_s=0.1)
        assert set(controller.image.nodes) == {1, 2}


@on_virtual_time
async def test_a_controller_that_was_held_up_fences_nobody_for_it() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(1, 2)
        await asyncio.sleep(0.3)
        loop = asyncio.get_running_loop()
        loop._now_s += 30.0  # type: ignore[attr-defined]  # what a blocked loop sees: its timers are all due at once
        await asyncio.sleep(5)
        assert set(controller.image.nodes) == {1, 2} and controller.metrics.nodes_fenced == 0


@on_virtual_time
async def test_a_controller_that_stood_still_believes_nobody_else_that_a_node_is_dead() -> None:
    """It drops the nodes' connections itself; whoever stood still with it has lost its links to the others as well."""
    lab = ControllerLab()
    async with lab.controller() as controller:
        silent = LabNode(lab, 1, ("broker",), None)
        silent.wire = None
        await silent.register()
        await silent.beat()
        controller.after_stall()
        controller.node_gone(1, "cannot be reached")
        await asyncio.sleep(1.5)
        assert set(controller.image.nodes) == {1} and controller.metrics.nodes_fenced == 0
        await lab.until(lambda: 1 not in lab.image.nodes, within_s=1)


@on_virtual_time
async def test_fencing_is_tried_until_it_is_written() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        first, _ = await lab.join(1, 2)
        await lab.create("t", 2, 2)
        lab.log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
        first.die()
        await asyncio.sleep(2)
        assert set(controller.image.nodes) == {1, 2}
        lab.log.refuse_with = None
        await lab.until(lambda: 1 not in lab.image.nodes, within_s=0.5)
        assert lab.leaders("t") == [2, 2]


@on_virtual_time
async def test_a_slow_metadata_log_holds_up_no_heartbeat() -> None:
    lab = ControllerLab()
    async with lab.controller():
        first, second = await lab.join(1, 2)
        await lab.create("t", 2, 2)
        lab.log.is_acknowledging = False
        first.die()
        await asyncio.sleep(5)
        assert set(lab.image.nodes) == {1, 2}  # rule 17: what is not durable was not decided
        assert second.last is not None and not second.last.is_fenced
        lab.log.is_acknowledging = True
        lab.log.acknowledge()
        await lab.until(lambda: 1 not in lab.image.nodes, within_s=0.1)
        assert set(lab.image.nodes) == {2}


@on_virtual_time
async def test_heartbeats_that_ask_for_the_same_are_written_once() -> None:
    lab = ControllerLab()
    async with lab.controller():
        await lab.join(1)
        node = LabNode(lab, 2, ("broker",), None)
        await node.register()
        lab.log.is_acknowledging = False
        first = asyncio.ensure_future(node.beat())
        await lab.until(lambda: lab.log.pending_count == 1)
        for _ in range(20):
            waiting = await node.beat()
            assert (waiting.error_code, waiting.is_fenced, waiting.is_caught_up) == (0, True, True)
        batches = len(lab.log.batches)
        lab.log.is_acknowledging = True
        lab.log.acknowledge()
        assert not (await first).is_fenced and not (await node.beat()).is_fenced
        assert len(lab.log.batches) == batches


@on_virtual_time
async def test_a_node_heard_of_while_it_is_being_fenced_comes_back() -> None:
    lab = ControllerLab()
    async with lab.controller():
        first, _ = await lab.join(1, 2)
        lab.log.is_acknowledging = False
        assert first.wire is not None
        first.wire.lose()
        await asyncio.sleep(0.2)
        first.wire = Wire()
        await asyncio.sleep(0.6)
        lab.log.is_acknowledging = True
        lab.log.acknowledge()
        await asyncio.sleep(1)
        assert set(lab.image.nodes) == {1, 2}


@on_virtual_time
async def test_partitions_stay_while_nobody_else_could_own_them() -> None:
    lab = ControllerLab()
    async with lab.controller():
        (node,) = await lab.join(1)
        await lab.join(5, roles=("proxy",))
        await lab.create("t", 2)
        node.stop()
        await lab.until(lambda: 1 not in lab.image.nodes)
        assert lab.leaders("t") == [1, 1]
        node.go_on()
        await lab.until(lambda: 1 in lab.image.nodes)
        assert {p.leader_epoch for p in lab.image.topics["t"].partitions} == {0}
        node.die()
        await lab.until(lambda: 1 not in lab.image.nodes)
        node.incarnation += 1
        node.wire = Wire()
        await node.register()
        assert lab.leaders("t") == [NO_LEADER] * 2
        await node.beat()
        assert [(p.leader, p.leader_epoch) for p in lab.image.topics["t"].partitions] == [(1, 2)] * 2


@on_virtual_time
async def test_replicas_that_live_are_followed() -> None:
    lab = ControllerLab()
    async with lab.controller(replace(CONFIG, replica_changes_at_once=3)):
        first, _, _ = await lab.join(1, 2, 3)
        await lab.create("t", 12, 3)

        def isrs() -> set[frozenset[int]]:
            return {frozenset(partition.isr) for partition in lab.image.topics["t"].partitions}

        assert isrs() == {frozenset({1, 2, 3})}
        first.die()
        await lab.until(lambda: isrs() == {frozenset({2, 3})}, within_s=1)
        await first.come_back()
        await lab.until(lambda: isrs() == {frozenset({1, 2, 3})}, within_s=1)
        require_sound(lab.image)


@on_virtual_time
async def test_only_nodes_with_the_broker_role_are_placed_on() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(1, 2)
        await lab.join(5, 6, 7, roles=("proxy",))
        await lab.create("t", 10, 2)
        assert owners_by_count(lab.image, []) == {1: 5, 2: 5}
        too_many = await ask(controller, create(topic("u", 1, 3)))
        assert too_many.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "only 2 broker(s) are registered" in (too_many.topics[0].error_message or "")
        await controller.auto_create_topic("__consumer_offsets")
        assert {len(p.replicas) for p in lab.image.topics["__consumer_offsets"].partitions} == {2}


@on_virtual_time
async def test_without_any_broker_no_topic_is_made() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(5, roles=("proxy",))
        with pytest.raises(KafkaError, match="only 0 broker"):
            await controller.auto_create_topic("__consumer_offsets")


# --- planned moves


@on_virtual_time
async def test_controlled_shutdown_leaves_the_node_nothing() -> None:
    lab = ControllerLab()
    async with lab.controller():
        stopping, *_ = await lab.join(1, 2, 3)
        await lab.create("t", 300, 2)
        await lab.create("one", 30, 1)
        stopping.want_shut_down = True
        passed_s = await lab.until(lambda: stopping.may_stop, within_s=10)
        assert passed_s < 4
        assert 1 not in lab.image.nodes and 1 not in lab.leaders("t") + lab.leaders("one")
        moved = [n for n in range(300) if lab.image.topics["t"].partitions[n].leader_epoch > 0]
        assert moved and {tuple(lab.reasons("t", number)) for number in moved} == {("controlled shutdown",)}
        # A part at a time: between two images at most so many partitions change their owners.
        changes = []
        for (_, old), (_, new) in zip(lab.images, lab.images[1:], strict=False):
            if "one" in old.topics:
                changes.append(
                    sum(
                        a.leader != b.leader
                        for name in ("t", "one")
                        for a, b in zip(old.topics[name].partitions, new.topics[name].partitions, strict=True)
                    )
                )
        assert max(changes) == 50 and sum(changes) == len(moved) + 10
        stopping.die()
        stopping.want_shut_down = False
        await asyncio.sleep(0.2)
        await stopping.come_back()
        assert not lab.image.nodes[1].is_draining


@on_virtual_time
async def test_the_next_part_follows_at_once_when_the_new_owners_serve() -> None:
    lab = ControllerLab()
    async with lab.controller(replace(CONFIG, move_pause_max_ms=60_000)):
        nodes = await lab.join(1, 2)
        await lab.create("t", 400, 2)
        nodes[0].want_shut_down = True
        while not nodes[0].may_stop:
            await asyncio.sleep(0.02)
            await nodes[1].report(5)
            assert lab.now_s < 5


@on_virtual_time
async def test_few_partitions_in_use_move_together_and_many_idle_ones() -> None:
    lab = ControllerLab()
    config = replace(CONFIG, moves_in_use_at_once=3, moves_in_use_at_once_max=3, move_pause_max_ms=60_000)
    async with lab.controller(config):
        nodes = await lab.join(1, 2)
        await lab.create("t", 400, 2)
        await nodes[0].report(5, bytes_in=lambda number: 1_000 * (number < 40))
        busy = [n for n in range(40) if lab.leaders("t")[n] == 1]
        assert len(busy) >= 10
        nodes[0].want_shut_down = True
        while not nodes[0].may_stop:
            await asyncio.sleep(0.02)
            await nodes[1].report(5)
            assert lab.now_s < 10
        together = [
            (
                sum(a.leader != b.leader for a, b in zip(before[:40], after[:40], strict=True)),
                sum(a.leader != b.leader for a, b in zip(before[40:], after[40:], strict=True)),
            )
            for before, after in pairwise(
                image.topics["t"].partitions for _, image in lab.images if "t" in image.topics
            )
        ]
        assert max(used for used, _ in together) == 3
        assert max(idle for _, idle in together) > 40


@on_virtual_time
@pytest.mark.parametrize(("served_after_s", "most"), [(0.05, 8), (0.4, 2)])
async def test_the_more_quickly_partitions_in_use_are_served_the_more_move_at_once(
    served_after_s: float, most: int
) -> None:
    lab = ControllerLab()
    config = replace(CONFIG, moves_in_use_at_once=2, moves_in_use_at_once_max=8)
    async with lab.controller(config):
        nodes = await lab.join(1, 2)
        await lab.create("t", 60, 2)
        await nodes[0].report(5, bytes_in=lambda number: 1_000)
        nodes[0].want_shut_down = True
        counts = []
        while not nodes[0].may_stop:
            before = lab.leaders("t").count(2)
            await asyncio.sleep(served_after_s)
            counts.append(lab.leaders("t").count(2) - before)
            await nodes[1].report(5)
            assert lab.now_s < 30
        assert max(counts) == most


@on_virtual_time
async def test_a_whole_cluster_may_stop_at_once() -> None:
    lab = ControllerLab()
    async with lab.controller():
        nodes = await lab.join(1, 2, 3)
        await lab.create("t", 60, 2)
        for node in nodes:
            node.want_shut_down = True
        await lab.until(lambda: all(node.may_stop for node in nodes), within_s=3)


@on_virtual_time
async def test_draining_survives_the_controller_and_ends_when_told() -> None:
    lab = ControllerLab()
    async with lab.controller(replace(CONFIG, moves_at_once=1, move_pause_max_ms=200)) as controller:
        nodes = await lab.join(1, 2)
        await lab.create("t", 20, 2)
        await nodes[0].report(5, bytes_in=lambda number: 1_000)
        await controller.set_draining(1, True, "rack 7 is moved")
        await asyncio.sleep(0.5)
        assert 0 < owners_by_count(lab.image, [1])[1] < 10
    async with lab.controller() as controller:
        for node in nodes:
            node.go_on()
        await lab.until(lambda: lab.leaders("t") == [2] * 20, within_s=3)
        reasons = {reason for number in range(20) for reason in lab.reasons("t", number)}
        assert reasons == {"rack 7 is moved", "node 1 is being drained"}
        assert controller.image.nodes[1].is_draining
        await lab.create("u", 4)
        assert lab.leaders("u") == [2] * 4
        await controller.set_draining(1, False, "")
        assert not controller.image.nodes[1].is_draining
        with pytest.raises(KafkaError, match="no node 12"):
            await controller.set_draining(12, True, "why")


@on_virtual_time
async def test_a_node_is_drained_once_there_is_somebody_to_take_over() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(1)
        await lab.create("t", 5)
        await controller.set_draining(1, True, "it is old")
        await asyncio.sleep(1)
        assert lab.leaders("t") == [1] * 5
        await lab.join(2)
        await lab.until(lambda: lab.leaders("t") == [2] * 5, within_s=1)
        assert lab.reasons("t", 0) == ["it is old"]


@on_virtual_time
async def test_plans_can_be_looked_at_and_carried_out() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(1)
        await lab.create("t", 9)
        await lab.join(2, 3)
        plan = controller.rebalance_plan()
        assert len(plan) == 6 and lab.leaders("t") == [1] * 9
        stale = Move(plan[0].topic_id, "t", 8, 3, 2, "it was there once")
        await controller.apply_moves([*plan, stale], "asked for")
        assert owners_by_count(lab.image, []) == {1: 3, 2: 3, 3: 3}
        moved = plan[0].partition
        assert lab.reasons("t", moved) == ["asked for: node 1 owns 9 partitions, node 2 owns 0"]
        assert controller.rebalance_plan() == ()
        drain = controller.drain_plan(2)
        assert {move.from_node for move in drain} == {2} and len(drain) == 3
        assert controller.drain_plan(44) == []
        lab.log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError):
            await controller.apply_moves(drain, "asked for")


# --- balancing


@on_virtual_time
async def test_from_one_node_to_three_within_ten_seconds() -> None:
    lab = ControllerLab()
    async with lab.controller(BALANCED):
        await lab.join(1)
        for number in range(10):
            await lab.create(f"t{number}", 30)
        await lab.join(2, 3)
        passed_s = await lab.until(lambda: owners_by_count(lab.image, [2, 3]) == {1: 100, 2: 100, 3: 100}, within_s=10)
        assert passed_s < 10
        images = len(lab.images)
        await asyncio.sleep(60)
        assert len(lab.images) == images


@on_virtual_time
async def test_balancing_pauses_between_its_parts_and_makes_way_for_a_drain() -> None:
    lab = ControllerLab()
    async with lab.controller(
        replace(BALANCED, moves_at_once=1, moves_in_use_at_once=1, move_pause_max_ms=200)
    ) as controller:
        nodes = await lab.join(1, 2)
        await lab.create("t", 40, 2)
        for node in nodes:
            await node.report(5, bytes_in=lambda number: 1_000)
        began_s = asyncio.get_running_loop().time()
        await lab.join(3)
        # Nobody reports the moved ones, so each takes its 200 ms, and the pause behind it as long again.
        await lab.until(lambda: owners_by_count(lab.image, []).get(3, 0) == 4, within_s=5)
        assert asyncio.get_running_loop().time() - began_s >= 3 * 0.4
        await controller.set_draining(1, True, "it is old")
        await lab.until(lambda: owners_by_count(lab.image, [2, 3]).get(1, 0) == 0, within_s=10)
        reasons = [reason for number in range(40) for reason in lab.reasons("t", number)]
        assert sum("owns" in reason for reason in reasons) <= 5, "the balancer went on while a node was drained"


@on_virtual_time
async def test_nothing_is_balanced_while_it_is_not_known_who_lives() -> None:
    lab = ControllerLab()
    async with lab.controller():
        nodes = await lab.join(1)
        await lab.create("t", 30)
        nodes += await lab.join(2)
    async with lab.controller(BALANCED):
        nodes[0].go_on()
        await asyncio.sleep(1.9)
        assert lab.leaders("t") == [1] * 30
        await lab.until(lambda: 2 not in lab.image.nodes)
        await asyncio.sleep(5)
        assert lab.leaders("t") == [1] * 30


@pytest.mark.parametrize("is_controller_lost", [False, True])
@on_virtual_time
async def test_a_node_that_is_back_at_once_gets_nothing_while_its_partitions_are_taken_over(
    is_controller_lost: bool,
) -> None:
    """Their new owners are starting them: another move in the middle of that would begin it again elsewhere."""
    lab = ControllerLab()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(lab.controller(BALANCED))
        nodes = await lab.join(1, 2, 3)
        await lab.create("t", 30, 3)
        assert owners_by_count(lab.image, []) == {1: 10, 2: 10, 3: 10}
        nodes[0].die()
        if is_controller_lost:
            await stack.aclose()
            controller = await stack.enter_async_context(lab.controller(BALANCED))
            for node in nodes[1:]:
                node.go_on()
            controller.node_gone(1, "died")
        await lab.until(lambda: 1 not in lab.leaders("t"))
        await nodes[0].come_back()
        after = lab.leaders("t")
        await asyncio.sleep(1.5)
        assert lab.leaders("t") == after
        await lab.until(lambda: owners_by_count(lab.image, []) == {1: 10, 2: 10, 3: 10}, within_s=5)


@on_virtual_time
async def test_balancing_goes_on_after_a_failed_write() -> None:
    lab = ControllerLab()
    async with lab.controller(BALANCED):
        await lab.join(1)
        await lab.create("t", 30)
        await lab.join(2)
        lab.log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(4)
        assert lab.leaders("t") == [1] * 30
        lab.log.refuse_with = None
        await lab.until(lambda: owners_by_count(lab.image, []) == {1: 15, 2: 15}, within_s=5)


@on_virtual_time
async def test_measured_load_is_balanced_and_told() -> None:
    lab = ControllerLab()
    async with lab.controller(BALANCED) as controller:
        first, second = await lab.join(1, 2)
        await lab.create("hot", 4, 2)
        hot = {number for number, leader in enumerate(lab.leaders("hot")) if leader == 1}
        for _ in range(30):
            await asyncio.sleep(1)
            for node in (first, second):
                await node.report(1, bytes_in=lambda number: 20_000_000 if number in hot else 100_000)
        loads = controller.loads()
        assert loads[1].partitions == loads[2].partitions == 2
        assert loads[1].bytes_in_s == pytest.approx(loads[2].bytes_in_s, rel=0.01) == pytest.approx(2e7, rel=0.1)
        assert {lab.leaders("hot")[number] for number in hot} == {1, 2}
        reasons = [lab.reasons("hot", number) for number in range(4)]
        assert sum(len(given) for given in reasons) == 2
        assert all("MB/s, node 2" in given[0] for given in reasons if given)


# --- clients' requests


@on_virtual_time
async def test_owners_are_elected_and_reassigned() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        first, _ = await lab.join(1, 2)
        await lab.create("t", 4, 2)
        preferred = lab.leaders("t")
        first.die()
        await lab.until(lambda: 1 not in lab.image.nodes)
        await first.come_back()
        everything = ElectLeadersRequest(topic_partitions=None)
        elected = await ask(controller, everything)
        assert [len(each.partition_result) for each in elected.replica_election_results] == [2]
        assert lab.leaders("t") == preferred
        again = (await ask(controller, everything)).replica_election_results
        assert [list(each.partition_result) for each in again] == [[]], (
            "the topic is named, its partitions need nothing"
        )
        named = [TopicPartitions(topic="t", partitions=[0])]
        unknown = await ask(controller, ElectLeadersRequest(election_type=9, topic_partitions=named))
        assert unknown.error_code == ErrorCode.INVALID_REQUEST
        assert unknown.replica_election_results[0].partition_result[0].error_code == ErrorCode.INVALID_REQUEST
        wanted = [ReassignablePartition(partition_index=0, replicas=(2,))]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=wanted)])
        altered = await ask(controller, request)
        assert altered.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert (lab.leaders("t")[0], lab.image.topics["t"].partitions[0].replicas) == (2, (2,))
        listed = await ask(controller, ListPartitionReassignmentsRequest(topics=None))
        assert not listed.topics
        lab.log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
        wanted[0].replicas = (1,)
        failed = await ask(controller, request)
        assert failed.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


@on_virtual_time
async def test_an_unclean_election_accepts_what_an_owner_reports_as_lost() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        (node,) = await lab.join(1)
        await lab.create("t", 1)
        named = ElectLeadersRequest(election_type=1, topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
        await node.report(50)
        healthy = await ask(controller, named)
        assert healthy.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED
        await node.report(-2)
        elected = await ask(controller, named)
        assert elected.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
        partition = lab.image.topics["t"].partitions[0]
        assert (partition.leader, partition.leader_epoch, partition.high_watermark_floor) == (1, 1, 0)


@on_virtual_time
async def test_an_owner_that_was_fenced_by_nobody_begins_a_new_leader_epoch() -> None:
    lab = ControllerLab()
    async with lab.controller():
        (node,) = await lab.join(1)
        await lab.create("t", 1)
        await node.report(50)
        before = lab.image.topics["t"].partitions[0]
        await node.report(-3)
        await asyncio.sleep(0.1)
        after = lab.image.topics["t"].partitions[0]
        assert (after.leader, after.leader_epoch, after.high_watermark_floor) == (1, before.leader_epoch + 1, 50)


@on_virtual_time
async def test_producer_ids_and_reports_need_a_registration() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        (node,) = await lab.join(1)
        blocks = set()
        for _ in range(3):
            given = await controller.allocate_producer_ids_for(
                AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.epoch)
            )
            blocks.add((given.error_code, given.producer_id_start, given.producer_id_len))
        assert blocks == {(0, 0, 1_000), (0, 1_000, 1_000), (0, 2_000, 1_000)}
        refused = await controller.allocate_producer_ids_for(
            AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.epoch + 1)
        )
        assert refused.error_code == ErrorCode.STALE_BROKER_EPOCH
        node.epoch += 1
        assert await node.report(3) is ErrorCode.STALE_BROKER_EPOCH


@on_virtual_time
async def test_configs_of_every_node_are_told_and_altered() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(1, 2)
        altered = await ask(
            controller, incremental(4, "2", ("log.cleaner.threads", 0, "3"), ("message.max.bytes", 0, "77777"))
        )
        assert altered.responses[0].error_code == ErrorCode.NONE, altered.responses[0].error_message
        for node, expected in (("2", "77777"), ("1", "1048588"), ("99", "1048588")):
            described = await ask(controller, describe((4, node, ["message.max.bytes", "node.id"])))
            (result,) = described.results
            assert result.error_code == ErrorCode.NONE
            values = {config.name: config.value for config in result.configs}
            assert values == {"message.max.bytes": expected, "node.id": node}
        for unknown in ("3", "x"):
            described = await ask(controller, describe((4, unknown, None)))
            assert described.results[0].error_code == ErrorCode.INVALID_REQUEST
            refused = await ask(controller, incremental(4, unknown, ("message.max.bytes", 0, "77777")))
            assert refused.responses[0].error_code == ErrorCode.INVALID_REQUEST


# --- ends


@on_virtual_time
async def test_history_outlives_controllers() -> None:
    lab = ControllerLab()
    async with lab.controller():
        nodes = await lab.join(1, 2)
        await lab.create("t", 2, 2)
        nodes[0].die()
        await lab.until(lambda: 1 not in lab.image.nodes)
        topic_id = lab.image.topics["t"].topic_id
        told = [lab.active.history.of(topic_id, number) for number in range(2)]
        assert sum(len(changes) for changes in told) == 1
    assert lab.log.snapshots
    async with lab.controller() as second:
        assert [second.history.of(topic_id, number) for number in range(2)] == told


@on_virtual_time
async def test_a_controller_that_lost_its_log_answers_nobody() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        (node,) = await lab.join(1)
        assert not controller.gone.is_set()
        lab.log.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(ControllerGone):
            await ask(controller, create(topic("t")))
        assert controller.gone.is_set()
        assert (await node.beat()).error_code == ErrorCode.NOT_CONTROLLER
        node.incarnation += 1
        assert (await node.register()).error_code == ErrorCode.NOT_CONTROLLER
        assert await node.report(1) is ErrorCode.NOT_CONTROLLER
        assert (await lab.fetch(0)).error_code == ErrorCode.NOT_CONTROLLER
        lab.log.refuse_with = None
