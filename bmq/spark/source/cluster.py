"""Requests metadata and records from a cluster, through any of its proxies: each serves every partition.

A proxy that does not answer is replaced by the next one, and transient errors are retried. After `patience_s` seconds it
raises ClusterAway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

from bmq.aio.backoff import Backoff
from bmq.internode_client.link import Link, LinkLost
from bmq.log.partition_log import AbortedTransaction
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import RETRIABLE, ErrorCode
from bmq.protocol.errors import BmqError, UnsupportedVersion
from bmq.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from bmq.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from bmq.protocol.messages.fetch_response import FetchResponse
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from bmq.protocol.messages.list_offsets_response import ListOffsetsResponse
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.metadata_response import MetadataResponse
from bmq.spark.source.options import Partition

PAUSE_FIRST_S: Final = 0.1
PAUSE_MAX_S: Final = 2.0
FETCH_WAIT_MS: Final = 500

_NO_TOPIC: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_TOPIC_EXCEPTION}
)

T = TypeVar("T")


class ClusterAway(BmqError):
    """No proxy answers, or transient errors did not pass."""

    code = ErrorCode.BROKER_NOT_AVAILABLE


class UnknownTopic(BmqError):
    """A topic or partition that does not exist, or no longer does."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class OffsetGone(BmqError):
    """The offset is no longer in the log, or never was."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


@dataclass(frozen=True, slots=True)
class Topic:
    topic_id: UUID
    partitions: tuple[int, ...]
    is_internal: bool


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches back to back; the first contains the requested offset. `aborted`: all that overlap them."""

    records: bytes
    aborted: tuple[AbortedTransaction, ...]
    log_start_offset: int


class _Passing(Exception):
    """An error that may pass, so the request is retried."""


class ClusterClient:
    """Used from one event loop; `close` it at the end. `cluster_id` and `proxies`: from the last call of `topics`.

    `servers`: the first proxies, tried in this order. `client_id` appears in the servers' logs.
    """

    def __init__(
        self, servers: Sequence[tuple[str, int]], client_id: str, random: Random, *, timeout_s: float, patience_s: float
    ) -> None:
        self._servers = list(servers)
        self._client_id = client_id
        self._random = random
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._link: Link | None = None
        self._opening = asyncio.Lock()
        self.cluster_id = ""
        self.proxies: tuple[tuple[str, int], ...] = ()

    async def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        """The existing topics of these names, or all. Raises ClusterAway."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        def read(response: MetadataResponse) -> dict[str, Topic]:
            self.cluster_id = response.cluster_id or ""
            self.proxies = tuple((broker.host, broker.port) for broker in response.brokers)
            found = {}
            for topic in response.topics:
                if topic.error_code in _NO_TOPIC or topic.name is None or topic.topic_id is None:
                    continue
                _check(topic.error_code, f"topic {topic.name}")
                partitions = tuple(sorted(one.partition_index for one in topic.partitions))
                found[topic.name] = Topic(topic.topic_id, partitions, topic.is_internal)
            return found

        return await self._call(ApiKey.METADATA, request, read)

    async def root(self) -> str:
        """Where the cluster's servers store the log, as they name it: a URL or a directory. Raises ClusterAway."""

        def read(response: DescribeLogDirsResponse) -> str:
            return response.results[0].log_dir if response.results else ""

        return await self._call(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=()), read)

    async def offsets(self, timestamps: Mapping[Partition, int], *, is_committed: bool) -> dict[Partition, int]:
        """The first offset at or past each time, or at EARLIEST or LATEST; -1 without such a record.

        LATEST gives the high watermark, or the last stable offset. Raises ClusterAway, UnknownTopic.
        """
        if not timestamps:
            return {}
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for (topic, partition), timestamp in sorted(timestamps.items()):
            one = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            by_topic.setdefault(topic, []).append(one)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(is_committed),
            topics=[ListOffsetsTopic(name=name, partitions=ones) for name, ones in by_topic.items()],
            timeout_ms=int(self._timeout_s * 1000),
        )

        def read(response: ListOffsetsResponse) -> dict[Partition, int]:
            found = {}
            for topic in response.topics:
                for one in topic.partitions:
                    _check(one.error_code, f"{topic.name}-{one.partition_index}")
                    found[topic.name, one.partition_index] = one.offset
            if missing := timestamps.keys() - found.keys():
                raise _Passing(f"no answer about {missing}")
            return found

        return await self._call(ApiKey.LIST_OFFSETS, request, read)

    async def fetch(
        self, topic: str, topic_id: UUID, partition: int, offset: int, *, length_bytes_max: int, is_committed: bool
    ) -> Fetched:
        """Records from this offset on; empty if there are none within FETCH_WAIT_MS.

        Raises ClusterAway, UnknownTopic, OffsetGone.
        """
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=length_bytes_max)
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=length_bytes_max,
            isolation_level=int(is_committed),
            topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])],
        )

        def read(response: FetchResponse) -> Fetched:
            name = f"{topic}-{partition}"
            _check(response.error_code, name)
            if not response.responses or not response.responses[0].partitions:
                raise _Passing(f"no answer about {name}")
            found = response.responses[0].partitions[0]
            if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise OffsetGone(f"{name} has no offset {offset}")
            _check(found.error_code, name)
            aborted = tuple(
                AbortedTransaction(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()
            )
            return Fetched(found.records or b"", aborted, found.log_start_offset)

        return await self._call(ApiKey.FETCH, request, read)

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
            await link.wait_gone()

    async def _call(self, api_key: ApiKey, request: Any, read: Callable[[Any], T]) -> T:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._patience_s
        backoff = Backoff(self._random, first_s=PAUSE_FIRST_S, max_s=PAUSE_MAX_S)
        while True:
            link = None
            try:
                link = await self._opened()
                left_s = max(deadline_s - loop.time(), PAUSE_FIRST_S)
                return read(await link.call(api_key, request, timeout_s=min(self._timeout_s, left_s)))
            except UnsupportedVersion as error:
                raise ClusterAway(f"no server of a bmq cluster answers there: {error}") from None
            except LinkLost as error:
                self._turn_away(link)
                reason = str(error)
            except _Passing as error:
                reason = str(error)
            pause_s = backoff.next_s()
            if loop.time() + pause_s > deadline_s:
                servers = ",".join(f"{host}:{port}" for host, port in self._servers)
                raise ClusterAway(f"the cluster at {servers} does not answer {api_key.name}: {reason}")
            await asyncio.sleep(pause_s)

    async def _opened(self) -> Link:
        async with self._opening:
            if self._link is None or not self._link.is_open:
                host, port = self._servers[0]
                self._link = await Link.open(host, port, client_id=self._client_id)
            return self._link

    def _turn_away(self, link: Link | None) -> None:
        """Leave a failed server and use the next one from now on."""
        if link is not None:
            link.close()
        if self._link is link:
            self._link = None
            self._servers.append(self._servers.pop(0))


def _check(error_code: int, what: str) -> None:
    if not error_code:
        return
    code = ErrorCode(error_code)
    if code in _NO_TOPIC:
        raise UnknownTopic(f"the cluster has no {what} any more")
    if code in RETRIABLE:
        raise _Passing(f"{what}: {code.name}")
    raise ClusterAway(f"the cluster answers {code.name} for {what}")
