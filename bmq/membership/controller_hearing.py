"""Asks other nodes whether they hear the controller, before a candidate that does not deposes it.

A candidate that alone is cut off from a healthy controller would cost the cluster an election, and then the next one. A yes
of one other node keeps the controller. Without a yes within HEARING_WAIT_S the candidate deposes it: a wrong guess costs an
election and nothing else (rule 17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Final

import structlog

from bmq.election.election import ControllerClaim, Election
from bmq.internode_client.links import Links
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import HearControllerRequest, HearControllerResponse

HEARING_WAIT_S: Final = 0.5
ASKED_MAX: Final = 3
LINK_PURPOSE: Final = "hearing"

_log = structlog.get_logger("bmq.membership")


def asked_nodes(node_id: int, claim: ControllerClaim, members: Collection[int]) -> list[int]:
    """The nodes to ask: those that follow this one by their ids, so that candidates ask different ones."""
    others = [member for member in members if member not in (node_id, claim.node_id)]
    return sorted(others, key=lambda member: (member < node_id, member))[:ASKED_MAX]


class ControllerHearing:
    """`node_id`: this node's, the candidate."""

    def __init__(self, node_id: int, election: Election, links: Links) -> None:
        self._node_id = node_id
        self._election = election
        self._links = links

    async def is_heard(self, claim: ControllerClaim) -> bool:
        """Whether another node hears the controller of this claim now."""
        asked = asked_nodes(self._node_id, claim, self._election.members.keys())
        waiting = [asyncio.ensure_future(self._ask(node_id, claim)) for node_id in asked]
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARING_WAIT_S):
                    for answer in asyncio.as_completed(waiting):
                        if await answer:
                            return True
        finally:
            for one in waiting:
                one.cancel()
        return False

    async def _ask(self, node_id: int, claim: ControllerClaim) -> bool:
        request = HearControllerRequest(node_id=self._node_id, controller_epoch=claim.epoch)
        try:
            answer: HearControllerResponse = await self._links.call(
                node_id, ApiKey.HEAR_CONTROLLER, request, timeout_s=HEARING_WAIT_S, purpose=LINK_PURPOSE
            )
        except BmqError as error:  # of an earlier release, too
            _log.debug("hearing_not_asked", node_id=node_id, reason=str(error))
            return False
        if answer.is_heard:
            _log.info("controller_heard_elsewhere", node_id=node_id, controller_epoch=claim.epoch)
        return answer.is_heard
