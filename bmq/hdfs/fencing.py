"""A new owner closes files that an older one left open, and fences that writer for good (rules 1 to 3, 9 and 10).

Under the old writer's name this takes some 20 ms. Where the name is not known, or nothing else helps, lease recovery takes
seconds. Either way only the NameNode's second answer says where the file ends.
"""

from __future__ import annotations

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.file_closing import ClosingTools, FileClosing
from bmq.hdfs.namenode import NameNode
from bmq.hdfs.reader import BlockReader


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
    """Close the file at `path` (absolute). Returns its verified length in bytes; also if it is closed already.

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
