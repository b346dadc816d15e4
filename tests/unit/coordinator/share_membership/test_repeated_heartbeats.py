"""Heartbeats of share members that say nothing new: answered from bytes, as long as the group would be told the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

import pytest

from bmq.coordinator.modern.member_timers import TimerKind
from bmq.coordinator.runtime.recent_proof import PROOF_AGE_MAX_MS
from bmq.coordinator.share_groups import ShareGroups
from bmq.coordinator.subscription_type import SUBSCRIPTION_CONFIG
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, decode_request, encode_request, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from bmq.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from bmq.protocol.request_context import Received, RequestContext
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_membership.test_share_api import AT_ONCE, Shares, assigned

pytestmark = pytest.mark.unit

HEARTBEAT = ApiKey.SHARE_GROUP_HEARTBEAT
VERSION = 1
HOST = "127.0.0.1"


def frame_of(member_id: str, epoch: int, *names: str, correlation_id: int = 7, client_id: str = "client") -> bytearray:
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, subscribed_topic_names=list(names) or None
    )
    return bytearray(encode_request(HEARTBEAT, VERSION, correlation_id, client_id, request))


class Wire:
    """A client's frames, first tried as repeated ones."""

    def __init__(self, shares: Shares) -> None:
        self.shares = shares

    def again(self, frame: bytearray, *, host: str = HOST, leader_epoch: int = -1) -> bytes | None:
        header = parse_request_header(frame)
        context = RequestContext(VERSION, header.client_id, host, leader_epoch=leader_epoch)
        return self.shares.coordinator.repeated_heartbeat(frame, header, context, 0.0)

    async def ask(self, frame: bytearray) -> ShareGroupHeartbeatResponse:
        header = parse_request_header(frame)
        request = decode_request(header, frame)
        context = RequestContext(VERSION, header.client_id, HOST, received=Received(frame, request))
        answer: ShareGroupHeartbeatResponse = await self.shares.coordinator.handle(HEARTBEAT, request, context)
        return answer

    async def join(self, *member_ids: str) -> int:
        """All are at the group's epoch then, which is returned."""
        for member_id in member_ids:
            assert (await self.ask(frame_of(member_id, 0, "t"))).error_code == 0
        for member_id in member_ids:
            answer = await self.ask(frame_of(member_id, self.groups.groups["g"].members[member_id].epoch))
            assert answer.error_code == 0
        return answer.member_epoch

    async def known(self, member_id: str) -> bytearray:
        """A heartbeat of the member that has an answer by now."""
        frame = frame_of(member_id, self.groups.groups["g"].members[member_id].epoch)
        assert (await self.ask(frame)).error_code == 0
        assert self.again(frame) is not None
        return frame

    @property
    def groups(self) -> ShareGroups:
        shard = self.shares.coordinator.directory.find("g")
        assert shard is not None
        return shard.share


def told(story: Callable[[Wire], Awaitable[None]], configs: dict[str, str] | None = None) -> None:
    async def main() -> None:
        shares = Shares()
        shares.cluster.topics.group_configs = {"g": configs or {}}
        await story(Wire(shares))

    virtual(main)


def test_the_same_heartbeat_has_the_same_answer() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a", "b")
        frame = await wire.known("a")
        body = wire.again(frame_of("a", wire.groups.groups["g"].epoch, correlation_id=99))
        assert body is not None
        assert decode("response", HEARTBEAT, VERSION, body) == await wire.ask(frame)

    told(story)


def test_only_what_the_same_client_said_is_known() -> None:
    async def story(wire: Wire) -> None:
        epoch = await wire.join("a", "b")
        frame = await wire.known("a")
        assert wire.again(frame, host="127.0.0.2") is None
        assert wire.again(frame_of("a", epoch, client_id="other")) is None
        assert wire.again(frame_of("a", epoch - 1)) is None
        assert wire.again(frame_of("nobody", epoch)) is None
        assert wire.again(frame, leader_epoch=0) is not None
        assert wire.again(frame, leader_epoch=1) is None

    told(story)


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_join_and_a_leave_are_decided_each_time(epoch: int) -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a", "b")
        frame = frame_of("b", epoch, *(("t",) if epoch == 0 else ()))
        await wire.ask(frame)
        assert wire.again(frame) is None

    told(story)


def test_an_answer_with_an_assignment_is_the_same_for_who_asks_for_it() -> None:
    async def story(wire: Wire) -> None:
        epoch = await wire.join("a")
        frame = frame_of("a", epoch, "t")
        assert assigned(await wire.ask(frame)) == [0, 1, 2, 3]
        body = wire.again(frame)
        assert body is not None and assigned(decode("response", HEARTBEAT, VERSION, body)) == [0, 1, 2, 3]

    told(story)


