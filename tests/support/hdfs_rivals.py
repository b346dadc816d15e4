"""Two sides of a takeover on a real HDFS: an owner that can be stopped between any two steps, and who comes after it."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from random import Random
from typing import Any, Final

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.block_stream import BlockStream, Stage
from bmq.hdfs.blocks import Block, DataNode, FileBlocks, LocatedBlock
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.file_takeover import ClosingTools, take_over
from bmq.hdfs.namenode import NameNode
from bmq.hdfs.proto.namenode_pb2 import UpdateBlockForPipelineRequest, UpdatePipelineResponse
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.reader import BlockReader
from bmq.hdfs.sasl.secure_connector import SecureConnector
from bmq.log.store import StoreError

BLOCK_BYTES: Final = 8 * 1024 * 1024
APPENDS_UNDER_WAY: Final = 16
STOPPED_WITHIN_S: Final = 60.0
ACKED_WITHIN_S: Final = 60.0
IDLE_HEARTBEAT_S: Final = 0.05
PLACE_TRIES_MAX: Final = 40

_BASE: Final = Random(1).randbytes(1_000_003)


def content(start: int, end: int) -> bytes:
    """The bytes of the one stream that every writer here writes, from one position to another."""
    first = start % len(_BASE)
    length_bytes = end - start
    return (_BASE * ((first + length_bytes) // len(_BASE) + 1))[first : first + length_bytes]


Deed = Callable[[], Awaitable[object]]


class InterruptibleNameNode(NameNode):
    """Lets somebody else act between two steps: `before["bump"]` is a list of deeds, one for each call to come.

    A deed that raises takes the call's place: the process died, or its connection did.
    """

    def __init__(self, config: HdfsConfig, random: Random) -> None:
        super().__init__(config, random)
        self.before: dict[str, list[Deed]] = {}
        self.after: dict[str, list[Deed]] = {}
        self.called: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not iscoroutinefunction(found) or name == "close":
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.called.append(name)
            if deeds := self.before.get(name):
                await deeds.pop(0)()
            result = await found(*args, **kwargs)
            if deeds := self.after.get(name):
                await deeds.pop(0)()
            return result

        return call

    async def abandon_block(self, path: str, *, holder: str, block: Block) -> None:
        """The one call that the product must never make: it drops a block, whatever anybody wrote to it."""
        request = UpdateBlockForPipelineRequest(block=block.message(), client_name=path)
        request.MergeFromString(b"\x1a" + bytes((len(holder),)) + holder.encode())  # field 3, after block and path
        await self._call("abandonBlock", request, UpdatePipelineResponse, path, None)


class Client:
    """What one process has: connections and memories of its own."""

    def __init__(self, config: HdfsConfig, name: str) -> None:
        self.name = name
        random = Random(name)
        self.namenode = InterruptibleNameNode(config, random)
        if config.security is not None:
            config = replace(config, connector=SecureConnector(config.security, self.namenode))
        self.config = config
        self.datanodes = DataNodeRpc(config)
        self.bad_nodes = BadNodes(config.bad_node_expiry_s)
        self.reader = BlockReader(self.namenode, self.datanodes, config, self.bad_nodes, random, ReadCounts())
        self.tools = ClosingTools(self.namenode, self.datanodes, self.reader, config, self.bad_nodes)

    async def take_over(self, path: str, previous_holder: str | None, *, is_sync: bool = False) -> int:
        return await take_over(
            path,
            previous_holder=previous_holder,
            own_holder=self.name,
            namenode=self.namenode,
            datanode_rpc=self.datanodes,
            reader=self.reader,
            config=self.config,
            bad_nodes=self.bad_nodes,
            is_sync=is_sync,
        )

    async def blocks(self, path: str) -> FileBlocks:
        return await self.namenode.locations(path)

    async def replica_lengths(self, located: LocatedBlock) -> dict[DataNode, int]:
        lengths = await asyncio.gather(*(self.datanodes.visible_length(node, located.block) for node in located.nodes))
        return dict(zip(located.nodes, lengths, strict=True))

    async def check_replicas(self, path: str, nodes: Iterable[DataNode], length_bytes: int) -> None:
        """Each of the nodes has exactly the first `length_bytes` of the stream, with good checksums."""
        blocks = await self.blocks(path)
        assert not blocks.is_open
        assert blocks.length_bytes == length_bytes
        last = blocks.last
        if last is None:
            assert length_bytes == 0
            return
        assert not last.is_corrupt
        last = replace(last, nodes=tuple(nodes))
        assert set((await self.replica_lengths(last)).values()) == {length_bytes}
        for node in last.nodes:
            data = await self.reader.read_replica(
                last, node, position=0, length_bytes=length_bytes, visible_bytes=length_bytes
            )
            assert data == content(0, length_bytes), node.transfer

    async def close(self) -> None:
        self.reader.close()
        self.datanodes.close()
        await self.namenode.close()


@asynccontextmanager
async def clients(config: HdfsConfig, *names: str) -> AsyncIterator[list[Client]]:
    """Separate processes as far as HDFS can tell; the root directory is made."""
    found = [Client(config, name) for name in names]
    try:
        await found[0].namenode.make_directory(config.root, with_parents=True)
        yield found
    finally:
        for client in found:
            await client.close()


@dataclass(slots=True)
class Segment:
    """A file of an old owner at any stage: created, block allocated, connected, written, finished."""

    client: Client
    path: str
    file_id: int
    located: LocatedBlock | None = None
    stream: BlockStream | None = None  # to all nodes, as the product writes
    acked: int = 0

    @classmethod
    async def create(cls, client: Client, path: str) -> Segment:
        return cls(client, path, await _create(client, path))

    @classmethod
    async def allocate(cls, client: Client, path: str, replicas: int = 3) -> Segment:
        """With a block on this many nodes: the NameNode names fewer when it thinks them busy."""
        for _ in range(PLACE_TRIES_MAX):
            segment = await cls.create(client, path)
            segment.located = await client.namenode.add_block(path, holder=client.name, file_id=segment.file_id)
            if len(segment.located.nodes) == replicas:
                return segment
            await client.namenode.delete(path, recursive=False)
            await asyncio.sleep(0.1)
        raise AssertionError(f"the NameNode never named {replicas} DataNodes")

    @classmethod
    async def open(cls, client: Client, path: str, length_bytes: int = 0) -> Segment:
        """Connected, with this many acknowledged bytes."""
        segment = await cls.allocate(client, path)
        await segment.connect()
        if length_bytes:
            await segment.append(length_bytes)
        return segment

    @property
    def block(self) -> Block:
        assert self.located is not None
        return self.located.block

    @property
    def nodes(self) -> tuple[DataNode, ...]:
        assert self.located is not None
        return self.located.nodes

    @property
    def writing(self) -> BlockStream:
        assert self.stream is not None
        return self.stream

    async def connect(self) -> None:
        self.stream = await self._connect(self.nodes)

    async def connect_each(self) -> dict[DataNode, BlockStream]:
        """A stream of its own to every node, so that replicas can be made unequal. The caller aborts them."""
        return {node: await self._connect((node,)) for node in self.nodes}

    async def _connect(self, nodes: Sequence[DataNode]) -> BlockStream:
        assert self.located is not None
        return await BlockStream.open(
            self.located.with_nodes(tuple(nodes)),
            holder=self.client.name,
            config=self.client.config,
            stage=Stage.PIPELINE_SETUP_CREATE,
            is_fanout=True,
        )

    async def append(self, length_bytes: int) -> int:
        self.acked = await append(self.writing, length_bytes)
        return self.acked

    async def append_until_broken(self, piece_bytes: int = 16_000) -> StoreError:
        """Many appends under way all the time, and heartbeats once the block is full; how it ended."""
        under_way: deque[Future[int]] = deque()
        stream = self.writing
        try:
            while stream.position + piece_bytes <= BLOCK_BYTES:
                start = stream.position
                under_way.append(stream.send([content(start, start + piece_bytes)]))
                if len(under_way) >= APPENDS_UNDER_WAY:
                    self.acked = max(self.acked, await under_way.popleft())
                await asyncio.sleep(0.001)
            while under_way:
                self.acked = max(self.acked, await under_way.popleft())
            # A block is full in less than a second, and whoever is to stop its writer may take longer on a busy machine.
            async with asyncio.timeout(STOPPED_WITHIN_S):
                while True:
                    await stream.heartbeat()
                    await asyncio.sleep(IDLE_HEARTBEAT_S)
        except StoreError as error:
            return error
        except TimeoutError:
            raise AssertionError(f"nobody stopped this writer within {STOPPED_WITHIN_S} s") from None

    async def until_acked(self, length_bytes: int) -> None:
        """Wait for the writer that runs beside."""
        try:
            async with asyncio.timeout(ACKED_WITHIN_S):
                while self.acked < length_bytes:  # noqa: ASYNC110 - nobody is told of a byte
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise AssertionError(f"only {self.acked} bytes were acknowledged in {ACKED_WITHIN_S} s") from None

    async def complete_at_last(self, length_bytes: int) -> None:
        """As a writer does after its last packet, for some 10 s."""
        for _ in range(2_000):
            if await self.complete(length_bytes):
                return
            await asyncio.sleep(0.005)
        raise AssertionError("the NameNode does not complete the file")

    async def complete(self, length_bytes: int) -> bool:
        return await self.client.namenode.complete(
            self.path, holder=self.client.name, file_id=self.file_id, last=self.block.with_length(length_bytes)
        )

    def abort(self) -> None:
        if self.stream is not None:
            self.stream.abort()


async def append(stream: BlockStream, length_bytes: int) -> int:
    """The next bytes of the one stream; the length once all nodes of `stream` have them."""
    start = stream.position
    return await stream.send([content(start, start + length_bytes)])


async def _create(client: Client, path: str) -> int:
    return await client.namenode.create(path, holder=client.name, block_bytes=BLOCK_BYTES, replication=3)
