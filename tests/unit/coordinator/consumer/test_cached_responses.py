"""Heartbeats that say nothing new: answered from bytes, as long as the group would be told the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bmq.coordinator.modern.cached_responses import (
    KEY_BYTES_MAX,
    RESPONSES_PER_MEMBER_MAX,
    CachedResponses,
    RequestKey,
)
from bmq.coordinator.modern.member_timers import TimerKind, TimerOrder
from bmq.coordinator.topics import TopicChanges
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, decode_request, encode_request, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from bmq.protocol.request_context import ANONYMOUS, Received, RequestContext
from tests.unit.coordinator.cluster import Cluster
from tests.unit.coordinator.consumer.test_consumer_api import CONFIG, beat, group_of, join, settled, shard_of, until  # type: ignore[attr-defined]

pytestmark = pytest.mark.unit

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSION = 1
HOST = "127.0.0.1"
INTERVAL_MS = CONFIG.consumer.heartbeat_interval_ms


def frame_of(member_id: str, epoch: int, correlation_id: int = 7, client_id: str = "client") -> bytearray:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, topic_partitions=None
    )
    return bytearray(encode_request(HEARTBEAT, VERSION, correlation_id, client_id, request))


class Wire:
    """A client's frames, first tried as repeated ones."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def again(self, frame: bytearray, *, host: str = HOST, leader_epoch: int = -1) -> bytes | None:
        header = parse_request_header(frame)
        context = RequestContext(header.api_version, header.client_id, host, leader_epoch=leader_epoch)
        return self.cluster.coordinator.repeated_heartbeat(frame, header, context, 0.0)

    async def ask(self, frame: bytearray, *, host: str = HOST) -> ConsumerGroupHeartbeatResponse:
        header = parse_request_header(frame)
        request = decode_request(header, frame)
        context = RequestContext(header.api_version, header.client_id, host, received=Received(frame, request))
        return await self.cluster.coordinator.consumer.consumer_group_heartbeat(request, context)

    def epoch_of(self, member_id: str) -> int:
        return group_of(self.cluster).members[member_id].epoch


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """A and B share the group, and it has been settled for a while."""
    cluster = Cluster(CONFIG, shard_count=1)
    await settled(cluster, "A", "B")
    cluster.clock.advance(INTERVAL_MS)
    yield Wire(cluster)
    log = cluster.log_of("g")
    log.is_acknowledging = True
    log.acknowledge()
    await cluster.coordinator.close()


async def remembered(wire: Wire, member_id: str) -> bytearray:
    """A heartbeat that is known by now."""
    frame = frame_of(member_id, wire.epoch_of(member_id))
    assert wire.again(frame) is None
    assert (await wire.ask(frame)).error_code == 0
    assert wire.again(frame) is not None
    return frame


async def test_the_same_heartbeat_has_the_same_answer(wire: Wire) -> None:
    frame = await remembered(wire, "A")
    body = wire.again(frame_of("A", wire.epoch_of("A"), correlation_id=99))
    assert body is not None
    assert decode("response", HEARTBEAT, VERSION, body) == await wire.ask(frame)


async def test_only_what_the_same_client_said_is_known(wire: Wire) -> None:
    frame = await remembered(wire, "A")
    epoch = wire.epoch_of("A")
    assert wire.again(frame, host="127.0.0.2") is None
    assert wire.again(frame_of("A", epoch, client_id="other")) is None
    assert wire.again(frame_of("A", epoch - 1)) is None
    assert wire.again(frame_of("B", epoch)) is None
    assert wire.again(frame, leader_epoch=0) is not None
    assert wire.again(frame, leader_epoch=1) is None


