"""Closes a file that its writer left open, acting under the writer's name. A new generation stamp on its block cuts the
writer off, its replicas are made equal, and the file is closed at exactly that length.

Both a new owner (`take_over`) and an owner whose stream broke (mending.py) do this. Under the writer's name it takes some 20 ms; where the
name is not known, or nothing else helps, lease recovery takes seconds. One try is: stamp, equalize,
updatePipeline, finish, complete; then ask again, because a successful complete() proves nothing. The NameNode checks the
writer's name alone, so rivals (the old writer itself, another new owner) can interfere at any point. Each interference makes
the try fail, and the next one asks the NameNode again and takes a still newer stamp. No block is ever abandoned here.

To put a file on disk (rule 26), the last packet asks each DataNode to sync its whole replica. If no such packet was sent (the
replicas were finalized already, or lease recovery or another process closed the file), resync.py syncs the closed file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

import structlog

from bmq.aio.backoff import Backoff
from bmq.dataclass import dataclass
from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.block_stream import BlockStream, Stage, StreamOpenFailed
from bmq.hdfs.blocks import Block, DataNode, FileBlocks, LocatedBlock
from bmq.hdfs.config import BLOCK_BYTES_MIN, HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.errors import AuthenticationRequired, LeaseLost, PermissionRefused, SetupRefused
from bmq.hdfs.lease_recovery import recover_lease
from bmq.hdfs.namenode import NameNode
from bmq.hdfs.reader import BlockReader
from bmq.hdfs.replica_closing import close_replica
from bmq.hdfs.replica_equalization import SourceFailed, equalize
from bmq.hdfs.replica_states import (
    Agreement,
    BytesGone,
    CompleteAsIs,
    Plan,
    RecoverLease,
    Renew,
    SetUpEmpty,
    WaitForNodes,
    agree,
    plan,
)
from bmq.hdfs.replica_survey import ReplicaSurvey
from bmq.hdfs.resync import Resync
from bmq.hdfs.stale_replica_repair import recover_replicas
from bmq.hdfs.stamp_publication import publish_stamp
from bmq.log.store import CorruptFile, FileMissing, StorageUnavailable, StoreError, WriterBroken

TRIES_MAX: Final = 10
BACKOFF_FIRST_S: Final = 0.007
BACKOFF_MAX_S: Final = 0.22
PAUSE_TRIES_MAX: Final = 8
"""A pause is as long as so many tries took, at most: two takers disturb each other's tries, and a slow machine's tries
are long."""
COMPLETE_WAITS_S: Final = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256)
RECOVERED_BYTES_MOST: Final = 1 << 50  # no replica is too long to be recovered

_log = structlog.get_logger("bmq.hdfs")


class LeaseRecoveryNeeded(StoreError):
    """This file cannot be closed under the writer's name; only lease recovery can close it."""


class AcknowledgedBytesGone(CorruptFile):
    """No replica holds all acknowledged bytes. Nothing was closed. `length_bytes`: of the longest replica, according to the
    DataNodes, or of the block, according to the NameNode if the block is complete.
    """

    def __init__(self, reason: str, length_bytes: int) -> None:
        super().__init__(reason)
        self.length_bytes = length_bytes


@dataclass(frozen=True, slots=True)
class ClosingTools:
    """The parts of the store that closing a file uses."""

    namenode: NameNode
    datanodes: DataNodeRpc
    reader: BlockReader
    config: HdfsConfig
    bad_nodes: BadNodes


@dataclass(frozen=True, slots=True)
class Closed:
    """`nodes`: those that hold the whole last block, if this closing completed or synced it; else empty."""

    length_bytes: int
    last: LocatedBlock | None
    nodes: tuple[DataNode, ...]


