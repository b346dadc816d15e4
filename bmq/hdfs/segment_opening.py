"""Opens segment files: creates one, has the NameNode place its block, and connects to every node of it.

If a node cannot be connected, the file is deleted and created again without that node. A block is never abandoned (rule 9),
but an unwritten file in our own directory may be deleted. The new file takes the same name only after the NameNode has
answered the deletion: an answered call was carried out once, because its retries carry one call id that the NameNode's retry
cache knows. When a deletion gets no answer, the opening fails, and its caller does not use the name again (rule 21). With
fewer healthy nodes than wanted, a segment is opened on those that are left; its owner compares `replicas` with what it needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

import structlog

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.block_stream import BlockStream, Stage, StreamOpenFailed
from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.config import BLOCK_BYTES_MIN, HdfsConfig
from bmq.hdfs.errors import NoDataNodes
from bmq.hdfs.lease_renewal import LeaseRenewal
from bmq.hdfs.writer import BlockRecovery, Completing, HdfsWriter
from bmq.log.store import Durability, FencedWriter, FileMissing, StorageUnavailable, StoreError, WriterBroken

OPEN_TRIES_MAX: Final = 6  # with another DataNode left out each time

# A NameNode offers too few DataNodes while it considers some full, or busier than average (until their next
# heartbeats). Two of three are accepted at once. A single one, whose loss would lose the data, is accepted only after
# these pauses, which outlast the usual heartbeat interval; then, for SINGLE_EXPIRY_S, without asking again.
SINGLE_PAUSES_S: Final = (0.5, 1.0, 1.6)
SINGLE_EXPIRY_S: Final = 30.0

_log = structlog.get_logger("bmq.hdfs")


class Creating(Completing, Protocol):
    """The NameNode calls used here."""

    async def create(self, path: str, *, holder: str, block_bytes: int, replication: int) -> int: ...

    async def add_block(
        self,
        path: str,
        *,
        holder: str,
        file_id: int,
        previous: Block | None = None,
        exclude: Sequence[DataNode] = (),
    ) -> LocatedBlock: ...

    async def delete(self, path: str, *, recursive: bool) -> bool: ...


class SegmentOpening:
    """`writers`: writers opened here whose file is neither closed nor abandoned."""

    def __init__(
        self,
        config: HdfsConfig,
        namenode: Creating,
        bad_nodes: BadNodes,
        leases: LeaseRenewal,
        recovery: BlockRecovery,
        *,
        single_pauses_s: Sequence[float] = SINGLE_PAUSES_S,
    ) -> None:
        self.writers: set[HdfsWriter] = set()
        self._config = config
        self._namenode = namenode
        self._bad_nodes = bad_nodes
        self._leases = leases
        self._recovery = recovery
        self._single_pauses_s = single_pauses_s
        self._single_until_s = 0.0

    async def open(
        self, path: str, *, absolute_path: str, holder: str, durability: Durability, segment_bytes: int
    ) -> HdfsWriter:
        """Open a file. Returns a usable writer. `path` is for messages.

        Raises AlreadyExists; FileMissing or FencedWriter when the directory was moved away; StorageUnavailable (NoDataNodes
        among them) when no block could be set up in OPEN_TRIES_MAX tries; StorageFull.
        """
        self._leases.add(holder)
        is_open = False
        try:
            stream, file_id = await self._open_stream(path, absolute_path, holder, durability, segment_bytes)
            is_open = True
        finally:
            if not is_open:
                self._leases.remove(holder)

        def end(writer: HdfsWriter) -> None:
            self.writers.discard(writer)
            self._leases.remove(holder)

        writer = HdfsWriter(
            path=path,
            absolute_path=absolute_path,
            file_id=file_id,
            holder=holder,
            stream=stream,
            durability=durability,
            namenode=self._namenode,
            recovery=self._recovery,
            complete_max_s=self._config.retry_max_s,
            on_end=end,
        )
        self.writers.add(writer)
        return writer

    async def _open_stream(
        self, path: str, absolute_path: str, holder: str, durability: Durability, segment_bytes: int
    ) -> tuple[BlockStream, int]:
        """The stream of a new file's block, and the file's id."""
        namenode = self._namenode
        exclude = {node.uuid: node for node in self._bad_nodes.current()}
        is_fanout: bool | None = None
        block_bytes = self._block_bytes(segment_bytes, durability)
        pauses_s = self._pauses_s()
        reason = ""
        tries = 0
        while tries < OPEN_TRIES_MAX:
            file_id = await namenode.create(
                absolute_path,
                holder=holder,
                block_bytes=block_bytes,
                replication=self._config.replication,
            )
            try:
                located = await namenode.add_block(
                    absolute_path, holder=holder, file_id=file_id, exclude=tuple(exclude.values())
                )
                tries += 1
                stream = await BlockStream.open(
                    located,
                    holder=holder,
                    config=self._config,
                    stage=Stage.PIPELINE_SETUP_CREATE,
                    reserved_bytes=block_bytes,
                    is_fanout=is_fanout,
                    on_lost=self._remember,
                )
            except NoDataNodes:
                await namenode.delete(absolute_path, recursive=False)
                if not exclude:
                    raise
                # All DataNodes are excluded; some may be back by now.
                exclude = {}
                tries += 1
                continue
            except StreamOpenFailed as error:
                reason = str(error)
                _log.warning("block_not_set_up", path=path, reason=reason)
                for node in error.unreachable:
                    self._bad_nodes.add(node)
                exclude |= {node.uuid: node for node in error.failed}
                # A chain does not always tell which node is to blame; connecting to each of them does.
                is_fanout = None if error.failed else True
                await namenode.delete(absolute_path, recursive=False)
                continue
            except (FencedWriter, FileMissing):
                raise  # the directory was moved away: touch nothing
            except StoreError:
                # An open file holds a block on its nodes. The name is not used again, so this may happen late.
                with suppress(StoreError):
                    await namenode.delete(absolute_path, recursive=False)
                raise
            if len(located.nodes) == 1 and self._config.replication - 1 > len(exclude) and pauses_s:
                await self._give_back(stream, absolute_path, holder, file_id)
                await asyncio.sleep(pauses_s.pop(0))
                tries -= 1
                continue
            self._settle_for(path, len(located.nodes))
            return stream, file_id
        raise StorageUnavailable(f"{path}: no block could be set up in {OPEN_TRIES_MAX} tries: {reason}")

    def _block_bytes(self, segment_bytes: int, durability: Durability) -> int:
        """The block size: hardly larger than needed, since every DataNode reserves a whole block for an open segment.

        A block never becomes quite full: a file whose last block is full cannot be reopened to be synced (resync.py).
        The last append may be padded (rule 27).
        """
        chunk_bytes = self._config.checksum_chunk_bytes
        spare_chunks = 3 if durability is Durability.HSYNC else 1
        return (max(segment_bytes, BLOCK_BYTES_MIN) // chunk_bytes + spare_chunks) * chunk_bytes

    async def _give_back(self, stream: BlockStream, absolute_path: str, holder: str, file_id: int) -> None:
        """Close the file, then delete it. A block that no DataNode ever reports counts as space in use for 10 minutes,
        so repeated attempts would themselves make DataNodes look full.
        """
        try:
            await stream.finish()
            await self._namenode.complete(absolute_path, holder=holder, file_id=file_id, last=stream.located.block)
        except WriterBroken:
            pass
        finally:
            stream.abort()
        await self._namenode.delete(absolute_path, recursive=False)

    def _pauses_s(self) -> list[float]:
        """The pauses, in seconds, after which to ask for more DataNodes than one."""
        return [] if asyncio.get_running_loop().time() < self._single_until_s else list(self._single_pauses_s)

    def _settle_for(self, path: str, count: int) -> None:
        if count < self._config.replication:
            _log.warning("fewer_replicas", path=path, replicas=count, wanted=self._config.replication)
        if count == 1 < self._config.replication:
            self._single_until_s = asyncio.get_running_loop().time() + SINGLE_EXPIRY_S

    def _remember(self, node: DataNode, reason: str) -> None:
        _log.warning("datanode_lost", datanode=str(node.transfer), reason=reason)
        self._bad_nodes.add(node)
