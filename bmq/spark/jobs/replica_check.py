"""Compares the replicas of each block of a file with each other, reading each from its DataNode."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bmq.hdfs.blocks import LocatedBlock
from bmq.hdfs.store import HdfsStore
from bmq.log.names import renamed_path
from bmq.log.store import CorruptFile, FileMissing, StorageUnavailable
from bmq.spark.jobs.segment_check import Finding, Kind
from bmq.spark.jobs.stored_segments import SegmentTask

PIECE_BYTES: Final = 4 << 20


@dataclass(slots=True)
class ReplicaReport:
    """`least`: replicas of the block with the fewest; None if none was compared. `bytes`: read bytes of all replicas."""

    least: int | None = None
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)


async def compare_replicas(store: HdfsStore, task: SegmentTask) -> ReplicaReport:
    """Compare all blocks, except one still being written: its replicas differ in length. Raises FileMissing,
    StorageUnavailable.

    Only the first difference or unreadable place of a replica is reported; the rest of it is skipped.
    """
    report = ReplicaReport()
    try:
        blocks = await store.blocks(task.path)
    except FileMissing:
        blocks = await store.blocks(renamed_path(task.path))
    for located in blocks.blocks:
        if located.block.length_bytes:
            count = await _compare(store, task, located, report)
            report.least = count if report.least is None else min(report.least, count)
    return report


async def _compare(store: HdfsStore, task: SegmentTask, located: LocatedBlock, report: ReplicaReport) -> int:
    nodes = {str(node.transfer): node for node in located.nodes}
    count = len(nodes)
    length_bytes = located.block.length_bytes
    if not nodes:
        report.findings.append(_finding(task, located, 0, None, "the NameNode knows no DataNode that has it"))
    for position in range(0, length_bytes, PIECE_BYTES):
        names = list(nodes)
        wanted = min(PIECE_BYTES, length_bytes - position)
        answers = await asyncio.gather(
            *(store.read_replica(located, nodes[name], position=position, length_bytes=wanted) for name in names),
            return_exceptions=True,
        )
        pieces: dict[str, bytes] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, (CorruptFile, StorageUnavailable)):
                report.findings.append(_finding(task, located, position, name, f"it cannot be read: {answer}"))
                del nodes[name]
            elif isinstance(answer, BaseException):
                raise answer
            else:
                pieces[name] = bytes(answer)
                report.bytes += len(answer)
        for name, place in differing_replicas(pieces).items():
            others = "the others" if len(pieces) > 2 else "the other"
            report.findings.append(_finding(task, located, position + place, name, f"it differs from {others}"))
            del nodes[name]
    return count


def differing_replicas(pieces: Mapping[str, bytes]) -> dict[str, int]:
    """Replicas that differ from the majority, and their first difference. Pure; on a tie the first name wins."""
    if len(set(pieces.values())) <= 1:
        return {}
    votes = Counter(pieces.values())
    most = max(votes.values())
    right = next(pieces[name] for name in sorted(pieces) if votes[pieces[name]] == most)
    return {name: _first_difference(right, piece) for name, piece in pieces.items() if piece != right}


def _first_difference(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high) // 2
        if one[: middle + 1] == other[: middle + 1]:
            low = middle + 1
        else:
            high = middle
    return low


def _finding(task: SegmentTask, located: LocatedBlock, position: int, node: str | None, reason: str) -> Finding:
    return Finding(
        Kind.REPLICA,
        task.topic,
        task.partition,
        task.path,
        f"block {located.block.block_id}: {reason}",
        position_bytes=located.offset + position,
        node=node,
    )
