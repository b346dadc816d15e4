"""Reads replicas from files of DataNodes on this machine, without the DataNode: half of the copies, and none of its time.

These are Hadoop's legacy short-circuit reads (HDFS-2246). The DataNode names the files of a replica if we are among the users
of `dfs.block.local-path-access.user`. Then the files are opened, and each range is verified by the checksums beside it. Only
finalized replicas are read, because they do not change. If anything fails (another machine, no right, a damaged or missing
file, a disk that hangs), the caller reads from the DataNodes.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import Task
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Final, NamedTuple, ParamSpec, Protocol, TypeVar

import structlog
from cachetools import LRUCache, TTLCache

from bmq.aio.loops import call_soon_unless_closed
from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.block_cache import BlockRange
from bmq.hdfs.blocks import DataNode, LocatedBlock
from bmq.hdfs.datanode_rpc import ReplicaFiles
from bmq.hdfs.errors import ReplicaMissing
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.read_packets import ReplicaCorrupt
from bmq.hdfs.replica_file import ReplicaFile
from bmq.log.store import FileMissing, StoreError

BLOCKS_MAX: Final = 128  # two open files each
PATHS_MAX: Final = 4096  # of blocks that were read: a DataNode is asked once
IDLE_S: Final = 30.0  # a deleted block takes its room for so long
AGAIN_S: Final = 60.0
THREADS: Final = 8
WAITING_MAX: Final = 64  # what waits for a disk; beyond it the DataNodes are asked
INLINE_BYTES_MAX: Final = 1024 * 1024  # read on the event loop, if the page cache has them
_FINALIZED: Final = "/finalized/"

log = structlog.get_logger("bmq.hdfs")

P = ParamSpec("P")
T = TypeVar("T")


class LocalPaths(Protocol):
    """Asks a DataNode for the files of a replica."""

    async def files(self, node: DataNode, located: LocatedBlock, *, timeout_s: float) -> ReplicaFiles: ...


class _BlockKey(NamedTuple):
    pool_id: str
    block_id: int
    generation_stamp: int


class _Held:
    """An open replica. `readers`: threads that read it; it is not closed before they end."""

    __slots__ = ("_close", "file", "is_dropped", "readers", "used_s")

    def __init__(self, file: ReplicaFile, used_s: float, close: Callable[[ReplicaFile], None]) -> None:
        self.file = file
        self._close = close
        self.readers = 0
        self.is_dropped = False
        self.used_s = used_s

    def drop(self) -> None:
        self.is_dropped = True
        self._close_unused()

    def release(self) -> None:
        self.readers -= 1
        self._close_unused()

    def _close_unused(self) -> None:
        if self.is_dropped and not self.readers:
            self._close(self.file)


class LocalReplicas:
    """Keeps recently read replicas open. `timeout_s`: how long a disk or a DataNode may take. After that, DataNodes are
    asked, and the slow one is not used for a while.
    """

    def __init__(self, paths: LocalPaths, counts: ReadCounts, timeout_s: float) -> None:
        self._paths = paths
        self._counts = counts
        self._timeout_s = timeout_s
        self._held: OrderedDict[_BlockKey, _Held] = OrderedDict()
        self._known: LRUCache[_BlockKey, ReplicaFiles] = LRUCache(PATHS_MAX)
        self._finding: dict[_BlockKey, Task[_Held | None]] = {}
        self._nodes_left_out = BadNodes(AGAIN_S)
        self._blocks_left_out: TTLCache[_BlockKey, None] = TTLCache(
            PATHS_MAX, AGAIN_S, timer=lambda: asyncio.get_running_loop().time()
        )
        self._threads = ThreadPoolExecutor(THREADS, "bmq-local-reads")
        self._waiting = 0
        self._expiry: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def read(self, wanted: BlockRange) -> memoryview | None:
        """The range, verified; None: ask the DataNodes. Never raises for a replica's faults."""
        located = wanted.located
        if wanted.is_open or self._is_closed:
            return None
        node = next((node for node in located.nodes if _is_own_address(node.transfer.host)), None)
        if node is None:
            return None
        key = _BlockKey(located.block.pool_id, located.block.block_id, located.block.generation_stamp)
        try:
            data = await self._read(key, node, wanted)
        except Exception as error:  # noqa: BLE001 whatever it is, the DataNodes have the bytes too
            if isinstance(error, ReplicaCorrupt):
                self._counts.checksum_errors += 1
                log.error("replica_corrupt", datanode=str(node.transfer), block=key.block_id, reason=str(error))
            if isinstance(error, TimeoutError):
                self._nodes_left_out.add(node)
            self._give_up(key, node, str(error) or "its disk takes too long")
            return None
        if data is not None:
            self._counts.local_reads += 1
        return data

    async def _read(self, key: _BlockKey, node: DataNode, wanted: BlockRange) -> memoryview | None:
        held = self._held.get(key) or await self._find(key, node, wanted.located)
        if held is None or held.is_dropped:
            return None
        held.used_s = asyncio.get_running_loop().time()
        self._held.move_to_end(key)
        if wanted.length_bytes <= INLINE_BYTES_MAX:
            data = held.file.read_cached(wanted.position, wanted.length_bytes)
            if data is not None:
                return data
        if self._nodes_left_out.is_bad(node):
            return None  # what is in memory needs no disk, the rest does
        return await self._read_in_thread(held, wanted)

    def close(self) -> None:
        """Close everything. Reads under way still end with their answers."""
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        for held in self._held.values():
            held.drop()
        self._held.clear()
        self._threads.shutdown(wait=False)

    # --- finding

    async def _find(self, key: _BlockKey, node: DataNode, located: LocatedBlock) -> _Held | None:
        if self._nodes_left_out.is_bad(node) or key in self._blocks_left_out:
            return None
        task = self._finding.get(key)
        if task is None:
            task = self._finding[key] = asyncio.get_running_loop().create_task(self._open(key, node, located))
            task.add_done_callback(lambda done: self._found(key, done))
        return await asyncio.shield(task)  # other readers wait for it as well

    def _found(self, key: _BlockKey, task: Task[_Held | None]) -> None:
        self._finding.pop(key, None)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: all who waited may have given up

    async def _open(self, key: _BlockKey, node: DataNode, located: LocatedBlock) -> _Held | None:
        """Open the replica's files. Raises TimeoutError, OSError, ReplicaError."""
        files = self._known.get(key) or await self._ask(key, node, located)
        opening = None if files is None else self._submit(ReplicaFile.open, files)
        if opening is None:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                file = await asyncio.wrap_future(opening)
        except (TimeoutError, asyncio.CancelledError):
            opening.add_done_callback(_close_late)
            raise
        except PermissionError as error:
            self._refuse(node, error)
            return None
        if self._is_closed:
            file.close()
            return None
        loop = asyncio.get_running_loop()
        held = self._held[key] = _Held(file, loop.time(), self._close_file)
        if len(self._held) > BLOCKS_MAX:
            self._held.popitem(last=False)[1].drop()
        if self._expiry is None:
            self._expiry = loop.call_later(IDLE_S, self._expire)
        return held

    def _close_file(self, file: ReplicaFile) -> None:
        """Close the file in a thread: if HDFS has deleted the block, this frees its space, which may take long."""
        if self._submit(file.close) is None:
            file.close()

    async def _ask(self, key: _BlockKey, node: DataNode, located: LocatedBlock) -> ReplicaFiles | None:
        try:
            files = await self._paths.files(node, located, timeout_s=self._timeout_s)
        except (FileMissing, ReplicaMissing) as error:
            self._give_up(key, node, str(error))
            return None
        except StoreError as error:
            self._refuse(node, error)
            return None
        if _FINALIZED not in files.data_path or not files.checksums_path.endswith(f"_{key.generation_stamp}.meta"):
            self._blocks_left_out[key] = None  # it is still being written there
            return None
        self._known[key] = files
        return files

    def _expire(self) -> None:
        self._expiry = None
        loop = asyncio.get_running_loop()
        while self._held:
            held = next(iter(self._held.values()))
            if held.used_s > loop.time() - IDLE_S:
                self._expiry = loop.call_at(held.used_s + IDLE_S, self._expire)
                return
            self._held.popitem(last=False)[1].drop()

    # --- reading

    async def _read_in_thread(self, held: _Held, wanted: BlockRange) -> memoryview | None:
        """None: too many wait. Raises TimeoutError, OSError, ReplicaError."""
        reading = self._submit(held.file.read, wanted.position, wanted.length_bytes)
        if reading is None:
            return None
        held.readers += 1
        loop = asyncio.get_running_loop()
        reading.add_done_callback(lambda _: call_soon_unless_closed(loop, held.release))
        async with asyncio.timeout(self._timeout_s):
            return await asyncio.wrap_future(reading)

    def _submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T] | None:
        """Run a function that may wait for a disk in a thread; None: too many wait already, or this is closed."""
        if self._is_closed or self._waiting >= WAITING_MAX:
            return None
        submitted = self._threads.submit(work, *args, **kwargs)
        self._waiting += 1
        loop = asyncio.get_running_loop()
        submitted.add_done_callback(lambda _: call_soon_unless_closed(loop, self._end_waiting))
        return submitted

    def _end_waiting(self) -> None:
        self._waiting -= 1

    # --- what is in the way

    def _refuse(self, node: DataNode, reason: Exception) -> None:
        self._nodes_left_out.add(node)
        log.info("local_reads_refused", datanode=str(node.transfer), reason=str(reason))

    def _give_up(self, key: _BlockKey, node: DataNode, reason: str) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            held.drop()
        self._known.pop(key, None)
        self._blocks_left_out[key] = None
        log.info("local_replica_failed", datanode=str(node.transfer), block=key.block_id, reason=reason)


def _close_late(opening: Future[ReplicaFile]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


@lru_cache(maxsize=PATHS_MAX)
def _is_own_address(host: str) -> bool:
    """Whether the address is this machine's: only such addresses can be bound."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True
