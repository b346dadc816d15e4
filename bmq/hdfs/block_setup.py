"""Setting up a block on its DataNodes: builds the requests and judges the answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bmq.hdfs.blocks import DataNode, LocatedBlock
from bmq.hdfs.errors import SetupRefused
from bmq.hdfs.proto.hdfs_pb2 import StorageType
from bmq.hdfs.proto.transfer_pb2 import BaseHeader, Checksum, ChecksumType, ClientOperationHeader, OpWriteBlock
from bmq.log.store import WriterBroken

Stage = OpWriteBlock.Stage


class StreamOpenFailed(WriterBroken):
    """Not every node could be set up; nothing is left open. `failed`: the nodes that are known to have failed.

    `unreachable`: those among them that refused connections or did not answer. `connected`: the other nodes.
    """

    def __init__(
        self,
        reason: str,
        *,
        failed: tuple[DataNode, ...],
        unreachable: tuple[DataNode, ...],
        connected: tuple[DataNode, ...],
    ) -> None:
        super().__init__(reason)
        self.failed = failed
        self.unreachable = unreachable
        self.connected = connected


def write_operation(  # noqa: PLR0913
    located: LocatedBlock,
    *,
    holder: str,
    stage: Stage,
    new_stamp: int,
    bytes_least: int,
    bytes_most: int,
    chunk_bytes: int,
    targets: Sequence[DataNode],
    reserved_bytes: int = 0,
) -> OpWriteBlock:
    """The WRITE_BLOCK request that opens a connection. `targets`: the DataNodes downstream in the pipeline, in order.

    `reserved_bytes`: disk space that the DataNode reserves for a new block until it is closed. 0 means the DataNode's own
    dfs.blocksize (DataXceiver.writeBlock): 128 MiB even for the smallest file.
    """
    base = BaseHeader(block=located.block.with_length(located.block.length_bytes or reserved_bytes).message())
    if located.token.IsInitialized():
        base.token.CopyFrom(located.token)
    return OpWriteBlock(
        header=ClientOperationHeader(base_header=base, client_name=holder),
        targets=[node.message for node in targets],
        stage=stage,
        pipeline_size=1 + len(targets),
        min_bytes_rcvd=bytes_least,
        max_bytes_rcvd=bytes_most,
        latest_generation_stamp=new_stamp,
        requested_checksum=Checksum(type=ChecksumType.CHECKSUM_CRC32C, bytes_per_checksum=chunk_bytes),
        storage_type=StorageType.DISK,
        target_storage_types=[StorageType.DISK] * len(targets),
    )


def open_failure(
    located: LocatedBlock,
    results: Sequence[SetupRefused | None],
    lost: Mapping[DataNode, str],
    *,
    is_fanout: bool,
) -> StreamOpenFailed | None:
    """The failure of a setup; None when every node took the block and none was lost since.

    `results`: one per connection, for all nodes of `located` in a fan-out and for the first node in a chain. `lost`: nodes
    that took the block and failed before the others had.
    """
    if not lost and not any(results):
        return None
    reasons = dict(lost)
    unreachable: set[DataNode] = set()
    told = ""
    for node, refused in zip(located.nodes, results, strict=is_fanout):
        if refused is None:
            continue
        culprit = node if is_fanout else _culprit(located, refused)
        if culprit is None:
            told = f"{chain_of(located.nodes)}: {refused}"
            continue
        reasons[culprit] = str(refused)
        if refused.is_unreachable:
            unreachable.add(culprit)
    told = told or "; ".join(f"{node.transfer}: {reason}" for node, reason in reasons.items())
    return StreamOpenFailed(
        f"block {located.block.block_id} could not be set up: {told}",
        failed=tuple(reasons),
        unreachable=tuple(node for node in reasons if node in unreachable),
        connected=tuple(node for node in located.nodes if node not in reasons),
    )


def chain_of(nodes: Sequence[DataNode]) -> str:
    """Names the whole pipeline, for a failure that no single node can be blamed for."""
    return "somewhere in the chain " + " -> ".join(str(node.transfer) for node in nodes)


def _culprit(located: LocatedBlock, refused: SetupRefused) -> DataNode | None:
    """The failed node of a pipeline: the one that its first node names, else the first node itself.

    None when the first node accepted the connection but did not answer in time: any node of the pipeline may hang.
    """
    if refused.bad_link:
        return next((node for node in located.nodes if str(node.transfer) == refused.bad_link), None)
    is_anybodys = refused.is_connected and refused.is_unreachable
    return None if is_anybodys else located.nodes[0]
