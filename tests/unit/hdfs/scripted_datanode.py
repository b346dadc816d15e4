"""A DataNode in this process that takes blocks as a real one does and misbehaves when told to.

    node = await ScriptedDataNode.start(1)
    node.is_holding = True        # acknowledge nothing until `release()`
    writing = await node.writing()    # the newest connection: what came over it, and the means to spoil it

It keeps the rules that a real one enforces by closing the connection: packets without gaps that begin a chunk, right
checksums. As the first node of a pipeline (`targets` in the operation) it answers for the whole chain.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import unpack, unpack_from

from crc32c import crc32c

from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.delimited import varint
from bmq.hdfs.proto.hdfs_pb2 import DatanodeId, DatanodeInfo
from bmq.hdfs.proto.transfer_pb2 import BlockOpResponse, OpWriteBlock, PacketHeader, PipelineAck, TransferStatus
from tests.support.waiting import until

CHUNK_BYTES = 512


def scripted_config(**changes: object) -> HdfsConfig:
    values: dict[str, object] = {
        "checksum_chunk_bytes": CHUNK_BYTES,
        "packet_bytes_max": 8 * CHUNK_BYTES,
        "ack_timeout_s": 5.0,
        "connect_timeout_s": 5.0,
        "idle_heartbeat_s": 20.0,
        **changes,
    }
    return HdfsConfig(namenodes=(Address("127.0.0.1", 1),), root="/bmq", **values)  # type: ignore[arg-type]


def located_on(*nodes: ScriptedDataNode | DataNode, block_id: int = 7) -> LocatedBlock:
    places = tuple(node.place if isinstance(node, ScriptedDataNode) else node for node in nodes)
    return LocatedBlock(Block("pool", block_id, 1000), 0, places)


def place_at(port: int, name: str) -> DataNode:
    identity = DatanodeId(
        ip_addr="127.0.0.1", host_name="localhost", datanode_uuid=name, xfer_port=port, info_port=1, ipc_port=2
    )
    return DataNode.of(DatanodeInfo(id=identity))


@dataclass
class Received:
    """One packet."""

    header: PacketHeader
    data: bytes


class Writing:
    """One WRITE_BLOCK connection. `data`: the replica; `held`: seqnos not acknowledged; `heartbeats`: how many came."""

    def __init__(self, node: ScriptedDataNode, operation: OpWriteBlock, writer: StreamWriter) -> None:
        self.operation = operation
        self.data = bytearray()
        self.packets: list[Received] = []
        self.held: list[int] = []
        self.heartbeats = 0
        self.is_finished = False
        self.is_closed = False
        self.bad_packet = ""
        self._node = node
        self._writer = writer
        self._chain_nodes = 1 + len(operation.targets)

    def acknowledge(self, seqno: int, statuses: Sequence[int] = ()) -> None:
        ack = PipelineAck(seqno=seqno, downstream_ack_time_nanos=0, flag=[0] * self._chain_nodes)
        ack.reply.extend(TransferStatus.ValueType(status) for status in statuses or [0] * self._chain_nodes)  # type: ignore[misc]
        body = ack.SerializeToString()
        self.send_raw(varint(len(body)) + body)

    def send_raw(self, data: bytes) -> None:
        self._writer.write(data)

    def release(self, count: int | None = None) -> None:
        """Acknowledge the oldest held packets (all)."""
        count = len(self.held) if count is None else count
        for seqno in self.held[:count]:
            self.acknowledge(seqno)
        del self.held[:count]

    def drop(self) -> None:
        self._writer.transport.abort()

    async def until(self, is_so: Callable[[Writing], bool]) -> Writing:
        """Wait for something to have arrived."""
        await until(lambda: is_so(self))
        return self

    # --- what a DataNode does

    def take(self, header: PacketHeader, checksums: Sequence[int], data: bytes) -> None:
        chunk_bytes = self.operation.requested_checksum.bytes_per_checksum
        chunks = [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]
        if [crc32c(chunk) for chunk in chunks] != list(checksums):
            self.bad_packet = f"packet {header.seqno} has wrong checksums"
        elif header.offset_in_block > len(self.data):
            self.bad_packet = f"packet {header.seqno} leaves a gap"
        elif data and header.offset_in_block % chunk_bytes:
            self.bad_packet = f"packet {header.seqno} begins inside a chunk"
        self.packets.append(Received(header, data))
        if header.seqno == -1:
            self.heartbeats += 1
        start, end = header.offset_in_block, header.offset_in_block + len(data)
        if end > len(self.data):
            self.data[start:] = data
        self.is_finished |= header.last_packet_in_block
        if not self._node.is_answering(header):
            self.held.append(header.seqno)
        else:
            self.acknowledge(header.seqno)


class ScriptedDataNode:
    """`setup`: how WRITE_BLOCK is answered: "ok", "silent", "close", or a BlockOpResponse.

    `is_holding`: acknowledge nothing; `is_deaf_to_heartbeats`: not those. `lingers`: leave the connection open behind the
    last packet. `asked`: how often a block was to be set up.
    """

    def __init__(self) -> None:
        self.setup: str | BlockOpResponse = "ok"
        self.is_holding = False
        self.is_deaf_to_heartbeats = False
        self.lingers = False
        self.writings: list[Writing] = []
        self.connections = 0
        self.asked = 0
        self.place = place_at(1, "nobody")
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, number: int) -> ScriptedDataNode:
        node = cls()
        node._server = await asyncio.start_server(node._serve, "127.0.0.1", 0)
        node.place = place_at(node._server.sockets[0].getsockname()[1], f"uuid-{number}")
        return node

    async def stop(self) -> None:
        """Connections and listening socket closed."""
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def writing(self, count: int = 1) -> Writing:
        """The `count`-th connection that was set up, once it is there."""
        await until(lambda: len(self.writings) >= count)
        return self.writings[count - 1]

    def is_answering(self, header: PacketHeader) -> bool:
        return not self.is_holding and not (header.seqno == -1 and self.is_deaf_to_heartbeats)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        writing: Writing | None = None
        try:
            operation = OpWriteBlock.FromString(await _operation(reader))
            self.asked += 1
            if not await self._answer_setup(reader, writer):
                return
            writing = Writing(self, operation, writer)
            self.writings.append(writing)
            await self._receive(reader, writing)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self.connections -= 1
            if writing is not None:
                writing.is_closed = True
            writer.transport.abort()

    async def _answer_setup(self, reader: StreamReader, writer: StreamWriter) -> bool:
        if self.setup == "close":
            return False
        if self.setup == "silent":
            await reader.read(1)
            return False
        response = self.setup if isinstance(self.setup, BlockOpResponse) else BlockOpResponse(status="SUCCESS")
        body = response.SerializeToString()
        writer.write(varint(len(body)) + body)
        return response.status == TransferStatus.SUCCESS

    async def _receive(self, reader: StreamReader, writing: Writing) -> None:
        while not writing.bad_packet:
            length_bytes, header_bytes = unpack(">IH", await reader.readexactly(6))
            header = PacketHeader.FromString(await reader.readexactly(header_bytes))
            body = await reader.readexactly(length_bytes - 4)
            checksum_count = (len(body) - header.data_len) // 4
            checksums = unpack_from(f">{checksum_count}I", body)
            writing.take(header, checksums, body[4 * checksum_count :])
            if header.last_packet_in_block and not self.is_holding and not self.lingers:
                return


async def _operation(reader: StreamReader) -> bytes:
    version, code = unpack(">hB", await reader.readexactly(3))
    assert (version, code) == (28, 80)
    length_bytes = shift = 0
    while True:
        (byte,) = await reader.readexactly(1)
        length_bytes |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return await reader.readexactly(length_bytes)
