"""The end of a block under a new generation stamp: both a file that is closed and one that is synced again end so."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.hdfs.block_stream import BlockStream
from bmq.hdfs.blocks import Block, DataNode
from bmq.hdfs.namenode import NameNode


async def end_under_new_stamp(
    stream: BlockStream,
    namenode: NameNode,
    *,
    holder: str,
    old: Block,
    new: Block,
    nodes: Sequence[DataNode],
    is_sync: bool,
) -> None:
    """Update the pipeline, then finalize. All replicas on `nodes` have the stamp and the length of `new`.

    `is_sync`: they are on their disks then, and the stamp is before the NameNode hears of it (rule 26): one that only the
    NameNode still knows after a power loss makes every replica an old one, for good. Raises what the NameNode refuses, and
    the stream's failure.
    """
    if is_sync:
        await stream.send((), is_sync=True)
    await namenode.update_pipeline(holder=holder, old=old, new=new, nodes=nodes)
    await stream.finish(is_sync=is_sync)
