"""Who has seen how much of the metadata log: ZooKeeper's mark, this node, and the living nodes within a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from bmq.election.election import ControllerClaim, Election, ElectionUnavailable, Member, MetadataMark
from bmq.internode_client.link import LinkLost
from bmq.internode_client.links import Links
from bmq.membership.metadata_seen import MetadataWitnesses, Witness
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import FORMATS, MetadataFetchResponse
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit

CLAIM = ControllerClaim(1, "host", 1, 7)


class KnownMembers:
    """An election with these members and this mark."""

    def __init__(self, mark: MetadataMark | None, *node_ids: int) -> None:
        self.mark = mark
        self.is_away = False
        self.members: Mapping[int, Member] = {node_id: Member(node_id, "x", "host", node_id) for node_id in node_ids}

    async def metadata_mark(self) -> MetadataMark | None:
        if self.is_away:
            raise ElectionUnavailable("away")
        return self.mark


class Answers:
    """Links whose other ends answer as told; None: never."""

    def __init__(self, answers: Mapping[int, MetadataFetchResponse | LinkLost | None]) -> None:
        self._answers = answers
        self.asked: list[tuple[int, int]] = []

    async def call(self, node_id: int, api_key: ApiKey, request: Any, *, timeout_s: float, purpose: str) -> Any:
        assert api_key is ApiKey.METADATA_FETCH
        self.asked.append((node_id, request.controller_epoch))
        answer = self._answers[node_id]
        if answer is None:
            await asyncio.sleep(timeout_s)
            raise LinkLost("silent")
        if isinstance(answer, LinkLost):
            raise answer
        return answer


def witnesses(election: KnownMembers, links: Answers, own: MetadataMark) -> MetadataWitnesses:
    return MetadataWitnesses(1, cast(Election, election), cast(Links, links), lambda: own)


def seen(epoch: int, offset: int) -> MetadataFetchResponse:
    return MetadataFetchResponse(error_code=ErrorCode.NOT_CONTROLLER, seen_epoch=epoch, seen_offset=offset)


def test_everybody_who_lives_is_heard_and_nobody_is_waited_for_long() -> None:
    async def main() -> None:
        links = Answers({2: seen(6, 90), 3: LinkLost("dead"), 4: None, 5: MetadataFetchResponse()})
        election = KnownMembers(MetadataMark(6, 80), 1, 2, 3, 4, 5)
        began_s = asyncio.get_running_loop().time()
        heard = await witnesses(election, links, MetadataMark(5, 70)).ask(CLAIM)
        assert asyncio.get_running_loop().time() - began_s <= 0.5
        assert list(heard) == [
            Witness("ZooKeeper", MetadataMark(6, 80)),
            Witness("node 1", MetadataMark(5, 70)),
            Witness("node 2", MetadataMark(6, 90)),  # node 5 is of a release that does not say
        ]
        assert sorted(links.asked) == [(2, 7), (3, 7), (4, 7), (5, 7)]

    virtual(main)


def test_nothing_is_known_of_a_new_cluster_and_without_the_mark_nothing_begins() -> None:
    async def main() -> None:
        election = KnownMembers(None, 1)
        asking = witnesses(election, Answers({}), MetadataMark(-1, -1))
        assert await asking.ask(CLAIM) == []
        election.is_away = True
        with pytest.raises(ElectionUnavailable):
            await asking.ask(CLAIM)

    virtual(main)


def test_older_releases_read_and_write_the_message_without_what_is_new() -> None:
    """The new fields are tagged (KIP-482), and left out while they say nothing."""
    tagged = {
        part: {field.name for field in form.fields if field.tag is not None}
        for part, form in FORMATS[ApiKey.METADATA_FETCH].items()
    }
    assert tagged == {"request": {"offset_epoch"}, "response": {"seen_epoch", "seen_offset"}}
