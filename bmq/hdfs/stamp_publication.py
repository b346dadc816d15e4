"""A new generation stamp reaches the NameNode: a file that is closed and one that is synced again both need it."""

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
    """Tell the NameNode the stamp and length of `new`, which all replicas of `stream` have; finalize them next.

    `nodes`: those of the stream, and others whose finalized replicas of that length get the stamp next. From then on the
    NameNode refuses to complete the file under an older stamp. `is_sync`: the stream's replicas and their stamp are on disk
    before the NameNode knows the stamp (rule 26): one that only the NameNode still knows after a power loss makes every
    replica an old one, for good. Raises what the NameNode refuses, and the stream's failure.
    """
    if is_sync:
        await stream.send((), is_sync=True)
    await namenode.update_pipeline(holder=holder, old=old, new=new, nodes=nodes)
