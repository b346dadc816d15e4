"""Reads files: which blocks cover a range, where they are, and which error to report when no replica gives it.

Locations are cached by file id (block_cache.py), so reads of known files continue while the NameNode is unreachable. The
cache may be outdated: replicas move, a writer repairs its block under a new stamp, an open file grows or is closed. So a
failed read refreshes the locations and tries once more before its failure is reported.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Final, Protocol

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.block_cache import BlockCache, BlockRange, FileExtents
from bmq.hdfs.blocks import DataNode, FileBlocks, LocatedBlock
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.local_replicas import LocalReplicas
from bmq.hdfs.namenode import is_open
from bmq.hdfs.proto.hdfs_pb2 import HdfsFileStatus
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.read_packets import ReplicaCorrupt, ReplicaShort
from bmq.hdfs.replica_race import ReplicaKey, ReplicaReads, ReplicasFailed, VisibleLengths
from bmq.log.store import CorruptFile, FileMissing, StorageUnavailable, StoreError

READS_AT_ONCE_MAX: Final = 128
SECOND_TRY_SHARE: Final = 0.25  # of read_timeout_s: the least a second try gets; there is none after a timeout
_BY_FILE_ID: Final = "/.reserved/.inodes/"  # a file by its id, whatever its path is now


class Locations(Protocol):
    """The NameNode calls that reading needs."""

    async def locations(self, path: str) -> FileBlocks: ...

    async def file_info(self, path: str) -> HdfsFileStatus | None: ...


class BlockReader:
    """Reads files of one cluster. At most `reads_at_once_max` reads run at a time; the others wait.

    `random` makes this client's name in the DataNodes' logs. `local` None: only DataNodes are asked.
    """

    def __init__(
        self,
        namenode: Locations,
        datanode_rpc: VisibleLengths,
        config: HdfsConfig,
        bad_nodes: BadNodes,
        random: Random,
        counts: ReadCounts,
        *,
        local: LocalReplicas | None = None,
        reads_at_once_max: int = READS_AT_ONCE_MAX,
    ) -> None:
        self._namenode = namenode
        self._local = local
        self._cache = BlockCache()
        self._counts = counts
        self._read_timeout_s = config.read_timeout_s
        self._reads_at_once_max = reads_at_once_max
        self._turns = asyncio.Semaphore(reads_at_once_max)
        self._replicas = ReplicaReads(
            config,
            client_name=f"bmq-reader-{random.getrandbits(64):016x}",
            lengths=datanode_rpc,
            bad_nodes=bad_nodes,
            counts=counts,
        )

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> bytearray | memoryview:
        """Exactly these bytes of a closed file, or of the durable part of an open one; each byte is verified.

        Raises FileMissing (also when `path` names another file), CorruptFile (the file is shorter, or no replica's bytes have
        their checksums), StorageUnavailable (after `read_timeout_s` without an answer, or sooner).
        """
        if length_bytes <= 0:
            return bytearray()
        if self._turns.locked():
            await self._wait_for_turn(path)
        else:
            await self._turns.acquire()
        try:
            data = await self._read(path, file_id, position, length_bytes)
        finally:
            self._turns.release()
        self._counts.reads += 1
        self._counts.bytes += length_bytes
        return data

    async def read_all(self, path: str, *, length_bytes_max: int) -> bytes:
        """A whole closed file. Raises FileMissing, CorruptFile (still open, longer than allowed), StorageUnavailable."""
        status = await self._namenode.file_info(path)
        if status is None or status.file_type != HdfsFileStatus.FileType.IS_FILE:
            raise FileMissing(path)
        if is_open(status):
            raise CorruptFile(f"{path} is still open")
        extents = await self._extents_of(path, status.file_id, status)
        if extents.length_bytes > length_bytes_max:
            raise CorruptFile(f"{path} has {extents.length_bytes} bytes, at most {length_bytes_max} were expected")
        return bytes(await self.read(path, file_id=status.file_id, position=0, length_bytes=extents.length_bytes))

    async def read_replica(
        self, located: LocatedBlock, node: DataNode, *, position: int, length_bytes: int, visible_bytes: int
    ) -> bytearray:
        """A range of one replica, `position` counted in the block; `visible_bytes`: how long the replica is.

        Raises StorageUnavailable, CorruptFile (shorter, or wrong checksums).
        """
        if length_bytes <= 0:
            return bytearray()
        replica = replace(located, block=located.block.with_length(visible_bytes), nodes=(node,))
        wanted = BlockRange(replica, position, length_bytes, is_open=False)
        try:
            data = await self._replicas.read(wanted, None, timeout_s=self._read_timeout_s)
        except ReplicasFailed as failed:
            raise _store_error(failed, f"block {located.block.block_id}", position, length_bytes) from failed
        return data if isinstance(data, bytearray) else bytearray(data)

    def forget(self, file_id: int) -> None:
        """Ask the NameNode again at the next read of this file."""
        self._cache.forget(file_id)

    def close(self) -> None:
        """Close idle connections and local files. Reads under way close theirs."""
        if self._local is not None:
            self._local.close()
        self._replicas.connections.close()

    async def _wait_for_turn(self, path: str) -> None:
        try:
            async with asyncio.timeout(self._read_timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            raise StorageUnavailable(
                f"{path} cannot be read now: {self._reads_at_once_max} reads have been under way"
                f" for {self._read_timeout_s:g} s"
            ) from None

    # --- asking the NameNode

    async def _ask_namenode(self, path: str, file_id: int) -> FileExtents:
        status = await self._namenode.file_info(path)
        if status is None:
            raise FileMissing(path)
        return await self._extents_of(path, file_id, status)

    async def _extents_of(self, path: str, file_id: int, status: HdfsFileStatus) -> FileExtents:
        if status.file_id != file_id:
            raise FileMissing(f"{path} is file {status.file_id} now, not {file_id}")
        if status.HasField("locations") and not is_open(status):
            extents = FileExtents(FileBlocks.of(status.locations))
        else:
            # By id, because the path may have changed hands since the answer above.
            extents = FileExtents(await self._namenode.locations(f"{_BY_FILE_ID}{file_id}"))
        self._cache.put(file_id, extents)
        return extents

    async def _read(self, path: str, file_id: int, position: int, length_bytes: int) -> bytearray | memoryview:
        extents = self._cache.get(file_id)
        is_fresh = extents is None
        if extents is None:
            extents = await self._ask_namenode(path, file_id)
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        left_s = self._read_timeout_s
        corrupt: frozenset[ReplicaKey] = frozenset()
        try:
            return await self._read_extents(path, extents, position, length_bytes, left_s, corrupt)
        except ReplicasFailed as failed:
            self._cache.forget(file_id)
            if failed.is_timed_out:
                raise _store_error(failed, path, position, length_bytes) from failed
            corrupt = failed.corrupt
            left_s = max(left_s - (loop.time() - started_s), left_s * SECOND_TRY_SHARE)
        except CorruptFile:
            if is_fresh and not extents.is_open:
                raise
        self._counts.refreshes += 1
        extents = await self._ask_namenode(path, file_id)
        try:
            return await self._read_extents(path, extents, position, length_bytes, left_s, corrupt)
        except ReplicasFailed as failed:
            self._cache.forget(file_id)
            raise _store_error(failed, path, position, length_bytes) from failed

    async def _read_extents(
        self,
        path: str,
        extents: FileExtents,
        position: int,
        length_bytes: int,
        timeout_s: float,
        corrupt: frozenset[ReplicaKey],
    ) -> bytearray | memoryview:
        """Read a range. Raises CorruptFile when the file ends before the range, as far as `extents` shows; ReplicasFailed."""
        ranges = extents.ranges(position, length_bytes)
        if ranges is None:
            raise CorruptFile(
                f"{path} ends at byte {extents.length_bytes}, {length_bytes} bytes were wanted from byte {position}"
            )
        if len(ranges) == 1:
            return await self._read_range(ranges[0], extents, timeout_s, corrupt)
        data = bytearray(length_bytes)
        at = 0
        for wanted in ranges:
            part = await self._read_range(wanted, extents, timeout_s, corrupt)
            data[at : at + len(part)] = part
            at += len(part)
        return data

    async def _read_range(
        self, wanted: BlockRange, extents: FileExtents, timeout_s: float, corrupt: frozenset[ReplicaKey]
    ) -> bytearray | memoryview:
        """Raises ReplicasFailed."""
        if self._local is not None:
            data = await self._local.read(wanted)
            if data is not None:
                return data
        return await self._replicas.read(wanted, extents, timeout_s=timeout_s, corrupt=corrupt)


def _store_error(failed: ReplicasFailed, what: str, position: int, length_bytes: int) -> StoreError:
    """The error of a failed read. It is CorruptFile only if every replica was corrupt: one that did not answer may be good."""
    where = f"{what}: {length_bytes} bytes from byte {position}"
    if not failed.failures:
        return StorageUnavailable(f"{where}: the NameNode knows no DataNode that has them")
    if all(isinstance(error, (ReplicaCorrupt, ReplicaShort)) for _, error in failed.failures):
        return CorruptFile(f"{where} cannot be read from any replica: {failed}")
    return StorageUnavailable(f"{where} cannot be read now: {failed}")
