"""A DataNode that only serves reads, and misbehaves on order; and the NameNode and lengths that belong to it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from struct import pack

from crc32c import crc32c

from bmq.hdfs.blocks import Block, DataNode, FileBlocks, LocatedBlock
from bmq.hdfs.config import Address
from bmq.hdfs.delimited import varint
from bmq.hdfs.packets import packet_head
from bmq.hdfs.proto.hdfs_pb2 import DatanodeId, DatanodeInfo, HdfsFileStatus, LocatedBlocks
from bmq.hdfs.proto.hdfs_pb2 import LocatedBlock as LocatedBlockMessage
from bmq.hdfs.proto.transfer_pb2 import (
    BlockOpResponse,
    Checksum,
    ChecksumType,
    ClientReadStatus,
    OpReadBlock,
    ReadOpChecksumInfo,
    TransferStatus,
)
from bmq.log.store import FileMissing, StorageUnavailable
from tests.support.waiting import until

NEVER = asyncio.Event  # a gate that nobody opens
CRC: dict[int, Callable[[bytes], int]] = {ChecksumType.CHECKSUM_CRC32: zlib.crc32, ChecksumType.CHECKSUM_CRC32C: crc32c}


def delimited(message: bytes) -> bytes:
    return varint(len(message)) + message


def success(chunk_offset: int, chunk_bytes: int, checksum_type: int = ChecksumType.CHECKSUM_CRC32C) -> bytes:
    checksum = Checksum(type=checksum_type, bytes_per_checksum=chunk_bytes)  # type: ignore[arg-type]
    info = ReadOpChecksumInfo(checksum=checksum, chunk_offset=chunk_offset)
    return delimited(BlockOpResponse(status=TransferStatus.SUCCESS, read_op_checksum_info=info).SerializeToString())


def refusal(message: str, status: int = TransferStatus.ERROR) -> bytes:
    return delimited(BlockOpResponse(status=status, message=message).SerializeToString())  # type: ignore[arg-type]


def packet(
    data: bytes, *, offset: int, seqno: int, chunk_bytes: int, checksum_type: int = ChecksumType.CHECKSUM_CRC32C
) -> bytes:
    crc = CRC[checksum_type]
    checksums = [crc(data[at : at + chunk_bytes]) for at in range(0, len(data), chunk_bytes)]
    head = packet_head(offset=offset, seqno=seqno, data_bytes=len(data), checksum_count=len(checksums))
    return head + pack(f">{len(checksums)}I", *checksums) + data


def end_packet(offset: int, seqno: int) -> bytes:
    return packet_head(offset=offset, seqno=seqno, data_bytes=0, is_last=True)


def answer(
    content: bytes,
    position: int,
    length_bytes: int,
    *,
    chunk_bytes: int = 4096,
    packet_bytes: int = 65536,
    checksum_type: int = ChecksumType.CHECKSUM_CRC32C,
) -> list[bytes]:
    """What a DataNode sends for a range of a replica, in pieces: the response, packets, the empty one."""
    start = position // chunk_bytes * chunk_bytes
    end = min(-(-(position + length_bytes) // chunk_bytes) * chunk_bytes, len(content))
    step = max(packet_bytes // chunk_bytes, 1) * chunk_bytes
    pieces = [success(start, chunk_bytes, checksum_type)]
    for seqno, offset in enumerate(range(start, end, step)):
        data = content[offset : min(offset + step, end)]
        pieces.append(packet(data, offset=offset, seqno=seqno, chunk_bytes=chunk_bytes, checksum_type=checksum_type))
    return [*pieces, end_packet(end, len(pieces) - 1)]


@dataclass
class Behaviour:
    """`gate`: nothing is answered before it opens; `stop_after`, `drop_after`: so many pieces of an answer are sent, then
    nothing more, or the connection is closed; `rewrite` changes the pieces; `keeps` False: closed after each read.
    """

    gate: asyncio.Event | None = None
    stop_after: int | None = None
    drop_after: int | None = None
    rewrite: Callable[[list[bytes]], list[bytes]] | None = None
    refuse: str | None = None
    keeps: bool = True


@dataclass
class ReadingDataNode:
    """`replicas`: contents by block id. `behaviours`: for the next reads, one each; then `behaviour`.

    `sent_count`: answers that were sent as far as `stop_after`.
    """

    name: str
    replicas: dict[int, bytes] = field(default_factory=dict)
    chunk_bytes: int = 4096
    packet_bytes: int = 65536
    checksum_type: int = ChecksumType.CHECKSUM_CRC32C
    behaviour: Behaviour = field(default_factory=Behaviour)
    behaviours: list[Behaviour] = field(default_factory=list)
    requests: list[OpReadBlock] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    connection_count: int = 0
    open_count: int = 0
    sent_count: int = 0
    _server: asyncio.Server | None = None
    _handlers: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def node(self) -> DataNode:
        assert self._server is not None
        address = self._server.sockets[0].getsockname()
        return DataNode(self.name, Address(address[0], address[1]), Address(address[0], 1))

    async def until(self, is_so: Callable[[ReadingDataNode], bool]) -> None:
        await until(lambda: is_so(self))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.connection_count += 1
        self.open_count += 1
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._handlers.discard(task)
            self.open_count -= 1

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        assert await reader.readexactly(3) == b"\x00\x1c\x51"
        request = OpReadBlock.FromString(await _read_delimited(reader))
        self.requests.append(request)
        behaviour = self.behaviours.pop(0) if self.behaviours else self.behaviour
        if behaviour.gate is not None:
            await _first_of(behaviour.gate.wait(), reader.read(1))
            if not behaviour.gate.is_set():
                return False
        content = self.replicas.get(request.header.base_header.block.block_id)
        if behaviour.refuse is not None or content is None:
            writer.write(refusal(behaviour.refuse or "received exception ReplicaNotFoundException: no such replica"))
            await writer.drain()
            return False
        wanted_end = request.offset + request.len
        if wanted_end > len(content):
            writer.write(
                refusal(f"java.io.IOException: Need {wanted_end} bytes, but only {len(content)} bytes available")
            )
            await writer.drain()
            return False
        pieces = answer(
            content,
            request.offset,
            request.len,
            chunk_bytes=self.chunk_bytes,
            packet_bytes=self.packet_bytes,
            checksum_type=self.checksum_type,
        )
        if behaviour.rewrite is not None:
            pieces = behaviour.rewrite(pieces)
        if behaviour.stop_after is not None:
            writer.write(b"".join(pieces[: behaviour.stop_after]))
            self.sent_count += 1
            await reader.read(1)
            return False
        if behaviour.drop_after is not None:
            writer.write(b"".join(pieces[: behaviour.drop_after]))
            await writer.drain()
            return False
        writer.write(b"".join(pieces))
        await writer.drain()
        self.statuses.append(ClientReadStatus.FromString(await _read_delimited(reader)).status)
        return behaviour.keeps


async def _read_delimited(reader: asyncio.StreamReader) -> bytes:
    size_bytes = shift = 0
    while True:
        byte = (await reader.readexactly(1))[0]
        size_bytes |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return await reader.readexactly(size_bytes)


async def _first_of(*waits: object) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]  # type: ignore[call-overload]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def datanodes(count: int = 3, **replicas: bytes) -> AsyncIterator[list[ReadingDataNode]]:
    """`replicas`: `b7=content` puts block 7 on each of them."""
    blocks = {int(name.removeprefix("b")): content for name, content in replicas.items()}
    nodes = [ReadingDataNode(f"uuid-{index}", dict(blocks)) for index in range(count)]
    for node in nodes:
        await node.start()
    try:
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


def located(
    nodes: Sequence[ReadingDataNode], *, block_id: int = 7, length_bytes: int, offset: int = 0, stamp: int = 1000
) -> LocatedBlock:
    block = Block("pool", block_id, stamp, length_bytes)
    return LocatedBlock(block, offset, tuple(node.node for node in nodes))


def closed_file(*blocks: LocatedBlock) -> FileBlocks:
    length_bytes = sum(block.block.length_bytes for block in blocks)
    return FileBlocks(length_bytes, False, blocks, blocks[-1] if blocks else None, True)


def open_file(*blocks: LocatedBlock) -> FileBlocks:
    """The last block is being written."""
    length_bytes = sum(block.block.length_bytes for block in blocks[:-1])
    return FileBlocks(length_bytes, True, blocks, blocks[-1] if blocks else None, False)


class FakeNameNode:
    """Files by path: their id and blocks. `on_look` is called before each answer about locations."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, FileBlocks]] = {}
        self.is_down = False
        self.look_count = 0
        self.on_look: Callable[[], None] = lambda: None

    async def file_info(self, path: str) -> HdfsFileStatus | None:
        self._check_up()
        found = self.files.get(path)
        if found is None:
            return None
        status = HdfsFileStatus(file_type=HdfsFileStatus.FileType.IS_FILE, file_id=found[0])
        if found[1].is_open:  # the end of such a file is not in this answer
            status.locations.CopyFrom(LocatedBlocks(under_construction=True))
        else:
            self._look()
            status.locations.CopyFrom(message_of(self.files[path][1]))
        return status

    async def locations(self, path: str) -> FileBlocks:
        self._check_up()
        self._look()
        for file_id, blocks in self.files.values():
            if path == f"/.reserved/.inodes/{file_id}":
                return blocks
        raise FileMissing(path)

    def _look(self) -> None:
        self.look_count += 1
        self.on_look()

    def _check_up(self) -> None:
        if self.is_down:
            raise StorageUnavailable("no NameNode answers")


