"""Whom a candidate asks, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bmq.election.election import ControllerClaim, Member
from bmq.membership.controller_hearing import ASKED_MAX, HEARING_WAIT_S, ControllerHearing, asked_nodes
from bmq.protocol.errors import UnsupportedVersion
from bmq.protocol.internal_messages import HearControllerResponse
from tests.unit.broker.world import virtual
from tests.unit.internode_client.scripted_links import ScriptedLinks

pytestmark = pytest.mark.unit

ME = 2
CLAIM = ControllerClaim(1, "host", 1, 5)


class FakeElection:
    def __init__(self, *node_ids: int) -> None:
        self.members = {node_id: Member(node_id, f"incarnation {node_id}", "host", 1) for node_id in node_ids}


async def ask(answers: dict[int, Any], *members: int) -> tuple[bool, list[int]]:
    """The finding, and who was asked. An answer: a bool, seconds of silence, or an exception."""

    async def answer(node_id: int, request: Any) -> HearControllerResponse:
        said = answers.get(node_id, False)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, float):
            await asyncio.sleep(said)
        assert (request.node_id, request.controller_epoch) == (ME, CLAIM.epoch)
        return HearControllerResponse(is_heard=said is True)

    links = ScriptedLinks(HEAR_CONTROLLER=answer)
    hearing = ControllerHearing(ME, FakeElection(1, ME, *members), links)  # type: ignore[arg-type]
    found = await hearing.is_heard(CLAIM)
    return found, [node_id for node_id, _, _ in links.calls]


def test_neither_itself_nor_the_controller_is_asked_and_not_many() -> None:
    assert asked_nodes(ME, CLAIM, [1, 2]) == []
    assert asked_nodes(ME, CLAIM, [1, 2, 3]) == [3]
    assert asked_nodes(3, CLAIM, range(7)) == [4, 5, 6]
    assert asked_nodes(6, CLAIM, range(7)) == [0, 2, 3]
    assert len(asked_nodes(3, CLAIM, range(100))) == ASKED_MAX


def test_one_yes_is_enough_and_is_not_waited_for_longer_than_it_takes() -> None:
    async def main() -> None:
        began_s = asyncio.get_running_loop().time()
        assert await ask({3: False, 4: True, 5: 60.0}, 3, 4, 5) == (True, [3, 4, 5])
        assert asyncio.get_running_loop().time() == began_s

    virtual(main)


def test_without_a_yes_nobody_hears_it() -> None:
    async def main() -> None:
        assert await ask({}) == (False, [])
        assert (await ask({3: False, 4: UnsupportedVersion("it is older")}, 3, 4))[0] is False
        began_s = asyncio.get_running_loop().time()
        assert (await ask({3: 60.0}, 3))[0] is False
        assert asyncio.get_running_loop().time() - began_s <= HEARING_WAIT_S + 0.01

    virtual(main)
