"""Connections are kept for the next read, not too many and not too long, and none is left behind."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest

from bmq.hdfs.blocks import DataNode
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.read_connections import IDLE_PER_NODE_MAX, ReadConnection, ReadConnections
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.read_packets import BlockReceiver, ReplicaLost, read_request
from bmq.hdfs.replica_race import _Attempt
from tests.unit.hdfs.reading_datanode import Behaviour, ReadingDataNode, datanodes, located

pytestmark = pytest.mark.unit

CONTENT = bytes(range(256)) * 100
CONFIG = HdfsConfig(namenodes=(Address("127.0.0.1", 1),), root="/test", user="test", connect_timeout_s=5.0)


def connections_with(**settings: float) -> ReadConnections:
    return ReadConnections(replace(CONFIG, **settings), ReadCounts())  # type: ignore[arg-type]


def begin(connection: ReadConnection, node: ReadingDataNode) -> asyncio.Future[BlockReceiver]:
    block = located([node], length_bytes=len(CONTENT)).block
    request = read_request(block, Token(), client_name="test", position=10, length_bytes=1000)
    return connection.start(request, BlockReceiver(10, 1000))


async def read(connection: ReadConnection, node: ReadingDataNode) -> bytes:
    return bytes((await begin(connection, node)).data)


async def test_a_connection_carries_one_read_after_the_other() -> None:
    async with datanodes(1, b7=CONTENT) as (node,):
        connections = connections_with()
        connection = await connections.open(node.node, Token())
        assert connections.take(node.node) is None
        for _ in range(3):
            assert await read(connection, node) == CONTENT[10:1010]
            assert connections.take(node.node) is connection
        await node.until(lambda node: len(node.statuses) == 3)
        assert node.statuses == [6, 6, 6]
        assert node.connection_count == 1
        connection.abort()
        await node.until(lambda node: node.open_count == 0)


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    async with datanodes(1, b7=CONTENT) as (node,):
        connections = connections_with(idle_connection_s=0.02)
        for _ in range(2):
            await read(await connections.open(node.node, Token()), node)
        await node.until(lambda node: node.connection_count == 2 and node.open_count == 0)
        assert connections.take(node.node) is None


async def test_only_so_many_are_kept() -> None:
    async with datanodes(1, b7=CONTENT) as (node,):
        connections = connections_with()
        opened = [await connections.open(node.node, Token()) for _ in range(IDLE_PER_NODE_MAX + 3)]
        await asyncio.gather(*(read(connection, node) for connection in opened))
        await node.until(lambda node: node.open_count == IDLE_PER_NODE_MAX)
        connections.close()
        await node.until(lambda node: node.open_count == 0)


async def test_what_ends_after_close_is_closed() -> None:
    async with datanodes(1, b7=CONTENT) as (node,):
        connections = connections_with()
        connection = await connections.open(node.node, Token())
        answer = begin(connection, node)
        connections.close()
        await answer
        await node.until(lambda node: node.connection_count == 1 and node.open_count == 0)


async def test_a_connection_that_the_datanode_closed_is_not_given_out() -> None:
    async with datanodes(1, b7=CONTENT) as (node,):
        node.behaviour = Behaviour(keeps=False)
        connections = connections_with()
        connection = await connections.open(node.node, Token())
        await read(connection, node)
        await node.until(lambda node: node.open_count == 0)
        async with asyncio.timeout(5):
            while connection.is_usable:  # noqa: ASYNC110 - a connection announces nothing
                await asyncio.sleep(0)
        assert connections.take(node.node) is None
        with pytest.raises(ReplicaLost):
            await read(connection, node)


async def test_a_datanode_that_speaks_unasked_is_cut_off() -> None:
    async with datanodes(1, b7=CONTENT) as (node,):
        node.behaviour = Behaviour(rewrite=lambda pieces: [*pieces[:-1], pieces[-1]])
        connections = connections_with()
        connection = await connections.open(node.node, Token())
        await read(connection, node)
        connection.buffer_updated(1)
        assert connections.take(node.node) is None
        await node.until(lambda node: node.open_count == 0)


@pytest.mark.parametrize("piece_count", [0, 1, 2])
async def test_a_connection_that_is_dropped_fails_its_read(piece_count: int) -> None:
    async with datanodes(1, b7=CONTENT) as (node,):
        node.behaviour = Behaviour(drop_after=piece_count)
        connection = await connections_with().open(node.node, Token())
        with pytest.raises(ReplicaLost):
            await read(connection, node)


async def test_abort_cancels_the_read_and_closes() -> None:
    async with datanodes(1, b7=CONTENT) as (node,):
        node.behaviour = Behaviour(gate=asyncio.Event())
        connection = await connections_with().open(node.node, Token())
        answer = begin(connection, node)
        await node.until(lambda node: bool(node.requests))
        connection.abort()
        assert answer.cancelled()
        await node.until(lambda node: node.open_count == 0)


async def test_nobody_listening_is_a_lost_replica() -> None:
    async with datanodes(1) as (node,):
        address = node.node
    with pytest.raises(ReplicaLost, match="no connection"):
        await connections_with().open(address, Token())


async def test_a_connection_that_does_not_come_about_is_given_up() -> None:
    with socket.socket() as listener:  # listens, but nobody accepts
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        host, port = listener.getsockname()
        node = DataNode("uuid", Address(host, port), Address(host, 1))
        with pytest.raises(ReplicaLost, match="no connection within 0 s"):
            await connections_with(connect_timeout_s=0.0).open(node, Token())


async def test_an_attempt_that_is_through_does_not_close_the_connection_under_another_read() -> None:
    """The connection is back in the pool, and taken again, before anybody has looked at the attempt's own answer."""
    async with datanodes(1, b7=CONTENT) as (node,):
        connections = connections_with()
        connection = await connections.open(node.node, Token())
        finished = _Attempt(node.node, BlockReceiver(0, 10), 0.0, is_hedge=False)
        finished.connection = connection
        finished.answer = asyncio.get_running_loop().create_future()
        answer = begin(connection, node)
        finished.end()
        assert bytes((await answer).data) == CONTENT[10:1010]
        under_way = _Attempt(node.node, BlockReceiver(10, 1000), 0.0, is_hedge=False)
        under_way.connection = connection
        request = read_request(
            located([node], length_bytes=len(CONTENT)).block, Token(), client_name="t", position=10, length_bytes=1000
        )
        under_way.answer = connection.start(request, under_way.receiver)
        under_way.end()
        assert connection.is_aborted
        connections.close()
