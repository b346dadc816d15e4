"""Tells the NameNode a new generation stamp, when a file is closed or synced again."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.hdfs.block_stream import BlockStream
from bmq.hdfs.blocks import Block, DataNode
from bmq.hdfs.namenode import NameNode


async def publish_stamp(
    stream: BlockStream,
    namenode: NameNode,
    *,
    holder: str,
    old: Block,
    new: Block,
    nodes: Sequence[DataNode],
    is_sync: bool,
) -> None:
    """Tell the NameNode the stamp and length of `new`, which all replicas of `stream` have. Finalize them next.

    `nodes`: those of the stream, and others whose finalized replicas of that length get the stamp next. From then on the
    NameNode refuses to complete the file under an older stamp. `is_sync`: the stream's replicas and their stamp are on disk
    before the NameNode knows the stamp (rule 26). Otherwise a power loss could leave only the NameNode with the stamp, and
    every replica would count as old for good. Raises the NameNode's refusal, and the stream's failure.
    """
    if is_sync:
        await stream.send((), is_sync=True)
    await namenode.update_pipeline(holder=holder, old=old, new=new, nodes=nodes)
