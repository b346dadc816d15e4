"""A member of a share group that speaks to a proxy over partition logs and shards in memory, through the codec."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, encode
from bmq.protocol.messages import share_acknowledge_request as acknowledging
from bmq.protocol.messages import share_fetch_request as fetching
from bmq.protocol.request_context import RequestContext
from bmq.proxy.share.consumers import ShareConsumers
from bmq.proxy.share.requests import ShareRequests
from tests.fakes.peer import FakePeer
from tests.fakes.share_states import FakeShareStates
from tests.unit.proxy_fetch.cluster import TOPIC_ID, FetchCluster

Acks = Mapping[int, Sequence[tuple[int, int, list[int]]]]
"""By partition: (first offset, last offset, types)."""
EARLIEST = {"share.auto.offset.reset": "earliest"}


class ShareCluster:
    """Topic "t" with its partitions; group "g" begins at the earliest record."""

    def __init__(self, partition_count: int = 2, **configs: str) -> None:
        self.fetch_cluster = FetchCluster(partition_count)
        self.services = self.fetch_cluster.services
        self.states = FakeShareStates()
        self.consumers = ShareConsumers(self.fetch_cluster.fetcher.shared, self.states)
        self.requests = ShareRequests(self.consumers)
        self.services.share = self.requests
        self.configure(**configs)

    def configure(self, **configs: str) -> None:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        controller: Any = self.services.controller
        controller.image = replace(controller.image, group_configs={"g": {**EARLIEST, **named}})

    async def close(self) -> None:
        await self.consumers.close()
        await self.fetch_cluster.fetcher.close()


class Member:
    """Its epoch goes on with each request."""

    def __init__(self, cluster: ShareCluster, member_id: str = "m", version: int = 2) -> None:
        self.cluster = cluster
        self.member_id = member_id
        self.version = version
        self.epoch = 0
        self.peer = FakePeer()
        self.throttle: Any = None

    def lose(self) -> None:
        """Its connection ends."""
        lost, self.peer.lost = self.peer.lost, []
        for one in lost:
            one()

    async def fetch(self, partitions: Sequence[int] = (0,), acks: Acks | None = None, **fields: Any) -> Any:
        """The response, decoded."""
        acks = acks or {}
        named = [
            fetching.FetchPartition(
                partition_index=number,
                acknowledgement_batches=[
                    fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in acks.get(number, ())
                ],
            )
            for number in dict.fromkeys((*partitions, *acks))
        ]
        forgotten, topic_id = fields.pop("forgotten", ()), fields.pop("topic_id", TOPIC_ID)
        epoch = fields.pop("epoch", self.epoch)
        request = fetching.ShareFetchRequest(
            **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**20, "max_records": 500, "batch_size": 500, **fields},
            group_id="g",
            member_id=self.member_id,
            share_session_epoch=epoch,
            topics=[fetching.FetchTopic(topic_id=topic_id, partitions=named)] if named else [],
            forgotten_topics_data=[fetching.ForgottenTopic(topic_id=TOPIC_ID, partitions=forgotten)]
            if forgotten
            else [],
        )
        self.epoch = epoch + 1
        answer = await self.cluster.requests.fetch(
            self._sent(ApiKey.SHARE_FETCH, request), self._context(), self.cluster.services
        )
        return decode("response", ApiKey.SHARE_FETCH, self.version, b"".join(map(bytes, answer.pieces)))

    async def acknowledge(self, acks: Acks, epoch: int | None = None, *, is_renew_ack: bool = False) -> Any:
        epoch = self.epoch if epoch is None else epoch
        request = acknowledging.ShareAcknowledgeRequest(
            group_id="g",
            member_id=self.member_id,
            share_session_epoch=epoch,
            is_renew_ack=is_renew_ack,
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        acknowledging.AcknowledgePartition(
                            partition_index=number,
                            acknowledgement_batches=[
                                acknowledging.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in batches
                            ],
                        )
                        for number, batches in acks.items()
                    ],
                )
            ],
        )
        self.epoch = epoch + 1
        answer = await self.cluster.requests.acknowledge(
            self._sent(ApiKey.SHARE_ACKNOWLEDGE, request), self._context(), self.cluster.services
        )
        body = encode("response", ApiKey.SHARE_ACKNOWLEDGE, self.version, answer)
        return decode("response", ApiKey.SHARE_ACKNOWLEDGE, self.version, body)

    def _sent(self, api_key: ApiKey, request: Any) -> Any:
        return decode("request", api_key, self.version, encode("request", api_key, self.version, request))

    def _context(self) -> RequestContext:
        return RequestContext(
            self.version,
            "test",
            "127.0.0.1",
            peer=self.peer,  # type: ignore[arg-type]
            throttle=self.throttle,
        )


def partitions_of(response: Any) -> dict[int, Any]:
    return {one.partition_index: one for topic in response.responses for one in topic.partitions}


def acquired_of(response: Any, partition: int = 0) -> list[tuple[int, int, int]]:
    found = partitions_of(response).get(partition)
    if found is None:
        return []
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in found.acquired_records]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
