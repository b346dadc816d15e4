"""Decides how to close a block whose writer is gone or broken, from the states of its replicas. Pure.

A byte counts as acknowledged when all DataNodes of the current generation have acknowledged it. So each of their
replicas is a prefix of the same stream and holds every acknowledged byte, and the longest one's length is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from bmq.dataclass import dataclass
from bmq.hdfs.blocks import DataNode

NODES_LEAST: Final = 2  # to close a block on, while there may be more
LENGTH_BYTES_MAX: Final = (1 << 63) - 1  # a DataNode gives -1 (unsigned) as the length of a replica nobody may read


class ReplicaState(StrEnum):
    """`WRITABLE`: being written; presumed of every replica until its node refuses a new generation stamp. `SETTLED`: it
    refuses the stamp repeatedly but shows a length, so it was finalized. `ABSENT`: the writer never connected. `WAITING`: its
    DataNode was restarted, and only lease recovery can use it. `UNREACHABLE`: no answer.
    """

    WRITABLE = "writable"
    SETTLED = "settled"
    ABSENT = "absent"
    WAITING = "waiting"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Replica:
    """`length_bytes` and `is_bumped` (it has a newer stamp than the NameNode knows) are set for SETTLED only.

    `is_listed`: the NameNode's newest answer lists the node. A node that was only listed when this closing began may
    have been left out by a rival's newer generation, so it is used only together with listed ones.
    """

    node: DataNode
    state: ReplicaState
    length_bytes: int = 0
    is_bumped: bool = False
    is_listed: bool = True


@dataclass(frozen=True, slots=True)
class Renew:
    """Put a new generation stamp on `writable`, make them equal, and stamp those of `settled` that have that length.

    A finalized replica accepts any higher stamp, even while a rival completes the file under the present one; then the
    file is closed and this replica corrupt. So it gets one only after the NameNode has taken the stamp for the replicas
    that are being written: from then on it refuses a rival's complete(). A rival that left those out needs none of them.
    """

    writable: tuple[DataNode, ...]
    settled: tuple[Replica, ...] = ()


@dataclass(frozen=True, slots=True)
class CompleteAsIs:
    """The settled replicas all have this length: only the call of complete() is missing.

    Nothing can be appended any more, and the old writer may be about to make the same call.
    """

    nodes: tuple[DataNode, ...]
    length_bytes: int


@dataclass(frozen=True, slots=True)
class SetUpEmpty:
    """The block was allocated and never connected: set it up under a new stamp, so that a late writer is refused."""

    nodes: tuple[DataNode, ...]


@dataclass(frozen=True, slots=True)
class RecoverLease:
    """Only the NameNode's own recovery is left: DataNodes answer, but no replica takes a writer."""

    reason: str


@dataclass(frozen=True, slots=True)
class WaitForNodes:
    """A DataNode that may hold needed bytes does not answer. Lease recovery would go on without it, so wait."""


@dataclass(frozen=True, slots=True)
class BytesGone:
    """Every DataNode answered, and none holds all acknowledged bytes. Nothing is closed, because closing would hide that."""

    length_bytes: int


Plan = Renew | CompleteAsIs | SetUpEmpty | RecoverLease | WaitForNodes | BytesGone