class FileClosing:
    """One file being closed; used once. `holder`: the client name it was written under; `own_holder`: our own.

    `file_id`: 0 for the file that the path names at first. `least_bytes`: the acknowledged length; shorter replicas are
    not used, and the file is not closed below it. `is_sync`: the closed file must be on the disks of its DataNodes.
    `nodes`: DataNodes that had the block, if the caller knows.
    """

    def __init__(
        self,
        path: str,
        *,
        holder: str,
        own_holder: str,
        tools: ClosingTools,
        file_id: int = 0,
        least_bytes: int = 0,
        is_sync: bool = False,
        nodes: Sequence[DataNode] = (),
    ) -> None:
        self.survey = ReplicaSurvey(path, datanodes=tools.datanodes, bad_nodes=tools.bad_nodes, config=tools.config)
        self._path = path
        self._holder = holder
        self._own_holder = own_holder
        self._tools = tools
        self._namenode = tools.namenode
        self._config = tools.config
        self._file_id = file_id
        self._least_bytes = least_bytes
        self._is_sync = is_sync
        self._known_nodes = nodes
        self._random = Random(f"{own_holder} {path}")  # two takers must not try in step for ever
        self._is_committed = False
        self._is_forgiven = False
        self._expected_bytes: int | None = None  # where our own complete() succeeded
        self._nodes: tuple[DataNode, ...] = ()
        self._synced_block: Block | None = None  # a last packet of ours put it on the disks of all its replicas

    async def close(self) -> Closed:
        """Close the file under its writer's name; by lease recovery when that does not work.

        Raises FileMissing (also when the path names another file than before), StorageUnavailable (call again later),
        CorruptFile (the NameNode counts other bytes than the replicas have), AcknowledgedBytesGone.
        """
        reason = ""
        backoff = Backoff(self._random, first_s=BACKOFF_FIRST_S, max_s=BACKOFF_MAX_S, tries_max=PAUSE_TRIES_MAX)
        loop = asyncio.get_running_loop()
        for _ in range(TRIES_MAX):
            began_s = loop.time()
            blocks = await self.file_blocks()
            if not blocks.is_open:
                return await self._settle(blocks)
            self.survey.has_learned = False
            try:
                await self._try(blocks)
            except LeaseRecoveryNeeded as error:
                reason = str(error)
                break
            except (FileMissing, StorageUnavailable, PermissionRefused, AuthenticationRequired, AcknowledgedBytesGone):
                raise
            except StoreError as error:
                reason = str(error)
                _log.info("closing_is_tried_again", path=self._path, reason=reason)
                if not self.survey.has_learned:
                    await backoff.pause(loop.time() - began_s)
        return await self.recover(reason)

    async def recover(self, reason: str) -> Closed:
        """Close the file by lease recovery. `reason`: why that is needed, for the log. Raises as `close`."""
        blocks = await self.file_blocks()
        if blocks.is_open:
            _log.warning("lease_recovery", path=self._path, reason=reason)
            self._expected_bytes = None
            self._nodes = ()
            await recover_lease(self._path, own_holder=self._own_holder, namenode=self._namenode, config=self._config)
            blocks = await self.file_blocks()
            if blocks.is_open:
                raise StorageUnavailable(f"{self._path} is still open after its lease was recovered")
        return await self._settle(blocks)

    async def file_blocks(self) -> FileBlocks:
        """The file as the NameNode shows it now. Raises FileMissing."""
        status = await self._namenode.file_info(self._path)
        if status is None or status.file_type != status.FileType.IS_FILE:
            raise FileMissing(f"{self._path}: no such file")
        if self._file_id and status.file_id != self._file_id:
            raise FileMissing(f"{self._path} names another file now")
        self._file_id = status.file_id
        return FileBlocks.of(status.locations)

    async def _settle(self, blocks: FileBlocks) -> Closed:
        """The closed file, on disk if `is_sync`."""
        if blocks.last is not None and blocks.last.is_corrupt:
            blocks = await self._recovered(blocks, blocks.last)
        closed = self._verified(blocks)
        last = closed.last
        if not self._is_sync or last is None or closed.length_bytes == 0 or last.block == self._synced_block:
            return closed
        resync = Resync(
            self._path,
            file_id=self._file_id,
            length_bytes=closed.length_bytes,
            holder=self._own_holder,
            namenode=self._namenode,
            config=self._config,
            bad_nodes=self._tools.bad_nodes,
        )
        nodes = await resync.run(closed.nodes or self._known_nodes)
        _log.info("closed_file_synced", path=self._path, length_bytes=closed.length_bytes, nodes=len(nodes))
        self._expected_bytes = closed.length_bytes
        return replace(self._verified(await self.file_blocks()), nodes=nodes)

    async def _recovered(self, blocks: FileBlocks, last: LocatedBlock) -> FileBlocks:
        """Repair the last block of a closed file if the NameNode counts all its replicas as corrupt, perhaps after a power
        loss.

        Returns the file as it is then, whether or not that has helped.
        """
        nodes = {node.uuid: node for node in (*self._known_nodes, *last.nodes)}
        recovered = await recover_replicas(last.block, nodes.values(), datanodes=self._tools.datanodes, path=self._path)
        if not recovered:
            return blocks
        _log.warning("replicas_recovered", path=self._path, nodes=[str(node.transfer) for node in recovered])
        for wait_s in (0.0, *COMPLETE_WAITS_S):
            await asyncio.sleep(wait_s)
            blocks = await self.file_blocks()
            if blocks.is_open:
                raise StorageUnavailable(f"{self._path} was opened again while its replicas were recovered")
            if blocks.last is None or not blocks.last.is_corrupt:
                break
        return blocks

    def _verified(self, blocks: FileBlocks) -> Closed:
        """The second check of the lengths: only the NameNode's answer now counts (rules 3 and 10)."""
        length_bytes = blocks.length_bytes
        if self._expected_bytes is not None and length_bytes != self._expected_bytes:
            raise CorruptFile(
                f"{self._path} was closed at {self._expected_bytes} bytes, the NameNode says {length_bytes}"
            )
        return Closed(length_bytes, blocks.last, self._nodes)

    # --- one try

    async def _try(self, blocks: FileBlocks) -> None:
        """Try once. Raises StoreError when it did not work; the next try keeps what this one learned."""
        self._expected_bytes = None
        self._nodes = ()
        last = blocks.last
        try:
            if last is None:
                # False says that the writer just added a block.
                await self._complete(None, 0, waits_s=())
            elif blocks.is_last_complete:
                # Its writer's complete() came before the DataNodes' reports, and was not repeated.
                self._check_least(last.block.length_bytes)
                await self._complete(last.block, last.offset + last.block.length_bytes)
            elif self._is_committed:
                await self._complete_committed(last)
            else:
                await self._close_block(last, plan(self.survey.replicas(last), least_bytes=self._least_bytes))
        except LeaseLost as error:
            raise self._meaning(error) from error

    def _meaning(self, error: LeaseLost) -> StoreError:
        text = str(error)
        if "is COMMITTED but not" in text:
            self._is_committed = self.survey.has_learned = True
        elif "LeaseExpired" in text or "UNDER_RECOVERY" in text or "not the lease owner" in text:
            return LeaseRecoveryNeeded(text)
        return WriterBroken(text)

    async def _close_block(self, last: LocatedBlock, steps: Plan) -> None:
        match steps:
            case Renew():
                await self._renew(last, steps)
            case CompleteAsIs(nodes, length_bytes):
                await self._complete(last.block.with_length(length_bytes), last.offset + length_bytes)
                self._nodes = nodes
            case SetUpEmpty(nodes):
                new = await self._fence_by_new_stamp(last)
                stream = await self._open(
                    replace(new, nodes=nodes), Stage.PIPELINE_SETUP_CREATE, last.block, new_stamp=0
                )
                try:
                    block = new.block.with_length(0)
                    await self._publish(last, block, stream, nodes)
                    await stream.finish(is_sync=self._is_sync)
                    await self._complete(block, last.offset)
                    self._nodes = nodes
                finally:
                    stream.abort()
            case RecoverLease(reason):
                raise LeaseRecoveryNeeded(reason)
            case BytesGone(length_bytes):
                self._check_least(length_bytes)
            case WaitForNodes():
                nodes_text = ", ".join(str(node.transfer) for node in last.nodes)
                reason = f"{self._path}: none of its DataNodes ({nodes_text}) that may hold all of it answers"
                if self._is_forgiven:
                    raise StorageUnavailable(reason)
                # If all are silent at once, this machine may have stood still.
                self._is_forgiven = True
                self.survey.retry_all()
                raise WriterBroken(reason)

    def _check_least(self, length_bytes: int) -> None:
        if length_bytes < self._least_bytes:
            raise AcknowledgedBytesGone(
                f"{self._path}: {self._least_bytes} bytes were acknowledged, its block has {length_bytes}", length_bytes
            )

    async def _renew(self, last: LocatedBlock, steps: Renew) -> None:
        """The usual way: new stamp, equalize, close."""
        new = await self._fence_by_new_stamp(last)
        stamp = new.block.generation_stamp
        assert self.survey.oldest is not None
        # Nodes that are listed no longer may have the first stamp still, the others have at least the newest.
        old = replace(new, block=self.survey.oldest.block.with_length(self._least_bytes))
        stream = await self._open(
            old.with_nodes(steps.writable), Stage.PIPELINE_SETUP_STREAMING_RECOVERY, last.block, new_stamp=stamp
        )
        try:
            lengths = await self.survey.lengths(steps.writable, new.block)
            agreement = agree(lengths, steps.settled, chunk_bytes=self._config.checksum_chunk_bytes)
            await self._equalize(stream, old.for_reading(last.block), agreement)
            block = new.block.with_length(agreement.length_bytes)
            await self._publish(last, block, stream, (*steps.writable, *agreement.settled))
            # Not earlier (rule 10): a rival could still complete the file on finalized replicas under an older stamp.
            settled = await self._close_settled(old, agreement, stamp)
            await stream.finish(is_sync=self._is_sync)
            await self._complete(block, last.offset + agreement.length_bytes)
            self._nodes = (*steps.writable, *settled)
            if self._is_sync and not settled:
                self._synced_block = block
        finally:
            stream.abort()

    async def _fence_by_new_stamp(self, last: LocatedBlock) -> LocatedBlock:
        return await self._namenode.bump(last.block, holder=self._holder)

    async def _open(self, located: LocatedBlock, stage: Stage, listed: Block, *, new_stamp: int) -> BlockStream:
        """Open the stream, always as fan-out, because the replicas have to be distinguished. Raises StreamOpenFailed, once
        its causes are known.
        """
        is_recovery = new_stamp > 0
        try:
            return await BlockStream.open(
                located,
                holder=self._holder,
                config=self._config,
                stage=stage,
                new_stamp=new_stamp,
                bytes_least=self._least_bytes if is_recovery else 0,
                bytes_most=RECOVERED_BYTES_MOST if is_recovery else 0,
                reserved_bytes=0 if is_recovery else BLOCK_BYTES_MIN,
                is_fanout=True,
                on_lost=self.survey.lost,
            )
        except StreamOpenFailed as error:
            for node in error.unreachable:
                self.survey.lost(node, str(error))
            refused = [node for node in error.failed if node not in error.unreachable]
            if refused:
                await self.survey.refused(refused, listed)
            raise

    async def _equalize(self, stream: BlockStream, old: LocatedBlock, agreement: Agreement) -> None:
        try:
            await equalize(stream, old, agreement, reader=self._tools.reader, config=self._config)
        except SourceFailed as error:
            self.survey.lost(agreement.source, str(error))
            raise

    async def _close_settled(self, old: LocatedBlock, agreement: Agreement, stamp: int) -> tuple[DataNode, ...]:
        """Finalize the settled replicas under `stamp`. Returns the nodes that did. If one fails, the others have its bytes."""
        results = await asyncio.gather(
            *(
                close_replica(
                    old,
                    node,
                    holder=self._holder,
                    new_stamp=stamp,
                    length_bytes=agreement.length_bytes,
                    config=self._config,
                )
                for node in agreement.settled
            ),
            return_exceptions=True,
        )
        closed: list[DataNode] = []
        for node, result in zip(agreement.settled, results, strict=True):
            if result is None:
                closed.append(node)
            elif isinstance(result, SetupRefused):
                if result.is_unreachable:
                    self.survey.lost(node, str(result))
            else:
                raise result
        return tuple(closed)

    async def _publish(self, last: LocatedBlock, new: Block, stream: BlockStream, nodes: Sequence[DataNode]) -> None:
        await publish_stamp(
            stream,
            self._namenode,
            holder=self._holder,
            old=last.block,
            new=new,
            nodes=nodes,
            is_sync=self._is_sync,
        )

    async def _complete_committed(self, last: LocatedBlock) -> None:
        """The block is COMMITTED: complete the file if all replicas have that length. Raises LeaseRecoveryNeeded."""
        length_bytes = last.block.length_bytes
        self._check_least(length_bytes)
        nodes = self.survey.answering(last)
        lengths = await self.survey.lengths(nodes, last.block)
        if set(lengths.values()) != {length_bytes}:
            found = ", ".join(str(size) for size in sorted(lengths.values())) or "none that answer"
            raise LeaseRecoveryNeeded(f"committed at {length_bytes} bytes, the replicas have {found}")
        await self._complete(last.block, last.offset + length_bytes)
        self._nodes = nodes

    async def _complete(
        self, last: Block | None, expected_bytes: int, *, waits_s: Sequence[float] = COMPLETE_WAITS_S
    ) -> None:
        """`expected_bytes`: the file's length afterwards. Raises WriterBroken when complete() stays False."""
        for wait_s in (*waits_s, None):
            if await self._namenode.complete(self._path, holder=self._holder, file_id=self._file_id, last=last):
                self._expected_bytes = expected_bytes
                return
            if wait_s is not None:
                await asyncio.sleep(wait_s)
        raise WriterBroken(f"{self._path}: the NameNode does not complete the file at {expected_bytes} bytes")