def message_of(blocks: FileBlocks) -> LocatedBlocks:
    """As a NameNode says it."""
    return LocatedBlocks(
        file_length=blocks.length_bytes,
        under_construction=blocks.is_open,
        blocks=[
            LocatedBlockMessage(
                block=block.block.message(),
                offset=block.offset,
                locs=[
                    DatanodeInfo(
                        id=DatanodeId(
                            ip_addr=node.transfer.host,
                            host_name=node.transfer.host,
                            datanode_uuid=node.uuid,
                            xfer_port=node.transfer.port,
                            info_port=0,
                            ipc_port=node.ipc.port,
                        )
                    )
                    for node in block.nodes
                ],
                corrupt=block.is_corrupt,
                block_token=block.token,
            )
            for block in blocks.blocks
        ],
        is_last_block_complete=blocks.is_last_complete,
    )


class FakeLengths:
    """What each DataNode says about the length of an open block; a missing one does not answer at all."""

    def __init__(self, **lengths: int) -> None:
        self.lengths = dict(lengths)
        self.asked: list[str] = []
        self.failures: dict[str, StorageUnavailable] = {}

    async def visible_length(self, node: DataNode, block: Block) -> int:
        self.asked.append(node.uuid)
        if node.uuid in self.failures:
            raise self.failures[node.uuid]
        if node.uuid not in self.lengths:
            await asyncio.Event().wait()
        return self.lengths[node.uuid]