def plan(replicas: Sequence[Replica], *, least_bytes: int = 0) -> Plan:
    """The next step for the replicas of an open block. `least_bytes`: the acknowledged bytes; never close below them.

    A DataNode refuses a new stamp on a replica that is shorter, so such a replica shows up as SETTLED.
    """
    by_state: dict[ReplicaState, list[Replica]] = {state: [] for state in ReplicaState}
    listed = [replica for replica in replicas if replica.is_listed]
    for replica in listed:
        by_state[replica.state].append(replica)
    absent = by_state[ReplicaState.ABSENT]
    settled = [replica for replica in by_state[ReplicaState.SETTLED] if replica.length_bytes >= least_bytes]
    short = [replica for replica in by_state[ReplicaState.SETTLED] if replica.length_bytes < least_bytes]
    if writable := by_state[ReplicaState.WRITABLE]:
        others = [r for r in replicas if not r.is_listed and r.state is ReplicaState.WRITABLE]
        return Renew(tuple(replica.node for replica in (*writable, *others)), tuple(settled))
    if settled:
        lengths = {replica.length_bytes for replica in settled}
        if len(lengths) == 1 and not any(replica.is_bumped for replica in settled):
            return CompleteAsIs(tuple(replica.node for replica in settled), settled[0].length_bytes)
        return RecoverLease("all replicas are finalized, but not at one length under the stamp that the NameNode knows")
    if least_bytes and (short or absent):
        # Lease recovery would close at what these have, too. Another node may hold the rest and come back.
        unknown_count = len(listed) - len(short) - len(absent)
        return (
            WaitForNodes() if unknown_count else BytesGone(max((replica.length_bytes for replica in short), default=0))
        )
    # One node without a replica shows that nothing was acknowledged, or that it lost its disk. When the others cannot be
    # asked, most of the nodes have to say so.
    if 2 * len(absent) > len(listed):
        return SetUpEmpty(tuple(replica.node for replica in absent))
    # Lease recovery closes at the length that answering nodes have, and deletes the block when none of them has any. A
    # node that is only down would then lose its bytes when it comes back.
    if by_state[ReplicaState.UNREACHABLE] and (least_bytes or not by_state[ReplicaState.WAITING]):
        return WaitForNodes()
    counts = ", ".join(f"{len(found)} {state}" for state, found in by_state.items() if found) or "none listed"
    return RecoverLease(f"no replica can be written on ({counts})")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Where to close. `source` has all bytes; those from `resend_from` on go to every writable node when it is given.

    `settled`: finalized replicas of exactly this length. A shorter one is left out: it cannot be extended.
    """

    length_bytes: int
    source: DataNode
    resend_from: int | None
    settled: tuple[DataNode, ...]


def agree(writable_bytes: Mapping[DataNode, int], settled: Sequence[Replica], *, chunk_bytes: int) -> Agreement:
    """At the longest replica. `writable_bytes`: the lengths under the new stamp, of at least one replica.

    Packets begin where a checksum chunk begins, so `resend_from` lies at or below the shortest replica.
    """
    lengths = {replica.node: replica.length_bytes for replica in settled} | dict(writable_bytes)
    length_bytes = max(lengths.values())
    shortest_bytes = min(writable_bytes.values())
    resend_from = shortest_bytes - shortest_bytes % chunk_bytes if shortest_bytes < length_bytes else None
    source = next(node for node, node_bytes in lengths.items() if node_bytes == length_bytes)
    same = tuple(replica.node for replica in settled if replica.length_bytes == length_bytes)
    return Agreement(length_bytes, source, resend_from, same)


def pieces(start: int, end: int, *, piece_bytes_max: int, chunk_bytes: int) -> Iterable[tuple[int, int]]:
    """(position, length) of what is resent from `start`, which begins a chunk, to `end`; only the last is no whole chunk."""
    piece_bytes = max(chunk_bytes, piece_bytes_max - piece_bytes_max % chunk_bytes)
    for position in range(start, end, piece_bytes):
        yield position, min(piece_bytes, end - position)


def candidates(
    listed: Sequence[DataNode], earlier: Iterable[DataNode], *, dead: Iterable[DataNode], suspected: Iterable[DataNode]
) -> tuple[tuple[DataNode, bool], ...]:
    """(node, whether it is listed) of the nodes to try: those the NameNode lists now, and others it listed earlier.

    A rival may have moved the block onto some of its nodes between two tries. The rest still hold a prefix and make good
    replicas. `dead`: found unreachable by this closing. `suspected`: suspected elsewhere a moment ago, perhaps because this
    machine itself was stalled. They are tried after all when fewer than NODES_LEAST would be left without them: a block that
    is closed on one node is lost with it, and only this closing can still put it on more.
    """
    listed_uuids = {node.uuid for node in listed}
    dead_uuids = {node.uuid for node in dead}
    suspected_uuids = {node.uuid for node in suspected}
    if len(listed_uuids - dead_uuids - suspected_uuids) < min(NODES_LEAST, len(listed_uuids)):
        suspected_uuids = set()
    everyone = [(node, True) for node in listed]
    everyone += [(node, False) for node in earlier if node.uuid not in listed_uuids]
    return tuple((node, flag) for node, flag in everyone if node.uuid not in dead_uuids | suspected_uuids)