async def take_over(  # noqa: PLR0913
    path: str,
    *,
    previous_holder: str | None,
    own_holder: str,
    namenode: NameNode,
    datanode_rpc: DataNodeRpc,
    reader: BlockReader,
    config: HdfsConfig,
    bad_nodes: BadNodes,
    is_sync: bool = False,
) -> int:
    """Close the file at `path` (absolute) that an older owner left open, and fence its writer for good (rules 1 to 3, 9 and 10).

    Returns its verified length in bytes; also if it is closed already. Only the NameNode's second answer, after the file is closed, says
    where it ends.
    `previous_holder`: the name it was written under; None or empty: lease recovery. `is_sync`: also put it on the disks of
    all its DataNodes, even if it was closed already (an earlier try may have ended in between). Raises FileMissing,
    CorruptFile, and StorageUnavailable: none of its DataNodes answers, or lease recovery takes longer than
    `config.lease_recovery_max_s`, so call again.
    """
    closing = FileClosing(
        path,
        holder=previous_holder or own_holder,
        own_holder=own_holder,
        tools=ClosingTools(namenode, datanode_rpc, reader, config, bad_nodes),
        is_sync=is_sync,
    )
    if not previous_holder:
        return (await closing.recover("the name of its writer is not known")).length_bytes
    return (await closing.close()).length_bytes
