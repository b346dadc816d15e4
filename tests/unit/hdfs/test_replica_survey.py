"""What DataNodes say about their replicas, and how long that is believed."""

from __future__ import annotations

from typing import cast

import pytest

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.errors import ReplicaMissing
from bmq.hdfs.replica_states import ReplicaState
from bmq.hdfs.replica_survey import ReplicaSurvey
from bmq.log.store import StorageUnavailable, StoreError, WriterBroken

pytestmark = pytest.mark.unit

A, B, C = (DataNode(f"uuid-{name}", Address("h", port), Address("h", port + 10)) for port, name in enumerate("abc"))
CONFIG = HdfsConfig(namenodes=(Address("nn", 1),), root="/r", user="u")


class FakeDataNodes:
    """`replicas`: stamp and length by node, or the error it answers with."""

    def __init__(self) -> None:
        self.replicas: dict[DataNode, tuple[int, int] | StoreError] = dict.fromkeys((A, B, C), (1, 100))

    async def visible_length(self, node: DataNode, block: Block, *, timeout_s: float | None = None) -> int:
        assert timeout_s == CONFIG.connect_timeout_s
        replica = self.replicas[node]
        if isinstance(replica, StoreError):
            raise replica
        if replica[0] < block.generation_stamp:
            raise StoreError("replica.getGenerationStamp() < block.getGenerationStamp()")
        return replica[1]


class BrokerContext:
    def __init__(self) -> None:
        self.datanodes = FakeDataNodes()
        self.bad_nodes = BadNodes(60.0)
        self.survey = ReplicaSurvey(
            "/r/f", datanodes=cast(DataNodeRpc, self.datanodes), bad_nodes=self.bad_nodes, config=CONFIG
        )

    def states(self, located: LocatedBlock) -> dict[DataNode, ReplicaState]:
        return {replica.node: replica.state for replica in self.survey.replicas(located)}


def located(stamp: int = 1, nodes: tuple[DataNode, ...] = (A, B, C)) -> LocatedBlock:
    return LocatedBlock(Block("BP-1", 1, stamp), 0, nodes)


async def test_replicas_are_presumed_to_be_written() -> None:
    found = BrokerContext()
    assert set(found.states(located()).values()) == {ReplicaState.WRITABLE}


async def test_only_a_replica_that_refuses_twice_in_the_same_state_is_settled() -> None:
    found = BrokerContext()
    await found.survey.refused([A], located().block)
    assert not found.survey.has_learned
    assert found.states(located())[A] is ReplicaState.WRITABLE
    found.datanodes.replicas[A] = (1, 150)
    await found.survey.refused([A], located().block)
    assert found.states(located())[A] is ReplicaState.WRITABLE
    await found.survey.refused([A], located().block)
    assert found.survey.has_learned
    replica = next(r for r in found.survey.replicas(located()) if r.node == A)
    assert (replica.state, replica.length_bytes, replica.is_bumped) == (ReplicaState.SETTLED, 150, False)


async def test_replicas_that_refuse_at_unequal_lengths_are_doubted_for_longer() -> None:
    """No writer finalizes them like that: a rival is at work on them."""
    found = BrokerContext()
    found.datanodes.replicas[A] = (1, 9_000)
    for _ in range(3):
        await found.survey.refused([A, B, C], located().block)
        assert set(found.states(located()).values()) == {ReplicaState.WRITABLE}
    await found.survey.refused([A, B, C], located().block)
    assert set(found.states(located()).values()) == {ReplicaState.SETTLED}


async def test_what_was_found_out_is_good_for_one_try() -> None:
    found = BrokerContext()
    found.datanodes.replicas[A] = ReplicaMissing("none")
    await found.survey.refused([A], located().block)
    assert found.states(located())[A] is ReplicaState.ABSENT
    assert found.states(located())[A] is ReplicaState.WRITABLE


async def test_what_was_found_out_is_void_when_somebody_moved_the_block_on() -> None:
    found = BrokerContext()
    found.survey.replicas(located())
    for _ in range(2):
        await found.survey.refused([A], located().block)
    assert found.states(located(stamp=2))[A] is ReplicaState.WRITABLE


async def test_a_newer_stamp_than_the_namenodes_is_seen() -> None:
    found = BrokerContext()
    found.datanodes.replicas[A] = (5, 100)
    for _ in range(2):
        await found.survey.refused([A], located().block)
    assert next(r for r in found.survey.replicas(located()) if r.node == A).is_bumped


async def test_stale_replicas_and_those_of_restarted_nodes_wait_for_recovery() -> None:
    found = BrokerContext()
    found.datanodes.replicas[A] = (0, 100)
    found.datanodes.replicas[B] = (1, (1 << 64) - 1)
    await found.survey.refused([A, B], located().block)
    states = found.states(located())
    assert (states[A], states[B]) == (ReplicaState.WAITING, ReplicaState.WAITING)


async def test_a_silent_node_is_left_out_and_remembered() -> None:
    found = BrokerContext()
    found.datanodes.replicas[A] = StorageUnavailable("silence")
    await found.survey.refused([A], located().block)
    for _ in range(2):
        assert found.states(located())[A] is ReplicaState.UNREACHABLE
    assert found.survey.answering(located()) == (B, C)
    assert found.bad_nodes.current() == (A,)
    with pytest.raises(WriterBroken):
        found.datanodes.replicas[B] = StorageUnavailable("silence")
        await found.survey.lengths([B, C], located().block)
    assert found.bad_nodes.current() == (A, B)
    assert found.survey.answering(located()) == (C,)


async def test_nodes_that_others_suspect_are_tried_when_no_other_is_left() -> None:
    found = BrokerContext()
    for node in (A, B, C):
        found.bad_nodes.add(node)
    assert set(found.states(located()).values()) == {ReplicaState.WRITABLE}
    found.survey.lost(A, "it is dead indeed")
    assert found.states(located())[A] is ReplicaState.UNREACHABLE
    assert found.states(located())[B] is ReplicaState.WRITABLE


async def test_nodes_listed_at_first_are_still_tried_when_a_rival_left_them_out() -> None:
    found = BrokerContext()
    found.survey.replicas(located())
    replicas = found.survey.replicas(located(stamp=2, nodes=(C,)))
    assert {(r.node, r.is_listed) for r in replicas} == {(A, False), (B, False), (C, True)}


async def test_who_holds_all_of_a_closed_block() -> None:
    found = BrokerContext()
    found.datanodes.replicas[A] = StorageUnavailable("silence")
    found.datanodes.replicas[B] = (1, 99)
    assert await found.survey.holders([A, B, C], located().block.with_length(100)) == (C,)
    assert found.bad_nodes.current() == ()


async def test_a_bug_is_no_answer() -> None:
    found = BrokerContext()
    found.datanodes.replicas = {}
    for ask in (found.survey.refused, found.survey.lengths, found.survey.holders):
        with pytest.raises(KeyError):
            await ask([A], located().block)
