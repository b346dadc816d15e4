"""The sole writer of one segment file: one block, written by a `BlockStream`, closed through the NameNode."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from bmq.dataclass import dataclass
from bmq.hdfs.block_stream import BlockStream
from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.proto.hdfs_pb2 import HdfsFileStatus
from bmq.log.store import Buffer, Durability, FencedWriter, FileMissing, WriterBroken

COMPLETE_RETRY_FIRST_S: Final = 0.001
COMPLETE_RETRY_LONGEST_S: Final = 0.25


class Completing(Protocol):
    """The NameNode calls used here."""

    async def complete(self, path: str, *, holder: str, file_id: int, last: Block | None) -> bool: ...

    async def file_info(self, path: str) -> HdfsFileStatus | None: ...


@dataclass(frozen=True, slots=True)
class BrokenSegment:
    """A segment whose stream failed. `absolute_path` and `file_id` name it to the NameNode.

    `located`: the generation that was written. `failed`: nodes known to have failed (none if a pipeline does not name them).
    `acked_bytes`: every node holds at least this much; replicas may be longer. `is_synced`: acknowledged bytes have to be on
    their disks.
    """

    path: str
    absolute_path: str
    file_id: int
    holder: str
    located: LocatedBlock
    failed: tuple[DataNode, ...]
    acked_bytes: int
    is_synced: bool = False


class BlockRecovery(Protocol):
    """Closes a broken segment (rules 7, 9 and 10)."""

    async def mend(self, broken: BrokenSegment) -> tuple[int, int]:
        """The verified length and the number of replicas that have it.

        Raises FencedWriter; StorageUnavailable: call again.
        """


class HdfsWriter:
    """Implements bmq.log.store.SegmentWriter. Made by `SegmentOpening.open`."""

    __slots__ = (
        "__weakref__",
        "_absolute_path",
        "_complete_max_s",
        "_failure",
        "_holder",
        "_is_being_mended",
        "_is_synced_each_time",
        "_length_bytes",
        "_namenode",
        "_on_end",
        "_recovery",
        "_replicas",
        "_stream",
        "file_id",
        "path",
    )

    def __init__(  # noqa: PLR0913
        self,
        *,
        path: str,
        absolute_path: str,
        file_id: int,
        holder: str,
        stream: BlockStream,
        durability: Durability,
        namenode: Completing,
        recovery: BlockRecovery,
        complete_max_s: float,
        on_end: Callable[[HdfsWriter], None],
    ) -> None:
        """`stream` is open and has no bytes yet. `path` is for messages, `absolute_path` for the NameNode.

        `complete_max_s`: how long to ask the NameNode to complete the file. `on_end` is called once, when the file is closed
        or abandoned.
        """
        self.path = path
        self.file_id = file_id
        self._absolute_path = absolute_path
        self._holder = holder
        self._stream = stream
        self._is_synced_each_time = durability is Durability.HSYNC
        self._namenode = namenode
        self._recovery = recovery
        self._complete_max_s = complete_max_s
        self._on_end: Callable[[HdfsWriter], None] | None = on_end
        self._replicas = len(stream.nodes)
        self._length_bytes = -1  # known when closed
        self._is_being_mended = False
        self._failure: FencedWriter | None = None

    @property
    def replicas(self) -> int:
        return self._replicas

    @property
    def accepted_bytes(self) -> int:
        return self._stream.position

    @property
    def is_broken(self) -> bool:
        return self._stream.failure is not None

    def append(self, buffers: Sequence[Buffer]) -> Future[int]:
        # A segment is one block, so a position in the block is one in the file.
        return self._stream.send(buffers, is_sync=self._is_synced_each_time)

    def watch_acks(self, acked: Callable[[tuple[str, ...]], None]) -> None:
        """Implements AckedByNodes."""
        self._stream.watch_acks(acked)

    async def prove_ownership(self) -> None:
        await self._stream.heartbeat()

    async def write_whole(self, data: Buffer) -> int:
        """Write the file's whole content and close it.

        Nothing waits for the data's own acknowledgement: with HSYNC the last packet has each DataNode sync the whole
        replica and its directory, once.
        """
        self._stream.send([data])
        return await self.close()

    async def close(self) -> int:
        """As the port says. After StorageUnavailable it may be called again."""
        if self._failure is not None:
            raise self._failure
        if self._length_bytes >= 0:
            raise WriterBroken(f"{self.path} is closed already")
        if self._is_being_mended:
            # Its block may have a newer stamp by now; only mending goes on from there.
            raise WriterBroken(f"{self.path} is being mended")
        # Acknowledged bytes are on the disks already, but finalizing has to be synced as well: a DataNode that lost
        # power would report a complete block as waiting for recovery, and the NameNode would call it corrupt.
        await self._stream.finish(is_sync=self._is_synced_each_time)
        try:
            await self._complete(self._stream.located.block.with_length(self._stream.position))
            length_bytes = await self._verified()
        except (FencedWriter, FileMissing) as error:
            fenced = FencedWriter(f"{self.path} is no longer ours: {error}")
            self._give_up(fenced)
            raise fenced from error
        # A length below what was acknowledged is passed on as it is: the log's owner must stop for it, not retry.
        self._end(length_bytes)
        return length_bytes

    async def mend(self) -> int:
        if self._failure is not None:
            raise self._failure
        if self._length_bytes >= 0:
            return self._length_bytes
        self._is_being_mended = True
        stream = self._stream
        stream.abort(WriterBroken(f"{self.path} is being mended"))
        broken = BrokenSegment(
            path=self.path,
            absolute_path=self._absolute_path,
            file_id=self.file_id,
            holder=self._holder,
            located=stream.located,
            failed=tuple(stream.failed),
            acked_bytes=stream.acked,
            is_synced=self._is_synced_each_time,
        )
        length_bytes, self._replicas = await self._recovery.mend(broken)
        self._end(length_bytes)
        return length_bytes

    def abandon(self) -> None:
        self._give_up(FencedWriter(f"{self.path} was abandoned"))

    async def _complete(self, last: Block) -> None:
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._complete_max_s
        delay_s = COMPLETE_RETRY_FIRST_S
        # False: no DataNode has reported the finalized replica yet.
        while not await self._namenode.complete(
            self._absolute_path, holder=self._holder, file_id=self.file_id, last=last
        ):
            if loop.time() + delay_s > give_up_s:
                raise WriterBroken(f"{self.path}: the NameNode misses its last block after {self._complete_max_s:g} s")
            await asyncio.sleep(delay_s)
            if self._failure is not None:
                raise self._failure
            delay_s = min(2 * delay_s, COMPLETE_RETRY_LONGEST_S)

    async def _verified(self) -> int:
        """The length by a second status: a successful complete() proves neither it nor our ownership (rule 10)."""
        status = await self._namenode.file_info(self._absolute_path)
        if status is None or status.file_id != self.file_id:
            raise FencedWriter(f"{self.path} is gone: it was moved or deleted before it was closed")
        return status.length

    def _give_up(self, failure: FencedWriter) -> None:
        if self._failure is None:
            self._failure = failure
        self._stream.abort(self._failure)
        self._end(self._length_bytes)

    def _end(self, length_bytes: int) -> None:
        self._length_bytes = length_bytes
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)
