"""Produces that another node forwards: taken by the owner alone, at its epoch alone, in the order of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from bmq.internode_client.link import Link
from bmq.metadata.image import OFFSETS_TOPIC_NAME
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_produce import ProduceResult, encode_produce_request, parse_produce_response
from bmq.protocol.record_batch import put_leader_epoch
from tests.unit.routing.owner_nodes import TOPIC_ID, Cluster, batch_of, key, records_of

pytestmark = pytest.mark.unit


async def forward(
    link: Link, value: bytes, *, topic_id: UUID = TOPIC_ID, partition: int = 0, leader_epoch: int = 1
) -> ProduceResult:
    records = batch_of(value)
    put_leader_epoch(records, leader_epoch)
    answer: asyncio.Future[bytearray | None] = asyncio.get_running_loop().create_future()
    body = encode_produce_request(topic_id, partition, records, acks=-1, timeout_ms=60_000)
    link.send_frame(ApiKey.PRODUCE, body, answer.set_result)
    frame = await answer
    assert frame is not None
    ((result,),) = [topic.partitions for topic in parse_produce_response(frame)]
    return result


def codes(results: Sequence[ProduceResult]) -> list[ErrorCode]:
    return [ErrorCode(result.error_code) for result in results]


def test_a_partition_that_is_not_assigned_there_is_refused_at_once() -> None:
    """Waiting for the next owner is the business of the proxy, which knows who that is."""
    cluster = Cluster()

    async def main() -> None:
        link = await cluster.links.link(3)
        begun_s = cluster.loop.time()
        assert codes([await forward(link, b"a")]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert cluster.loop.time() - begun_s < 0.01

    cluster.run(main)


@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.NONE), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
@pytest.mark.parametrize("is_started", [True, False])
def test_only_the_epoch_that_the_sender_believes_in(leader_epoch: int, code: ErrorCode, is_started: bool) -> None:
    cluster = Cluster()

    async def main() -> None:
        if is_started:
            await cluster.nodes[2].log()
        assert codes([await forward(await cluster.links.link(2), b"a", leader_epoch=leader_epoch)]) == [code]

    cluster.run(main)


def test_order_is_that_of_the_connection_also_while_the_partition_starts() -> None:
    cluster = Cluster()

    async def main() -> None:
        cluster.store.faults.request_s = (0.0, 0.01)
        link = await cluster.links.link(2)
        values = [b"%d" % number for number in range(100)]
        assert cluster.nodes[2].manager.ready(key()) is None
        results = await asyncio.gather(*(forward(link, value) for value in values))
        assert [result.base_offset for result in results] == list(range(100))
        assert await records_of(await cluster.nodes[2].log()) == values

    cluster.run(main)


def test_internal_topics_are_for_nodes_whatever_their_clients_are_called() -> None:
    cluster = Cluster()

    async def main() -> None:
        topic = replace(cluster.image.topics["t"], name=OFFSETS_TOPIC_NAME, is_internal=True)
        cluster.publish(replace(cluster.image, topics={OFFSETS_TOPIC_NAME: topic}, topics_by_id={TOPIC_ID: topic}))
        assert codes([await forward(await cluster.links.link(2), b"a")]) == [ErrorCode.NONE]

    cluster.run(main)


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ({"topic_id": UUID(int=99)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_the_owner_has_never_heard_of(names: dict[str, Any], code: ErrorCode) -> None:
    cluster = Cluster()

    async def main() -> None:
        assert codes([await forward(await cluster.links.link(2), b"a", **names)]) == [code]

    cluster.run(main)
