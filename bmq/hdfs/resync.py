"""Puts a closed file on the disks of its DataNodes (rule 26), without changing a byte of it.

HDFS has no call for that. But a file can be reopened for append, and the last packet of an append can ask each DataNode to
sync its whole replica before it finalizes it. So append nothing, under a new stamp, and close. The file shows as open for
some 10 ms meanwhile; readers are not affected.

The append uses our own name, not the writer's: lease recovery has fenced that writer, and it must stay fenced. If we die in
between, only lease recovery can close the file for the next owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import structlog

from bmq.dataclass import dataclass
from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.block_stream import BlockStream, Stage, StreamOpenFailed
from bmq.hdfs.blocks import DataNode, LocatedBlock
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.errors import AuthenticationRequired, PermissionRefused
from bmq.hdfs.namenode import NameNode
from bmq.hdfs.stamp_publication import publish_stamp
from bmq.log.store import CorruptFile, FileMissing, StorageUnavailable, StoreError

COMPLETE_WAITS_S: Final = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.5)

_log = structlog.get_logger("bmq.hdfs")


@dataclass(frozen=True, slots=True)
class Resync:
    """One closed file. `holder`: the client name that reopens it. `length_bytes`: the length it was closed at."""

    path: str
    file_id: int
    length_bytes: int
    holder: str
    namenode: NameNode
    config: HdfsConfig
    bad_nodes: BadNodes

    async def run(self, known: Iterable[DataNode]) -> tuple[DataNode, ...]:
        """Sync the file. Returns the nodes that have all of it on disk. `known`: nodes that held it; the NameNode may list
        fewer.

        A node that does not answer is left out, and its replica is stale from then on. Raises StorageUnavailable (the file
        may be open now: close it again), FileMissing, CorruptFile.
        """
        try:
            last = await self.namenode.append(self.path, holder=self.holder)
            if last is None:
                # Its block is exactly full, so nothing can be appended to it. Only older releases made such files.
                _log.warning(
                    "file_not_synced", path=self.path, reason="its block is full, so it cannot be opened again"
                )
                await self._complete(None)
                return ()
            return await self._sync(last, known)
        except (FileMissing, StorageUnavailable, PermissionRefused, AuthenticationRequired, CorruptFile):
            raise
        except StoreError as error:
            raise StorageUnavailable(f"{self.path} could not be synced: {error}") from error

    async def _sync(self, last: LocatedBlock, known: Iterable[DataNode]) -> tuple[DataNode, ...]:
        if last.block.length_bytes != self.length_bytes - last.offset:
            raise CorruptFile(
                f"{self.path} has a last block of {last.block.length_bytes} bytes, not {self.length_bytes}"
            )
        nodes = {node.uuid: node for node in (*known, *last.nodes)}
        stream = None
        while stream is None:
            if not nodes:
                raise StorageUnavailable(f"{self.path}: none of its DataNodes answers")
            new = await self.namenode.bump(last.block, holder=self.holder)
            try:
                stream = await self._open(last, new, tuple(nodes.values()))
            except StreamOpenFailed as error:
                for node in error.unreachable:
                    self.bad_nodes.add(node)
                if not error.failed:
                    raise
                _log.warning("datanodes_left_out", path=self.path, reason=str(error))
                nodes = {uuid: node for uuid, node in nodes.items() if node not in error.failed}
        try:
            block = new.block.with_length(last.block.length_bytes)
            await stream.send_at(block.length_bytes, b"")
            await publish_stamp(
                stream,
                self.namenode,
                holder=self.holder,
                old=last.block,
                new=block,
                nodes=stream.nodes,
                is_sync=True,
            )
            await stream.finish(is_sync=True)
            await self._complete(replace(last, block=block))
            return stream.nodes
        finally:
            stream.abort()

    async def _open(self, last: LocatedBlock, new: LocatedBlock, nodes: tuple[DataNode, ...]) -> BlockStream:
        """Give each node the new stamp. A node refuses it unless its replica has exactly this length."""
        return await BlockStream.open(
            replace(new, block=last.block, nodes=nodes),
            holder=self.holder,
            config=self.config,
            stage=Stage.PIPELINE_SETUP_APPEND_RECOVERY,
            new_stamp=new.block.generation_stamp,
            bytes_least=last.block.length_bytes,
            bytes_most=last.block.length_bytes,
            is_fanout=True,
            on_lost=lambda node, _: self.bad_nodes.add(node),
        )

    async def _complete(self, last: LocatedBlock | None) -> None:
        block = None if last is None else last.block
        for wait_s in (*COMPLETE_WAITS_S, None):
            if await self.namenode.complete(self.path, holder=self.holder, file_id=self.file_id, last=block):
                return
            if wait_s is not None:
                await asyncio.sleep(wait_s)
        raise StorageUnavailable(f"{self.path}: the NameNode does not complete the file after it was synced")