def test_a_record_of_the_group_is_news() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a", "b")
        frame, other = await wire.known("a"), await wire.known("b")
        assert (await wire.ask(frame_of("c", 0, "t"))).error_code == 0
        assert wire.again(frame) is None and wire.again(other) is None
        answer = await wire.ask(frame)
        assert answer.member_epoch == wire.groups.groups["g"].epoch

    told(story)


def test_partitions_without_state_are_news() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a")
        frame = await wire.known("a")
        wire.shares.set_topic("t", UUID(int=1), 5)
        assert wire.again(frame) is None
        wire.shares.link.is_away = True
        for _ in range(2):
            assert (await wire.ask(frame)).error_code == 0
            assert wire.again(frame) is None, "the next heartbeat has to try again"
        wire.shares.link.is_away = False
        assert assigned(await wire.ask(frame)) == [0, 1, 2, 3, 4]

    told(story)


def test_a_topic_that_is_gone_is_news() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a")
        frame = await wire.known("a")
        wire.shares.set_topic("t", UUID(int=1), 0)
        assert wire.again(frame) is None
        assert assigned(await wire.ask(frame)) == []

    told(story)


def test_a_change_of_configs_or_settings_is_news() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a")
        frame = await wire.known("a")
        wire.shares.cluster.topics.group_configs = {"g": {"share.heartbeat.interval.ms": "6000"}}
        assert wire.again(frame) is None
        assert (await wire.ask(frame)).heartbeat_interval_ms == 6_000
        wire.shares.cluster.topics.group_configs = {"g": {}}
        frame = await wire.known("a")
        share = replace(AT_ONCE.share, heartbeat_interval_ms=7_000)
        wire.shares.coordinator.reconfigure(replace(AT_ONCE, share=share))
        assert wire.again(frame) is None
        assert (await wire.ask(frame)).heartbeat_interval_ms == 7_000

    told(story)


def test_another_type_of_subscription_is_news() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a", "b")
        frame = await wire.known("b")
        wire.shares.cluster.topics.group_configs = {"g": {SUBSCRIPTION_CONFIG: "failover"}}
        assert wire.again(frame) is None
        assert (await wire.ask(frame)).member_epoch > parse_epoch(frame)

    told(story)


def parse_epoch(frame: bytearray) -> int:
    request: ShareGroupHeartbeatRequest = decode_request(parse_request_header(frame), frame)
    return request.member_epoch


def test_shards_that_know_no_active_member_are_told_by_the_next_heartbeat() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a")
        frame = await wire.known("a")
        heir = Wire(Shares(wire.shares))
        heir.shares.link.is_away = True
        assert (await heir.ask(frame)).error_code == 0
        assert heir.again(frame) is None
        heir.shares.link.is_away = False
        assert (await heir.ask(frame)).error_code == 0
        assert heir.shares.link.calls == ["activate", "activate"]
        assert heir.again(frame) is not None

    told(story, {SUBSCRIPTION_CONFIG: "exclusive"})


def test_an_answer_from_memory_needs_a_recent_proof() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a")
        frame = await wire.known("a")
        wire.shares.cluster.clock.sleep(PROOF_AGE_MAX_MS / 1000)
        assert wire.again(frame) is None

    told(story)


def test_the_session_begins_anew() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a")
        frame = await wire.known("a")
        timers = wire.groups.timers_of("g")
        assert timers is not None
        before_ms = timers.deadline_ms(TimerKind.SESSION, "a")
        await asyncio.sleep(1)
        assert wire.again(frame) is not None
        assert timers.deadline_ms(TimerKind.SESSION, "a") == pytest.approx(before_ms + 1_000)

    told(story)


def test_a_member_that_is_being_removed_hears_of_it() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a", "b")
        frame, other = await wire.known("a"), await wire.known("b")
        log = wire.shares.cluster.log_of("g")
        log.is_acknowledging = False
        leaving = asyncio.ensure_future(wire.ask(frame_of("a", -1)))
        await asyncio.sleep(1)
        assert log.pending_count == 1
        assert wire.again(frame) is None
        assert wire.again(other) is not None
        log.is_acknowledging = True
        log.acknowledge()
        assert (await leaving).error_code == 0
        assert wire.again(frame) is None and wire.again(other) is None
        assert (await wire.ask(frame)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    told(story)


def test_a_shard_that_is_lost_answers_nothing_more() -> None:
    async def story(wire: Wire) -> None:
        await wire.join("a")
        frame = await wire.known("a")
        for number in list(wire.shares.coordinator.directory.ready):
            wire.shares.coordinator.resign(number)
        assert wire.again(frame) is None

    told(story)
