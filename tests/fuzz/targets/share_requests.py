"""ShareFetch and ShareAcknowledge at a proxy: in a session that has records, and in none."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

from bmq.protocol import codec
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.errors import KafkaError, MalformedMessage
from bmq.protocol.messages import share_acknowledge_request as acknowledging
from bmq.protocol.messages import share_fetch_request as fetching
from bmq.protocol.request_context import RequestContext
from tests.fakes.peer import FakePeer
from tests.fuzz.mutation import changed
from tests.fuzz.random_messages import changed_message
from tests.fuzz.target import Target
from tests.unit.proxy_fetch.cluster import TOPIC_ID
from tests.unit.proxy_share.share_client import Member, ShareCluster

HEAD_BYTES: Final = 2
WAIT_S: Final = 10.0
_KINDS: Final = (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
_RECORDS: Final = 5
_loop: Final = asyncio.new_event_loop()
atexit.register(_loop.close)


def check(data: bytes) -> bool:
    """The first byte says which API, the second which version; the member "m" of group "g" has 5 records."""
    if len(data) < HEAD_BYTES:
        return False
    api_key, version = _kind_of(data)
    try:
        request = codec.decode("request", api_key, version, data[HEAD_BYTES:])
    except MalformedMessage:
        return False
    return _loop.run_until_complete(_answered(api_key, version, request))


def _kind_of(data: bytes) -> tuple[ApiKey, int]:
    api_key = _KINDS[data[0] % len(_KINDS)]
    api = APIS[api_key]
    return api_key, api.version_min + data[1] % (api.version_max - api.version_min + 1)


async def _answered(api_key: ApiKey, version: int, request: Any) -> bool:
    cluster = ShareCluster()
    try:
        member = Member(cluster)
        cluster.fetch_cluster.produce(0, count=_RECORDS)
        await member.fetch([0, 1])
        context = RequestContext(version, "test", "127.0.0.1", peer=FakePeer())  # type: ignore[arg-type]
        async with asyncio.timeout(WAIT_S):
            try:
                if api_key is ApiKey.SHARE_FETCH:
                    # Nobody waits for records that do not come.
                    sent = replace(request, max_wait_ms=min(request.max_wait_ms, 0))
                    pieces = await cluster.requests.fetch(sent, context, cluster.services)
                    body = b"".join(map(bytes, pieces.pieces))
                else:
                    answer = await cluster.requests.acknowledge(request, context, cluster.services)
                    body = codec.encode("response", api_key, version, answer)
            except KafkaError as error:
                assert error.code, "it is refused without a code"
                return False
        assert codec.decode("response", api_key, version, body).error_code == 0
        return True
    finally:
        await cluster.close()


def seeds() -> Iterator[bytes]:
    for version_byte in range(2):
        for epoch in (0, 1, -1, 7):
            yield _input(ApiKey.SHARE_FETCH, version_byte, _fetch(epoch))
            for types in ([1], [2, 1, 3, 0, 1], [4]):
                yield _input(ApiKey.SHARE_ACKNOWLEDGE, version_byte, _acknowledge(epoch, types))
                yield _input(ApiKey.SHARE_FETCH, version_byte, _fetch(epoch, types))


def _fetch(epoch: int, types: list[int] | None = None) -> Any:
    batches = (
        [] if types is None else [fetching.AcknowledgementBatch(first_offset=0, last_offset=4, acknowledge_types=types)]
    )
    partition = fetching.FetchPartition(partition_index=0, acknowledgement_batches=batches)
    return fetching.ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=epoch,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=500,
        batch_size=500,
        topics=[fetching.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def _acknowledge(epoch: int, types: list[int]) -> Any:
    batch = acknowledging.AcknowledgementBatch(first_offset=0, last_offset=4, acknowledge_types=types)
    partition = acknowledging.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    return acknowledging.ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=epoch,
        topics=[acknowledging.AcknowledgeTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def _input(api_key: ApiKey, version_byte: int, request: Any) -> bytes:
    head = bytes((_KINDS.index(api_key), version_byte))
    return head + codec.encode("request", api_key, _kind_of(head)[1], request)


def mutate(data: bytes, dice: Random) -> bytes:
    """One or two fields drawn anew of a request of the member, most of the time with the right session."""
    if len(data) < HEAD_BYTES or not dice.randrange(4):
        types = [dice.randrange(-1, 6) for _ in range(dice.choice((1, 1, 2, 5)))]
        request = dice.choice((_fetch, _acknowledge))(dice.choice((0, 1, 1, 1, -1, 2)), types)
        api_key = ApiKey.SHARE_FETCH if isinstance(request, fetching.ShareFetchRequest) else ApiKey.SHARE_ACKNOWLEDGE
        data = _input(api_key, dice.randrange(256), request)
    api_key, version = _kind_of(data)
    try:
        request = codec.decode("request", api_key, version, data[HEAD_BYTES:])
    except MalformedMessage:
        return changed(data, dice)
    entity = codec.message_format("request", api_key).entity(version)
    for _ in range(dice.randint(1, 2)):
        request = changed_message(entity, request, dice)
    made = data[:HEAD_BYTES] + codec.encode("request", api_key, version, request)
    return made if dice.randrange(4) else changed(made, dice)


TARGET: Final = Target("share_requests", seeds, check, ("bmq.proxy.share",), mutate)