async def test_a_known_heartbeat_has_expressions_resolved_with_the_rights_of_its_client(wire: Wire) -> None:
    cluster = wire.cluster
    await beat(cluster, "A", wire.epoch_of("A"), subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    await until(lambda: bool(group_of(cluster).regexes))
    assert group_of(cluster).matches("[tu]") == {"t", "u"}
    for _ in range(3):
        for member in list(group_of(cluster).members.values()):
            await beat(cluster, member.member_id, member.epoch, [p for ps in member.assigned.values() for p in ps])
    cluster.clock.advance(INTERVAL_MS)
    frame = await remembered(wire, "B")
    cluster.hidden = {(ANONYMOUS, "t")}
    cluster.clock.advance(CONFIG.consumer.regex_refresh_interval_ms)
    assert wire.again(frame) is not None
    await until(lambda: group_of(cluster).matches("[tu]") == {"u"})


async def test_a_record_of_the_group_is_news(wire: Wire) -> None:
    frame, other = await remembered(wire, "A"), await remembered(wire, "B")
    await join(wire.cluster, "C")
    assert wire.again(frame) is None and wire.again(other) is None
    answer = await wire.ask(frame)
    assert answer.heartbeat_interval_ms < INTERVAL_MS
    assert wire.again(frame) is None  # the group is not settled: what A is told depends on the time


async def test_a_change_of_topics_or_of_what_is_set_for_groups_is_news(wire: Wire) -> None:
    frame = await remembered(wire, "A")
    shard_of(wire.cluster).topics_changed(TopicChanges(frozenset({"t"}), frozenset()))
    assert wire.again(frame) is None
    await wire.ask(frame)
    assert wire.again(frame) is not None
    wire.cluster.clock.advance(1_000)
    wire.cluster.topics.group_configs = {"g": {"consumer.heartbeat.interval.ms": "6000"}}
    assert wire.again(frame) is None
    assert (await wire.ask(frame)).heartbeat_interval_ms == 6_000


async def test_a_change_of_the_servers_settings_is_news(wire: Wire) -> None:
    frame = await remembered(wire, "A")
    consumer = replace(CONFIG.consumer, heartbeat_interval_ms=6_000)
    wire.cluster.coordinator.reconfigure(replace(CONFIG, consumer=consumer))
    assert wire.again(frame) is None
    wire.cluster.clock.advance(1_000)
    assert (await wire.ask(frame)).heartbeat_interval_ms == 6_000


async def test_a_shard_that_is_lost_answers_nothing_more(wire: Wire) -> None:
    frame = await remembered(wire, "A")
    wire.cluster.coordinator.resign(0)
    assert wire.again(frame) is None


async def test_the_session_begins_anew(wire: Wire) -> None:
    frame = await remembered(wire, "A")
    timers = shard_of(wire.cluster).consumer.timers_of("g")
    assert timers is not None
    timers.apply(TimerOrder(TimerKind.SESSION, "A", None), 0.0)
    assert not timers.is_running(TimerKind.SESSION, "A")
    assert wire.again(frame) is not None
    assert timers.is_running(TimerKind.SESSION, "A")


async def test_a_member_that_is_being_removed_hears_of_it(wire: Wire) -> None:
    frame, other = await remembered(wire, "A"), await remembered(wire, "B")
    consumer, log = shard_of(wire.cluster).consumer, wire.cluster.log_of("g")
    timers = consumer.timers_of("g")
    assert timers is not None
    log.is_acknowledging = False
    now_ms = asyncio.get_running_loop().time() * 1000
    timers.apply(TimerOrder(TimerKind.SESSION, "A", 0), now_ms - 1)
    (due,) = timers.due(now_ms)
    assert due.member_id == "A"
    expiry = asyncio.create_task(consumer._expire("g", due, consumer._volatile["g"]))
    await until(lambda: log.pending_count > 0)
    assert wire.again(frame) is None, "B gets what A has as soon as the removal is durable"
    late = asyncio.create_task(wire.ask(frame))
    assert wire.again(other) is not None
    consumer._volatile["g"].responses.clear()
    assert (await wire.ask(other)).error_code == 0
    for _ in range(20):
        await asyncio.sleep(0)
    assert not late.done()
    log.is_acknowledging = True
    log.acknowledge()
    await expiry
    assert (await late).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("cut", [8, 15, 20, 30])
async def test_a_frame_that_is_cut_short_is_not_known(wire: Wire, cut: int) -> None:
    frame = await remembered(wire, "A")
    header = parse_request_header(frame)
    context = RequestContext(VERSION, header.client_id, HOST)
    assert wire.cluster.coordinator.repeated_heartbeat(frame[:cut], header, context, 0.0) is None


def test_what_is_cached_is_bounded() -> None:
    responses = CachedResponses()
    for number in range(1_000):
        responses.put(RequestKey(HOST, 1, b"%d" % number), b"", (), {}, 2)
        assert len(responses) <= RESPONSES_PER_MEMBER_MAX * 2
    long = RequestKey(HOST, 1, bytes(KEY_BYTES_MAX + 1))
    configs: dict[str, dict[str, str]] = {}
    responses.put(long, b"", (), configs, 2)
    assert responses.get(long, configs) is None
