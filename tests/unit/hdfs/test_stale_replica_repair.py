"""Block recovery of replicas that a power loss made old: who gets the NameNode's stamp, and who is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from bmq.hdfs.blocks import Block, DataNode
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.datanode_rpc import INTER_DATANODE_PROTOCOL, DataNodeRpc
from bmq.hdfs.proto.namenode_pb2 import (
    InitReplicaRecoveryRequest,
    InitReplicaRecoveryResponse,
    StoredBlock,
    UpdateReplicaUnderRecoveryRequest,
    UpdateReplicaUnderRecoveryResponse,
)
from bmq.hdfs.stale_replica_repair import recover_replicas
from tests.fakes.hadoop_ipc import ReceivedCall, Script, ScriptedServer
from tests.fakes.loop_time import LoopTime
from tests.support.waiting import until

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]

BLOCK = Block("BP-1", 7, 1002, 5_000)
INIT, UPDATE = "initReplicaRecovery", "updateReplicaUnderRecovery"
IO_EXCEPTION = "java.io.IOException"


def has(length_bytes: int) -> Script:
    """A DataNode whose replica has this length, and an older stamp."""

    def answer(call: ReceivedCall) -> None:
        if call.method == INIT:
            block = StoredBlock(block_id=7, generation_stamp=1001, num_bytes=length_bytes)
            call.answer(InitReplicaRecoveryResponse(is_found=True, block=block))
        else:
            call.answer(UpdateReplicaUnderRecoveryResponse())

    return answer


def has_none(call: ReceivedCall) -> None:
    call.answer(InitReplicaRecoveryResponse(is_found=False))


def is_begun(call: ReceivedCall) -> None:
    """Whoever began the recovery before us died in between."""
    if call.method == INIT:
        call.refuse("org.apache.hadoop.hdfs.protocol.RecoveryInProgressException", "rur.getRecoveryID() >= recoveryId")
    else:
        call.answer(UpdateReplicaUnderRecoveryResponse())


def is_newer(call: ReceivedCall) -> None:
    if call.method == INIT:
        call.refuse(IO_EXCEPTION, "replica.getGenerationStamp() >= recoveryId = 1002")
    else:
        call.refuse(IO_EXCEPTION, "replica.getState() != RUR")


TIMEOUT_S = 3.0


async def recovered(
    *scripts: Script, meanwhile: Callable[[LoopTime], Awaitable[None]] | None = None
) -> tuple[list[bool], list[list[str]]]:
    """Of each node with its script: whether its replica got the stamp, and what it was asked."""
    async with AsyncExitStack() as stack:
        time = stack.enter_context(LoopTime.stopped())
        servers = [await stack.enter_async_context(ScriptedServer(script)) for script in scripts]
        nodes = [
            DataNode(f"uuid-{number}", Address("127.0.0.1", 9), server.address) for number, server in enumerate(servers)
        ]
        config = HdfsConfig(namenodes=(Address("127.0.0.1", 1),), root="/r", user="ann", rpc_timeout_s=TIMEOUT_S)
        rpc = DataNodeRpc(config)
        try:
            recovering = asyncio.ensure_future(recover_replicas(BLOCK, nodes, datanodes=rpc, path="/r/f"))
            if meanwhile is not None:
                await meanwhile(time)
            found = await recovering
        finally:
            rpc.close()
        assert all(call.protocol_name == INTER_DATANODE_PROTOCOL for server in servers for call in server.calls)
        return [node in found for node in nodes], [[call.method for call in server.calls] for server in servers]


async def test_a_replica_that_has_everything_gets_the_stamp_and_the_length() -> None:
    seen: list[ReceivedCall] = []

    def script(call: ReceivedCall) -> None:
        seen.append(call)
        has(5_000)(call)

    assert await recovered(script) == ([True], [[INIT, UPDATE]])
    begun = seen[0].request(InitReplicaRecoveryRequest).block
    assert begun.new_generation_stamp == 1002
    # DataNodes refuse a block that is newer than their replica.
    assert (begun.block.block.block_id, begun.block.block.generation_stamp) == (7, 0)
    ended = seen[1].request(UpdateReplicaUnderRecoveryRequest)
    assert ended.block == BLOCK.message()
    assert (ended.recovery_id, ended.new_length, ended.new_block_id) == (1002, 5_000, 7)


async def test_a_longer_one_is_cut_and_a_shorter_one_left_alone() -> None:
    assert await recovered(has(5_001), has(4_999)) == ([True, False], [[INIT, UPDATE], [INIT]])


async def test_a_node_without_a_replica_or_with_a_new_one_is_left_alone() -> None:
    assert await recovered(has_none, is_newer, has(5_000)) == (
        [False, False, True],
        [[INIT], [INIT, UPDATE], [INIT, UPDATE]],
    )


async def test_a_recovery_that_was_begun_before_is_ended() -> None:
    assert await recovered(is_begun) == ([True], [[INIT, UPDATE]])


async def test_a_node_that_is_silent_holds_nobody_up_for_long() -> None:
    asked: list[ReceivedCall] = []
    ignored: list[ReceivedCall] = []

    async def meanwhile(time: LoopTime) -> None:
        await until(lambda: asked and ignored)
        await time.pass_s(1)
        has(5_000)(asked[0])
        await until(lambda: len(asked) == 2)
        has(5_000)(asked[1])
        await time.pass_s(TIMEOUT_S - 1)

    assert await recovered(ignored.append, asked.append, meanwhile=meanwhile) == (
        [False, True],
        [[INIT], [INIT, UPDATE]],
    )


async def test_nobody_to_ask() -> None:
    assert await recovered() == ([], [])
