"""Blocks and their locations, as values. DataNodes are matched by uuid, because the NameNode shuffles them in every answer."""

from __future__ import annotations

from dataclasses import field, replace

from bmq.dataclass import dataclass
from bmq.hdfs.config import Address
from bmq.hdfs.proto.hdfs_pb2 import DatanodeInfo as DatanodeInfoMessage
from bmq.hdfs.proto.hdfs_pb2 import ExtendedBlock as ExtendedBlockMessage
from bmq.hdfs.proto.hdfs_pb2 import LocatedBlock as LocatedBlockMessage
from bmq.hdfs.proto.hdfs_pb2 import LocatedBlocks as LocatedBlocksMessage
from bmq.hdfs.proto.hdfs_pb2 import Token


@dataclass(frozen=True, slots=True)
class Block:
    """One generation of a block. The answer or request defines what `length_bytes` counts.

    `read_token`: shown to DataNodes that are asked about the block; None where block tokens are off.
    """

    pool_id: str
    block_id: int
    generation_stamp: int
    length_bytes: int = 0
    read_token: Token | None = field(default=None, compare=False, repr=False)

    def message(self) -> ExtendedBlockMessage:
        return ExtendedBlockMessage(
            pool_id=self.pool_id,
            block_id=self.block_id,
            generation_stamp=self.generation_stamp,
            num_bytes=self.length_bytes,
        )

    def with_length(self, length_bytes: int) -> Block:
        return replace(self, length_bytes=length_bytes)

    @classmethod
    def of(cls, message: ExtendedBlockMessage, read_token: Token | None = None) -> Block:
        return cls(message.pool_id, message.block_id, message.generation_stamp, message.num_bytes, read_token)


@dataclass(frozen=True, slots=True)
class DataNode:
    """`transfer`: where blocks are written and read; `ipc`: where ClientDatanodeProtocol answers."""

    uuid: str
    transfer: Address
    ipc: Address
    storage_id: str = ""
    message: DatanodeInfoMessage = field(default_factory=DatanodeInfoMessage, compare=False, repr=False)

    @classmethod
    def of(cls, message: DatanodeInfoMessage, storage_id: str = "") -> DataNode:
        node = message.id
        return cls(
            node.datanode_uuid,
            Address(node.ip_addr, node.xfer_port),
            Address(node.ip_addr, node.ipc_port),
            storage_id,
            message,
        )


@dataclass(frozen=True, slots=True)
class LocatedBlock:
    """A block with its DataNodes. `token` proves access where block tokens are on; empty elsewhere."""

    block: Block
    offset: int
    nodes: tuple[DataNode, ...]
    is_corrupt: bool = False
    token: Token = field(default_factory=Token, compare=False, repr=False)

    @classmethod
    def of(cls, message: LocatedBlockMessage) -> LocatedBlock:
        storage_ids = tuple(message.storage_ids)
        nodes = tuple(
            DataNode.of(info, storage_ids[index] if index < len(storage_ids) else "")
            for index, info in enumerate(message.locs)
        )
        token = message.block_token
        block = Block.of(message.block, token if token.identifier else None)
        return cls(block, message.offset, nodes, message.corrupt, token)

    def with_read_token(self, block: Block) -> LocatedBlock:
        """A copy with the read token of `block`, because this block's own token allows only writes."""
        return replace(self, block=replace(self.block, read_token=block.read_token))

    def for_reading(self, block: Block) -> LocatedBlock:
        """A copy with the read token of `block`, if it has one."""
        return self if block.read_token is None else replace(self, token=block.read_token)

    def with_nodes(self, nodes: tuple[DataNode, ...]) -> LocatedBlock:
        return replace(self, nodes=nodes)


@dataclass(frozen=True, slots=True)
class FileBlocks:
    """The answer of getBlockLocations. `length_bytes` counts complete blocks only; `last` is the last block."""

    length_bytes: int
    is_open: bool
    blocks: tuple[LocatedBlock, ...]
    last: LocatedBlock | None
    is_last_complete: bool

    @classmethod
    def of(cls, message: LocatedBlocksMessage) -> FileBlocks:
        return cls(
            message.file_length,
            message.under_construction,
            tuple(LocatedBlock.of(block) for block in message.blocks),
            LocatedBlock.of(message.last_block) if message.HasField("last_block") else None,
            message.is_last_block_complete,
        )
