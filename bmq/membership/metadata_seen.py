"""The furthest known end of the metadata log: a controller does not activate a log that ends before it (rule 25).

Three kinds of witnesses: the mark in ZooKeeper, which each controller raises every second while records are written and
which outlives all processes; the live nodes, each with the offset it has replayed to; and this node itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog

from bmq.dataclass import dataclass
from bmq.election.election import ControllerClaim, Election, MetadataMark
from bmq.internode_client.links import Links
from bmq.log.damage import Damage, end_damage
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import MetadataFetchRequest, MetadataFetchResponse

WITNESS_WAIT_S: Final = 0.5
"""Nodes that do not answer within this time are skipped: the old controller's node, for one, may be dead."""
LINK_PURPOSE: Final = "metadata-seen"
NOTHING: Final = MetadataMark(-1, -1)

_log = structlog.get_logger("bmq.membership")


@dataclass(frozen=True, slots=True)
class Witness:
    """`mark`: how much `name` has seen of the metadata log."""

    name: str
    mark: MetadataMark


class MetadataWitnesses:
    """`own()`: how far this node's replica goes."""

    def __init__(self, node_id: int, election: Election, links: Links, own: Callable[[], MetadataMark]) -> None:
        self._node_id = node_id
        self._election = election
        self._links = links
        self._own = own

    async def ask(self, claim: ControllerClaim) -> Sequence[Witness]:
        """All witnesses that answer within WITNESS_WAIT_S.

        Raises ElectionError: without the mark nothing is activated.
        """
        node_ids = [node_id for node_id in self._election.members if node_id != self._node_id]
        mark, answers = await asyncio.gather(
            self._election.metadata_mark(), asyncio.gather(*(self._ask(node_id, claim) for node_id in node_ids))
        )
        own = Witness(f"node {self._node_id}", self._own())
        told = [Witness("ZooKeeper", mark or NOTHING), own, *(answer for answer in answers if answer is not None)]
        return [witness for witness in told if witness.mark != NOTHING]

    async def _ask(self, node_id: int, claim: ControllerClaim) -> Witness | None:
        request = MetadataFetchRequest(node_id=self._node_id, controller_epoch=claim.epoch)
        try:
            answer: MetadataFetchResponse = await self._links.call(
                node_id, ApiKey.METADATA_FETCH, request, timeout_s=WITNESS_WAIT_S, purpose=LINK_PURPOSE
            )
        except BmqError as error:
            _log.info("metadata_witness_silent", node_id=node_id, reason=str(error))
            return None
        return Witness(f"node {node_id}", MetadataMark(answer.seen_epoch, answer.seen_offset))


@dataclass(frozen=True, slots=True)
class MissingEnd:
    """`records`: how many are known to be lost at the metadata log's end."""

    damage: Damage
    records: int


def missing_end(
    partition: str, end_of_epoch: Callable[[int], tuple[int, int]], high_watermark: int, witnesses: Iterable[Witness]
) -> MissingEnd | None:
    """The worst contradiction between the log and the witnesses; None: there is none.

    `end_of_epoch` as PartitionLog.epoch_end_offset: records seen under an epoch must lie below that epoch's end, even
    if later epochs have written past it.
    """
    worst: tuple[int, int, str] | None = None
    for witness in witnesses:
        _, end_offset = end_of_epoch(witness.mark.epoch)
        if end_offset < 0:
            end_offset = high_watermark
        lost = witness.mark.offset - end_offset
        if lost > 0 and (worst is None or lost > worst[0]):
            what = (
                f"but {witness.name} has seen everything below {witness.mark.offset} under epoch {witness.mark.epoch}"
            )
            worst = lost, end_offset, what
    return None if worst is None else MissingEnd(end_damage(partition, worst[1], worst[2]), worst[0])
