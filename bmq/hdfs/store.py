"""`SegmentStore` on HDFS: the tree through the NameNode, the bytes through the DataNodes.

    store = await HdfsStore.open(config, random)
    writer = await store.create_segment("topics/…/00000003.open/00000000.log", holder=…, …)

One segment is one block, so that the NameNode places each on DataNodes of its own. This module only maps paths, files
and errors of HDFS to the port; segment_opening.py, writer.py, reader.py, mending.py and fencing.py open, write, read,
mend and take over a block.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Final, Self

import structlog

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.blocks import DataNode, FileBlocks, LocatedBlock
from bmq.hdfs.config import BLOCK_BYTES_MIN, HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.errors import LeaseLost, NotADirectory
from bmq.hdfs.file_takeover import ClosingTools, take_over
from bmq.hdfs.lease_renewal import LeaseRenewal
from bmq.hdfs.local_replicas import LocalReplicas
from bmq.hdfs.mending import SegmentMender
from bmq.hdfs.namenode import NameNode, is_open
from bmq.hdfs.namespace_witness import NamespaceWitness
from bmq.hdfs.proto.hdfs_pb2 import HdfsFileStatus
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.reader import BlockReader
from bmq.hdfs.replica_states import LENGTH_BYTES_MAX
from bmq.hdfs.replica_survey import ReplicaSurvey
from bmq.hdfs.security import HadoopSecurity
from bmq.hdfs.segment_opening import SegmentOpening
from bmq.hdfs.writer import HdfsWriter
from bmq.log.store import (
    Buffer,
    CorruptFile,
    Durability,
    FencedWriter,
    FileMissing,
    FileStatus,
    StorageUnavailable,
    StoreError,
    WriterBroken,
)

if TYPE_CHECKING:
    from bmq.hdfs.metrics import HdfsCollector

VISIBLE_LENGTH_WAIT_MAX_S: Final = 1.0

_log = structlog.get_logger("bmq.hdfs")


class HdfsStore:
    """Implements bmq.log.store.SegmentStore. Made by `open`; call `close()` at the end. All calls from one event loop."""

    def __init__(self, config: HdfsConfig, random: Random) -> None:
        self.read_counts = ReadCounts()
        self.namenode = NameNode(config, random)
        if config.security is not None:
            config = _secured(config, config.security, self.namenode)
        self.config = config
        self.bad_nodes = BadNodes(config.bad_node_expiry_s)
        self._datanodes = DataNodeRpc(config)
        self._leases = LeaseRenewal(self.namenode, config.lease_renewal_s)
        local = None
        if config.local_reads and config.security is None:
            local = LocalReplicas(self._datanodes, self.read_counts, config.local_read_timeout_s)
        self._reader = BlockReader(
            self.namenode, self._datanodes, config, self.bad_nodes, random, self.read_counts, local=local
        )
        tools = ClosingTools(self.namenode, self._datanodes, self._reader, config, self.bad_nodes)
        self._opening = SegmentOpening(config, self.namenode, self.bad_nodes, self._leases, SegmentMender(tools))
        self._own_name = f"bmq-{random.getrandbits(64):016x}"  # our client name for lease recovery and resync
        self._went_back = asyncio.Event()
        self._witness = NamespaceWitness(self.namenode, config.root, self._own_name)
        self.namenode.file_ids.went_back = self._end

    @cached_property
    def collector(self) -> HdfsCollector:
        """The store's counters for Prometheus. Only servers load it."""
        from bmq.hdfs.metrics import HdfsCollector

        return HdfsCollector(self.read_counts, self.bad_nodes, self._opening.writers)

    @classmethod
    async def open(cls, config: HdfsConfig, random: Random, *, retry_max_s: float | None = None) -> Self:
        """Returns once the root directory exists and the NameNode accepts changes.

        `retry_max_s`: how long to try; None: as every other call. Raises StorageUnavailable (also in safe mode),
        PermissionRefused, NotADirectory, AuthenticationRequired or another StoreError, each one sentence.
        """
        store = cls(config, random)
        try:
            await store.make_root(retry_max_s=retry_max_s)
        except BaseException:
            await store.close()
            raise
        return store

    async def make_root(self, *, retry_max_s: float | None = None) -> None:
        """The steps that `open` waits for. May be tried again: a login that takes longer than a try goes on meanwhile."""
        await self.namenode.make_directory(self.config.root, with_parents=True, retry_max_s=retry_max_s)

    async def failure(self) -> StoreError:
        """Return once nothing can be done here any more: why. It is looked for while somebody waits here (rule 55)."""
        await self._witness.run(self._went_back)
        error = self.namenode.file_ids.error
        assert error is not None
        return error

    def _end(self) -> None:
        """Acknowledge nothing more: DataNodes go on taking bytes of blocks that HDFS does not have any more."""
        self._went_back.set()
        _log.error("namespace_went_back", reason=str(self.namenode.file_ids.error))
        for writer in tuple(self._opening.writers):
            writer.abandon()

    @property
    def replicas_wanted(self) -> int:
        return self.config.replication

    @property
    def is_reserving(self) -> bool:
        return True

    # --- the tree

    async def make_directory(self, path: str) -> None:
        await self.namenode.make_directory(self._absolute(path), with_parents=False)

    async def make_directories(self, path: str) -> None:
        await self.namenode.make_directory(self._absolute(path), with_parents=True)

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        entries = await self.namenode.listing(self._absolute(path))
        if len(entries) == 1 and not entries[0].path:
            raise FileMissing(f"{path} is a file")
        return tuple(_status(entry.path.decode("utf-8", "replace"), entry) for entry in entries)

    async def status(self, path: str) -> FileStatus | None:
        try:
            found = await self.namenode.file_info(self._absolute(path))
        except NotADirectory:  # something below a file
            return None
        return None if found is None else _status(path.rpartition("/")[2], found)

    async def prove(self, path: str) -> FileStatus | None:
        # With several NameNodes, a replaced one may answer reads from its old state. The proof costs a disk write.
        if len(self.config.namenodes) == 1:
            return await self.status(path)
        try:
            found = await self.namenode.prove(self._absolute(path))
        except NotADirectory:
            return None
        return None if found is None else _status(path.rpartition("/")[2], found)

    async def rename(self, source: str, target: str) -> None:
        await self.namenode.rename(self._absolute(source), self._absolute(target))

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        return await self.namenode.delete(self._absolute(path), recursive=recursive)

    async def locate(self, path: str) -> tuple[str, ...]:
        blocks = await self.namenode.locations(self._absolute(path))
        located = (*blocks.blocks, *((blocks.last,) if blocks.last is not None else ()))
        holding = (block for block in located if block.block.length_bytes or blocks.is_open)
        return tuple(sorted({str(node.transfer) for block in holding for node in block.nodes}))

    async def blocks(self, path: str) -> FileBlocks:
        """The blocks of a file, and on which DataNodes each lies. Raises FileMissing."""
        return await self.namenode.locations(self._absolute(path))

    async def read_replica(self, located: LocatedBlock, node: DataNode, *, position: int, length_bytes: int) -> Buffer:
        """A range of the replica that one DataNode has of a complete block, its checksums verified.

        Raises StorageUnavailable, CorruptFile (shorter, or wrong checksums).
        """
        return await self._reader.read_replica(
            located, node, position=position, length_bytes=length_bytes, visible_bytes=located.block.length_bytes
        )

    def file_part(self, path: str, *, file_id: int, position: int, length_bytes: int) -> None:
        """None: the bytes are on other machines."""

    async def count_replicas(self, path: str) -> int:
        blocks = await self.namenode.locations(self._absolute(path))
        last = blocks.last
        if last is None or (not blocks.is_open and not blocks.length_bytes):
            return self.replicas_wanted  # an empty file has no bytes to lose, so it counts as fully replicated
        survey = ReplicaSurvey(path, datanodes=self._datanodes, bad_nodes=self.bad_nodes, config=self.config)
        return len(await survey.holders(last.nodes, last.block, is_open=not blocks.is_last_complete))

    async def visible_length(self, path: str) -> int:
        blocks = await self.namenode.locations(self._absolute(path))
        last = blocks.last
        if not blocks.is_open or last is None or blocks.is_last_complete:
            return blocks.length_bytes
        for node in last.nodes:
            try:
                visible_bytes = await self._datanodes.visible_length(
                    node, last.block, timeout_s=VISIBLE_LENGTH_WAIT_MAX_S
                )
            except StoreError:
                continue  # down, or it has no replica of this generation: another one may
            if not 0 <= visible_bytes <= LENGTH_BYTES_MAX:
                continue  # it was restarted, and its replica waits to be recovered
            return blocks.length_bytes + visible_bytes
        return blocks.length_bytes

    # --- whole files

    async def write_file(self, path: str, data: Buffer, *, holder: str) -> None:
        """As the port says. An unfinished file is removed, because it would hold a block. Its name is not used again."""
        if not len(data):
            await self._write_empty(path, holder)
            return
        writer = await self._create(path, holder, Durability.HSYNC, BLOCK_BYTES_MIN)
        try:
            async with self._removed_unless_done(path):
                await self._fill(writer, data)
        finally:
            writer.abandon()

    async def _write_empty(self, path: str, holder: str) -> None:
        """Create the file without a block, so no DataNode is involved: a twentieth of the cost.

        An empty file is complete once its name exists, so it is never removed: a late removal could delete the owner
        file of an owner that has claimed its directory since.
        """
        absolute_path = self._absolute(path)
        try:
            file_id = await self.namenode.create(
                absolute_path, holder=holder, block_bytes=BLOCK_BYTES_MIN, replication=self.config.replication
            )
        except NotADirectory as error:
            raise FileMissing(str(error)) from error
        try:
            is_complete = await self.namenode.complete(absolute_path, holder=holder, file_id=file_id, last=None)
        except LeaseLost as error:
            # A newer owner has closed it, in a directory that it moved away: touch nothing.
            raise FencedWriter(f"{path} was taken over while it was written: {error}") from error
        if not is_complete:
            raise StorageUnavailable(f"{path}: the NameNode does not complete the file")

    @asynccontextmanager
    async def _removed_unless_done(self, path: str) -> AsyncIterator[None]:
        """Removes the file if the body fails, unless we are fenced. The removal may be carried out late (rule 21)."""
        try:
            yield
        except (FencedWriter, FileMissing):
            raise  # the directory was moved away: touch nothing
        except StoreError:
            with suppress(StoreError):
                await self.namenode.delete(self._absolute(path), recursive=False)
            raise

    async def _fill(self, writer: HdfsWriter, data: Buffer) -> None:
        try:
            length_bytes = await writer.write_whole(data)
        except WriterBroken as error:
            length_bytes = await writer.mend()
            if length_bytes < len(data):
                raise StorageUnavailable(f"{writer.path} could not be written: {error}") from error
        if length_bytes != len(data):
            raise CorruptFile(f"{writer.path} has {length_bytes} bytes, {len(data)} were written")

    async def read_file(self, path: str, *, length_bytes_max: int) -> bytes:
        self.namenode.file_ids.require_present()
        return await self._reader.read_all(self._absolute(path), length_bytes_max=length_bytes_max)

    # --- segments

    def append_alignment_bytes(self, durability: Durability) -> int:
        return self.config.checksum_chunk_bytes if durability is Durability.HSYNC else 1

    async def create_segment(self, path: str, *, holder: str, durability: Durability, segment_bytes: int) -> HdfsWriter:
        return await self._create(path, holder, durability, segment_bytes)

    async def _create(self, path: str, holder: str, durability: Durability, segment_bytes: int) -> HdfsWriter:
        try:
            return await self._opening.open(
                path,
                absolute_path=self._absolute(path),
                holder=holder,
                durability=durability,
                segment_bytes=segment_bytes,
            )
        except NotADirectory as error:
            raise FileMissing(str(error)) from error

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> Buffer:
        self.namenode.file_ids.require_present()  # blocks that are known by their file's id are not asked for again
        return await self._reader.read(
            self._absolute(path), file_id=file_id, position=position, length_bytes=length_bytes
        )

    async def take_over(
        self, path: str, *, previous_holder: str | None, durability: Durability = Durability.HFLUSH
    ) -> int:
        return await take_over(
            self._absolute(path),
            previous_holder=previous_holder,
            own_holder=self._own_name,
            namenode=self.namenode,
            datanode_rpc=self._datanodes,
            reader=self._reader,
            config=self.config,
            bad_nodes=self.bad_nodes,
            is_sync=durability is Durability.HSYNC,
        )

    async def close(self) -> None:
        """Drop everything; files that are being written stay open for their next owner."""
        for writer in tuple(self._opening.writers):
            writer.abandon()
        await self._witness.remove()
        await self._leases.close()
        self._reader.close()
        self._datanodes.close()
        await self.namenode.close()

    def _absolute(self, path: str) -> str:
        return f"{self.config.root}/{path}" if path else self.config.root


def _secured(config: HdfsConfig, security: HadoopSecurity, namenode: NameNode) -> HdfsConfig:
    """The config with the connector to DataNodes of a secure cluster; unchanged for an open one. Raises BadSecurity."""
    from bmq.hdfs.sasl.secure_connector import SecureConnector

    return replace(config, connector=SecureConnector(security, namenode))


def _status(name: str, found: HdfsFileStatus) -> FileStatus:
    is_directory = found.file_type != HdfsFileStatus.FileType.IS_FILE
    is_being_written = not is_directory and is_open(found)
    length_bytes = 0 if is_directory or is_being_written else found.length
    return FileStatus(name, is_directory, length_bytes, found.file_id, is_being_written, found.modification_time)
