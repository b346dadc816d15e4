"""Repairs stale replicas of a closed file: a power loss has set them back to an older stamp, and HDFS calls the block
corrupt.

Lease recovery has the DataNodes give their replicas a new stamp, and then closes the file; neither step syncs. If all
DataNodes lose their power before the stamp is on their disks, only the NameNode knows it. It then counts every replica as old
and the block as corrupt, and no client call changes that. The bytes are still there, though. The calls that DataNodes make to
each other in a block recovery (InterDatanodeProtocol) give a replica the stamp and length that the NameNode has for the
block, and the replica's report makes the block whole again.

All replicas of a block are prefixes of one stream, and stamp and length are the NameNode's, so two processes that do this at
the same time do the same. A shorter replica is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from bmq.hdfs.blocks import Block, DataNode
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.log.store import StorageUnavailable, StoreError

_log = structlog.get_logger("bmq.hdfs")


async def recover_replicas(
    block: Block, nodes: Iterable[DataNode], *, datanodes: DataNodeRpc, path: str
) -> tuple[DataNode, ...]:
    """Give replicas of a complete block its stamp and length. Returns the nodes whose replicas have them. `path`: for logs."""
    nodes = tuple(nodes)
    results = await asyncio.gather(*(_recover(block, node, datanodes, path) for node in nodes))
    return tuple(node for node, is_recovered in zip(nodes, results, strict=True) if is_recovered)


async def _recover(block: Block, node: DataNode, datanodes: DataNodeRpc, path: str) -> bool:
    try:
        found_bytes = await datanodes.init_recovery(node, block)
    except StorageUnavailable:
        return False
    except StoreError:
        # It was begun under this stamp before, or has that stamp: the next call tells which.
        found_bytes = block.length_bytes
    if found_bytes is None:
        return False
    try:
        if found_bytes >= block.length_bytes:
            await datanodes.end_recovery(node, block)
            return True
        reason = f"it has {found_bytes} bytes of {block.length_bytes}"
    except StoreError as error:
        reason = str(error)
    _log.info("replica_not_recovered", path=path, node=str(node.transfer), reason=reason)
    return False
