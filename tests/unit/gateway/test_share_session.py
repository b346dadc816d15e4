"""A share session: as many records as are wanted, acknowledgements on the way, and what a lost session means for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.gateway.failure import GatewayFailed
from bmq.gateway.held_records import HeldRecord
from bmq.gateway.kafka_links import KafkaLinks
from bmq.gateway.share_member import ShareMember
from bmq.gateway.share_records import ACCEPT, RELEASE
from bmq.gateway.share_session import CLOSING, RECORD_LIMIT, Ack, ShareSession
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import share_acknowledge_response, share_fetch_response
from tests.support.waiting import until

pytestmark = pytest.mark.unit

TOPIC = UUID(int=7)
PLACE = (TOPIC, 0)
NODE = 1


class Member:
    """Knows one topic, and that one server leads its partition."""

    group, member_id = "g", "m"
    names = {TOPIC: "t"}  # noqa: RUF012

    def __init__(self) -> None:
        self.refreshed = 0

    async def link_to(self, node: int) -> None:
        assert node == NODE

    def refresh_soon(self) -> None:
        self.refreshed += 1


class Links:
    """Answers requests in the order of `answers`; without one it waits."""

    def __init__(self) -> None:
        self.requests: list[tuple[ApiKey, Any]] = []
        self.answers: asyncio.Queue[Any] = asyncio.Queue()

    def version(self, link: Any, api_key: ApiKey) -> int:
        return 2

    async def call(self, link: Any, api_key: ApiKey, request: Any, *, timeout_s: float = 0) -> Any:
        self.requests.append((api_key, request))
        return await self.answers.get()


class Streams:
    """Wants what a test says, once."""

    def __init__(self) -> None:
        self.wanted = 0
        self.records: list[HeldRecord] = []
        self.arrivals = 0

    def reserve(self) -> int:
        wanted, self.wanted = self.wanted, 0
        return wanted

    def arrived(self, reserved: int, records: Sequence[HeldRecord], lock_ms: int, *, is_whole: bool) -> None:
        self.records.extend(records)
        self.arrivals += 1


class Setup:
    def __init__(self) -> None:
        self.member, self.links, self.streams = Member(), Links(), Streams()
        self.failures: list[GatewayFailed] = []
        self.session = ShareSession(
            NODE,
            cast("ShareMember", self.member),
            cast("KafkaLinks", self.links),
            self.streams,
            1_000_000,
            self.failures.append,
        )
        self.session.assign(frozenset({PLACE}))

    def want(self, count: int) -> None:
        self.streams.wanted = count
        self.session.wake()

    def ack(self, offset: int, kind: int = ACCEPT) -> asyncio.Future[GatewayFailed | None]:
        done: asyncio.Future[GatewayFailed | None] = asyncio.get_running_loop().create_future()
        self.session.acknowledge(Ack(PLACE, offset, kind, done))
        return done

    async def end(self) -> None:
        self.links.answers.put_nowait(acknowledged())
        await self.session.close()


def fetched(*values: bytes, acquired: tuple[int, int] | None = None, error: ErrorCode = ErrorCode.NONE) -> Any:
    """Records from offset 0 on; `acquired`: the first and the last one that was."""
    ranges = []
    if acquired is not None:
        ranges.append(
            share_fetch_response.AcquiredRecords(first_offset=acquired[0], last_offset=acquired[1], delivery_count=1)
        )
    partition = share_fetch_response.PartitionData(
        partition_index=0,
        records=bytes(encode_batch([Record(None, value) for value in values])) if values else b"",
        acquired_records=ranges,
    )
    return share_fetch_response.ShareFetchResponse(
        error_code=error,
        acquisition_lock_timeout_ms=30_000,
        responses=[share_fetch_response.ShareFetchableTopicResponse(topic_id=TOPIC, partitions=[partition])],
    )


def acknowledged(error: ErrorCode = ErrorCode.NONE) -> Any:
    partition = share_acknowledge_response.PartitionData(partition_index=0, error_code=error)
    topic = share_acknowledge_response.ShareAcknowledgeTopicResponse(topic_id=TOPIC, partitions=[partition])
    return share_acknowledge_response.ShareAcknowledgeResponse(responses=[topic])


def acks_of(request: Any) -> list[tuple[int, int, int]]:
    return [
        (batch.first_offset, batch.last_offset, *batch.acknowledge_types)
        for topic in request.topics
        for partition in topic.partitions
        for batch in partition.acknowledgement_batches
    ]


async def test_it_asks_for_what_is_wanted_and_acknowledges_on_the_way() -> None:
    setup = Setup()
    setup.want(2)
    setup.links.answers.put_nowait(fetched(b"a", b"b", b"c", acquired=(0, 1)))
    await until(lambda: setup.streams.arrivals == 1)
    api, first = setup.links.requests[0]
    assert (api, first.share_session_epoch, first.max_records) == (ApiKey.SHARE_FETCH, 0, 2)
    assert (first.share_acquire_mode, acks_of(first)) == (RECORD_LIMIT, [])
    assert [record.value for record in setup.streams.records] == [b"a", b"b"]
    accepted, released = setup.ack(0), setup.ack(1, RELEASE)
    setup.want(1)
    setup.links.answers.put_nowait(fetched())
    assert (await accepted, await released) == (None, None)
    _, second = setup.links.requests[1]
    assert (second.share_session_epoch, second.max_records) == (1, 1)
    assert acks_of(second) == [(0, 0, ACCEPT), (1, 1, RELEASE)]
    await setup.end()
    assert setup.failures == []


async def test_acknowledgements_alone_need_no_fetch_and_closing_ends_the_session() -> None:
    setup = Setup()
    setup.want(1)
    setup.links.answers.put_nowait(fetched(b"a", acquired=(0, 0)))
    await until(lambda: setup.streams.arrivals == 1)
    refused = setup.ack(0)
    setup.links.answers.put_nowait(acknowledged(ErrorCode.INVALID_RECORD_STATE))
    failure = await refused
    assert failure is not None
    assert failure.status == "FAILED_PRECONDITION"
    await setup.end()
    assert [api for api, _ in setup.links.requests] == [
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.SHARE_ACKNOWLEDGE,
    ]
    assert setup.links.requests[-1][1].share_session_epoch == CLOSING


async def test_a_lost_session_is_opened_again_and_its_acknowledgements_fail() -> None:
    setup = Setup()
    setup.want(1)
    setup.links.answers.put_nowait(fetched(b"a", acquired=(0, 0)))
    await until(lambda: setup.streams.arrivals == 1)
    lost, released = setup.ack(0), setup.ack(1, RELEASE)
    setup.want(1)
    setup.links.answers.put_nowait(fetched(error=ErrorCode.SHARE_SESSION_NOT_FOUND))
    failure = await lost
    assert failure is not None
    assert failure.status == "ABORTED"
    assert await released is None, "a record of a lost session is free for others"
    setup.want(1)
    setup.links.answers.put_nowait(fetched())
    await until(lambda: setup.streams.arrivals == 3)
    assert setup.links.requests[2][1].share_session_epoch == 0
    assert setup.member.refreshed >= 1
    await setup.end()
    assert setup.failures == []


async def test_a_missing_right_ends_the_streams() -> None:
    setup = Setup()
    setup.want(1)
    setup.links.answers.put_nowait(fetched(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    await until(lambda: setup.failures)
    assert setup.failures[0].status == "PERMISSION_DENIED"
    await setup.session.close()
