"""Finalizes one replica under a new generation stamp, without sending data (PIPELINE_CLOSE_RECOVERY).

For a replica that is finalized already, or whose writer stopped at exactly the length given; its writer is cut off. The
DataNode answers and closes the connection.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.hdfs.blocks import DataNode, LocatedBlock
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.datanode_connection import DataNodeConnection
from bmq.hdfs.packets import Ack
from bmq.hdfs.proto.hdfs_pb2 import StorageType
from bmq.hdfs.proto.transfer_pb2 import BaseHeader, Checksum, ChecksumType, ClientOperationHeader, OpWriteBlock


class _NoListener:
    """Ignores acknowledgements, because nothing is written here. The connection's end is normal."""

    def acknowledged(self, connection: DataNodeConnection) -> None: ...

    def heartbeat_acknowledged(self, connection: DataNodeConnection) -> None: ...

    def refused(self, connection: DataNodeConnection, ack: Ack) -> None: ...

    def lost(self, connection: DataNodeConnection, reason: str) -> None: ...


_NO_LISTENER: Final = _NoListener()


async def close_replica(
    located: LocatedBlock, node: DataNode, *, holder: str, new_stamp: int, length_bytes: int, config: HdfsConfig
) -> None:
    """Finalize the replica on `node` at `length_bytes`. `located.block` has a stamp at or below the replica's.

    Raises SetupRefused: another length or state, or no answer.
    """
    base = BaseHeader(block=located.block.with_length(length_bytes).message())
    if located.token.IsInitialized():
        base.token.CopyFrom(located.token)
    operation = OpWriteBlock(
        header=ClientOperationHeader(base_header=base, client_name=holder),
        stage=OpWriteBlock.Stage.PIPELINE_CLOSE_RECOVERY,
        pipeline_size=1,
        min_bytes_rcvd=length_bytes,
        max_bytes_rcvd=length_bytes,
        latest_generation_stamp=new_stamp,
        requested_checksum=Checksum(type=ChecksumType.CHECKSUM_CRC32C, bytes_per_checksum=config.checksum_chunk_bytes),
        storage_type=StorageType.DISK,
    )
    connection = DataNodeConnection(node, _NO_LISTENER, asyncio.get_running_loop(), connector=config.required_connector)
    try:
        await connection.open(operation, token=located.token, timeout_s=config.connect_timeout_s)
    finally:
        connection.abort()
