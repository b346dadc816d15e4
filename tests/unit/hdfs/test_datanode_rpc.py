"""Asking DataNodes for the length of a replica, and for its files."""

from __future__ import annotations

import asyncio

import pytest

from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.errors import PermissionRefused, ReplicaMissing
from bmq.hdfs.proto.namenode_pb2 import (
    GetBlockLocalPathInfoRequest,
    GetBlockLocalPathInfoResponse,
    GetReplicaVisibleLengthRequest,
    GetReplicaVisibleLengthResponse,
)
from bmq.log.store import StorageUnavailable
from tests.fakes.hadoop_ipc import ReceivedCall, ScriptedServer
from tests.fakes.loop_time import LoopTime

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]

BLOCK = Block("BP-1", 7, 1001)
CONFIG = HdfsConfig(namenodes=(Address("127.0.0.1", 1),), root="/r", user="ann", rpc_timeout_s=10.0)


def node_of(server: ScriptedServer) -> DataNode:
    return DataNode("uuid", Address("127.0.0.1", 9), server.address)


def long(call: ReceivedCall) -> None:
    call.answer(GetReplicaVisibleLengthResponse(length=1 << 40))


async def test_one_connection_to_each_datanode() -> None:
    async with ScriptedServer(long) as first, ScriptedServer(long) as second:
        rpc = DataNodeRpc(CONFIG)
        asked = [rpc.visible_length(node_of(server), BLOCK) for server in (first, second) * 5]
        assert await asyncio.gather(*asked) == [1 << 40] * 10
        assert (len(first.peers), len(second.peers), len(first.calls)) == (1, 1, 5)
        call = first.calls[0]
        assert (call.method, call.protocol_name) == (
            "getReplicaVisibleLength",
            "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol",
        )
        assert call.request(GetReplicaVisibleLengthRequest).block == BLOCK.message()
        rpc.close()


async def test_a_missing_replica_is_told_from_a_node_that_is_away() -> None:
    def missing(call: ReceivedCall) -> None:
        call.refuse("org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException", "Replica does not exist BP-1:7")

    async with ScriptedServer(missing) as server:
        rpc = DataNodeRpc(CONFIG)
        with pytest.raises(ReplicaMissing, match=r"^block 7 on 127\.0\.0\.1:9: Replica does not exist BP-1:7"):
            await rpc.visible_length(node_of(server), BLOCK)
        await server.stop()
        with pytest.raises(StorageUnavailable, match=f"^{server.address}: "):
            await rpc.visible_length(node_of(server), BLOCK)
        rpc.close()


async def test_a_node_that_hangs_costs_the_time_given(loop_time: LoopTime) -> None:
    async with ScriptedServer() as server:
        rpc = DataNodeRpc(CONFIG)
        asking = asyncio.create_task(rpc.visible_length(node_of(server), BLOCK, timeout_s=2))
        await server.received(1)
        await loop_time.pass_s(2)
        with pytest.raises(StorageUnavailable, match="getReplicaVisibleLength unanswered for 2 s"):
            await asking
        rpc.close()


async def test_connections_are_bounded_and_those_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.hdfs.datanode_rpc.CONNECTIONS_MAX", 2)
    async with ScriptedServer(long) as first, ScriptedServer(long) as second, ScriptedServer(long) as third:
        rpc = DataNodeRpc(CONFIG)
        for server in (first, second, first, third):
            await rpc.visible_length(node_of(server), BLOCK)
        await second.peers[0].closed.wait()
        await rpc.visible_length(node_of(first), BLOCK)
        assert (len(first.peers), len(third.peers)) == (1, 1)
        # Nodes that are being asked keep their connections, and a further one has to wait for another day.
        first.script = third.script = lambda call: None
        busy = [asyncio.create_task(rpc.visible_length(node_of(server), BLOCK)) for server in (first, third)]
        await asyncio.gather(first.received(4), third.received(2))
        with pytest.raises(StorageUnavailable, match="calls to 2 DataNodes are under way already"):
            await rpc.visible_length(node_of(second), BLOCK)
        rpc.close()
        assert {type(error) for error in await asyncio.gather(*busy, return_exceptions=True)} == {StorageUnavailable}


async def test_after_closing_nothing_is_asked() -> None:
    async with ScriptedServer(long) as server:
        rpc = DataNodeRpc(CONFIG)
        await rpc.visible_length(node_of(server), BLOCK)
        rpc.close()
        with pytest.raises(StorageUnavailable, match="were closed here"):
            await rpc.visible_length(node_of(server), BLOCK)
        await server.peers[0].closed.wait()
        assert len(server.calls) == 1


async def test_a_datanode_says_in_which_files_a_replica_lies() -> None:
    def tell(call: ReceivedCall) -> None:
        call.answer(
            GetBlockLocalPathInfoResponse(
                block=BLOCK.message(), local_path="/d/blk_7", local_meta_path="/d/blk_7_1001.meta"
            )
        )

    async with ScriptedServer(tell) as server:
        rpc = DataNodeRpc(CONFIG)
        located = LocatedBlock(BLOCK, 0, (node_of(server),))
        assert await rpc.files(node_of(server), located, timeout_s=10.0) == ("/d/blk_7", "/d/blk_7_1001.meta")
        call = server.calls[0]
        assert call.method == "getBlockLocalPathInfo"
        assert call.request(GetBlockLocalPathInfoRequest).block == BLOCK.message()
        rpc.close()


async def test_who_may_not_read_its_files_is_told_so() -> None:
    def refuse(call: ReceivedCall) -> None:
        call.refuse("org.apache.hadoop.security.AccessControlException", "Can't continue with getBlockLocalPathInfo()")

    async with ScriptedServer(refuse) as server:
        rpc = DataNodeRpc(CONFIG)
        with pytest.raises(PermissionRefused, match=r"^block 7 on 127\.0\.0\.1:9: .*getBlockLocalPathInfo"):
            await rpc.files(node_of(server), LocatedBlock(BLOCK, 0, (node_of(server),)), timeout_s=10.0)
        rpc.close()
