"""The proxy that has a NameNode carry calls out after they were given up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.namenode import NameNode
from bmq.hdfs.proto.namenode_pb2 import DeleteResponse, GetFileInfoResponse
from bmq.log.store import StorageUnavailable
from tests.fakes.hadoop_ipc import ReceivedCall, ScriptedServer
from tests.support.late_calls import LateCalls

pytestmark = pytest.mark.campaign("unit")

PATIENCE_S = 0.3


def answer(call: ReceivedCall) -> None:
    call.answer(DeleteResponse(result=True) if call.method == "delete" else GetFileInfoResponse())


@asynccontextmanager
async def site(seed: int = 1) -> AsyncIterator[tuple[ScriptedServer, LateCalls, NameNode]]:
    async with ScriptedServer(answer) as server, LateCalls(server.address, Random(seed)) as proxy:
        config = HdfsConfig(namenodes=(proxy.address,), root="/", user="bmq", retry_first_s=0.01, retry_longest_s=0.02)
        namenode = NameNode(config, Random(seed))
        try:
            yield server, proxy, namenode
        finally:
            await namenode.close()


async def test_everything_passes_while_nothing_is_kept_back() -> None:
    async with site() as (server, proxy, namenode):
        assert await namenode.delete("/a", recursive=False)
        assert await namenode.file_info("/a") is None
        assert [call.method for call in server.calls] == ["delete", "getLocatedFileInfo"]
        assert not proxy.kept


@pytest.mark.parametrize("seed", range(6))
async def test_a_call_that_was_given_up_is_carried_out_once_and_later(seed: int) -> None:
    """Whether the client waits in vain or loses its connection; its tries of the same call go the same way."""
    async with site(seed) as (server, proxy, namenode):
        proxy.begin(1.0, (3 * PATIENCE_S, 3 * PATIENCE_S))
        with pytest.raises(StorageUnavailable):
            await namenode.delete("/a", recursive=False, retry_max_s=PATIENCE_S)
        assert server.calls_of("delete") == []
        proxy.end()
        assert await namenode.delete("/b", recursive=False)
        await proxy.until_delivered()
        identities = [call.identity for call in server.calls_of("delete")]
        assert len(identities) == len(set(identities)) == 2
        assert proxy.kept == proxy.delivered == {"delete": 1}


async def test_reads_are_never_kept_back() -> None:
    async with site() as (server, proxy, namenode):
        proxy.begin(1.0, (60.0, 60.0))
        assert await namenode.file_info("/a") is None
        assert len(server.calls) == 1
