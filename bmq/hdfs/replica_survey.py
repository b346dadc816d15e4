"""Collects the DataNodes' answers about the replicas of one open block.

Nodes are not asked in advance: a replica is presumed WRITABLE, as nearly all are, until its node refuses a new generation
stamp.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.errors import ReplicaMissing
from bmq.hdfs.replica_states import LENGTH_BYTES_MAX, Replica, ReplicaState, candidates
from bmq.log.store import StorageUnavailable, StoreError, WriterBroken

SIGHTINGS: Final = 2
# A writer finalizes its replicas only once they are equal. If they refuse and are not equal, a rival is at work on
# them. Lease recovery, the only other way, would cost seconds and the bytes that only some of them have.
SIGHTINGS_IF_UNEQUAL: Final = 4

_log = structlog.get_logger("bmq.hdfs")


class ReplicaSurvey:
    """`oldest`: the block as first listed. `has_learned`: set when an answer brings news; the caller resets it."""

    def __init__(self, path: str, *, datanodes: DataNodeRpc, bad_nodes: BadNodes, config: HdfsConfig) -> None:
        self.oldest: LocatedBlock | None = None
        self.has_learned = False
        self._path = path
        self._datanodes = datanodes
        self._bad_nodes = bad_nodes
        self._timeout_s = config.connect_timeout_s
        # What the last try learned, by uuid and the stamp the NameNode knew then. Valid for the next try only, and only
        # while nobody else has given the block a newer stamp.
        self._known: dict[tuple[str, int], Replica] = {}
        # By uuid: the stamp the NameNode knew, what was seen under it, and how often in a row.
        self._sightings: dict[str, tuple[int, Replica, int]] = {}
        self._dead: set[DataNode] = set()
        self._is_forgiving = False

    def replicas(self, last: LocatedBlock) -> list[Replica]:
        """The replicas to decide about: on the nodes listed now, reachable or not, and on others listed earlier."""
        if self.oldest is None:
            self.oldest = last
        suspected = () if self._is_forgiving else self._bad_nodes.current()
        tried = candidates(last.nodes, self.oldest.nodes, dead=self._dead, suspected=suspected)
        known, self._known = self._known, {}
        stamp = last.block.generation_stamp
        replicas = [
            replace(known.get((node.uuid, stamp), Replica(node, ReplicaState.WRITABLE)), node=node, is_listed=is_listed)
            for node, is_listed in tried
        ]
        tried_uuids = {node.uuid for node, _ in tried}
        missing = [node for node in last.nodes if node.uuid not in tried_uuids]
        return [*replicas, *(Replica(node, ReplicaState.UNREACHABLE) for node in missing)]

    def answering(self, last: LocatedBlock) -> tuple[DataNode, ...]:
        """The listed nodes that are not known to be unreachable."""
        return tuple(
            replica.node
            for replica in self.replicas(last)
            if replica.is_listed and replica.state is not ReplicaState.UNREACHABLE
        )

    def lost(self, node: DataNode, reason: str) -> None:
        """The node hangs, is dead or fails: leave it out from here on, and elsewhere for a while."""
        _log.warning("datanode_left_out", path=self._path, node=str(node.transfer), reason=reason)
        self._dead.add(node)
        self._bad_nodes.add(node)
        self.has_learned = True

    def retry_all(self) -> None:
        """Try all nodes once more, even those others suspect: the nodes that answer are not enough."""
        self._dead.clear()
        self._is_forgiving = True

    async def refused(self, nodes: Sequence[DataNode], block: Block) -> None:
        """These nodes answered and refused a new stamp on `block` (the NameNode's newest): find out why.

        A rival at work on a replica makes it refuse, too. So a replica counts as settled only after it has refused several
        times in the same state.
        """
        stamp = block.generation_stamp
        replicas = await asyncio.gather(*(self._ask(node, block) for node in nodes))
        are_equal = len({r.length_bytes for r in replicas if r.state is ReplicaState.SETTLED}) <= 1
        for replica in replicas:
            if replica.state is ReplicaState.UNREACHABLE:
                self.lost(replica.node, "it did not take a new generation stamp, and then it did not answer")
            elif replica.state is not ReplicaState.SETTLED or self._seen(
                replica, stamp, SIGHTINGS if are_equal else SIGHTINGS_IF_UNEQUAL
            ):
                self._known[replica.node.uuid, stamp] = replica
                self.has_learned = True

    def _seen(self, replica: Replica, stamp: int, wanted: int) -> bool:
        """Count a sighting; True once the replica was seen unchanged under this stamp `wanted` times in a row."""
        uuid = replica.node.uuid
        seen_stamp, seen, times = self._sightings.get(uuid, (0, replica, 0))
        times = times + 1 if (seen_stamp, seen) == (stamp, replica) else 1
        self._sightings[uuid] = stamp, replica, times
        return times >= wanted

    async def lengths(self, nodes: Sequence[DataNode], block: Block) -> dict[DataNode, int]:
        """Lengths of the nodes' replicas under the stamp of `block`. Raises WriterBroken when a node cannot tell."""
        answers = await asyncio.gather(*(self._visible_bytes(node, block) for node in nodes), return_exceptions=True)
        lengths: dict[DataNode, int] = {}
        failures: list[str] = []
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, int):
                lengths[node] = answer
            elif isinstance(answer, StorageUnavailable):
                self.lost(node, str(answer))
                failures.append(str(answer))
            elif isinstance(answer, StoreError):
                failures.append(str(answer))
            else:
                raise answer
        if failures:
            raise WriterBroken(f"{self._path}: {'; '.join(failures)}")
        return lengths

    async def holders(self, nodes: Sequence[DataNode], block: Block, *, is_open: bool = False) -> tuple[DataNode, ...]:
        """The nodes that hold a whole closed block under its stamp; with `is_open`, a usable replica of any length."""
        answers = await asyncio.gather(*(self._visible_bytes(node, block) for node in nodes), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, StoreError):
                raise answer
        return tuple(
            node
            for node, answer in zip(nodes, answers, strict=True)
            if (isinstance(answer, int) if is_open else answer == block.length_bytes)
        )

    async def _ask(self, node: DataNode, block: Block) -> Replica:
        newer = replace(block, generation_stamp=block.generation_stamp + 1)
        length, newer_length = await asyncio.gather(
            self._visible_bytes(node, block), self._visible_bytes(node, newer), return_exceptions=True
        )
        if isinstance(length, int):
            return Replica(node, ReplicaState.SETTLED, length, is_bumped=isinstance(newer_length, int))
        if isinstance(length, ReplicaMissing):
            # One of an older generation is stale: the writer went on without it.
            is_stale = "eneration stamp" in str(length)
            return Replica(node, ReplicaState.WAITING if is_stale else ReplicaState.ABSENT)
        if isinstance(length, StorageUnavailable):
            return Replica(node, ReplicaState.UNREACHABLE)
        if isinstance(length, StoreError):
            return Replica(node, ReplicaState.WAITING)
        raise length

    async def _visible_bytes(self, node: DataNode, block: Block) -> int:
        """Raises ReplicaMissing, StorageUnavailable (no answer), WriterBroken (the replica waits for lease recovery)."""
        length_bytes = await self._datanodes.visible_length(node, block, timeout_s=self._timeout_s)
        if not 0 <= length_bytes <= LENGTH_BYTES_MAX:
            raise WriterBroken(f"the replica on DataNode {node.ipc} waits for lease recovery")
        return length_bytes
