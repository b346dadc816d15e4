"""Routes transaction markers to the partitions' owners: locally, or over the links to their nodes.

Markers of one turn of the event loop for the same owner go into one WriteTxnMarkers. A lost answer leaves the outcome
unknown, and the coordinator retries: a second marker of the same end changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import structlog

from bmq.coordinator.transactions.marker_delivery import MarkerWriter
from bmq.dataclass import dataclass
from bmq.internode_client.link import LinkLost
from bmq.internode_client.links import Links
from bmq.log.partition_log import TopicPartition
from bmq.log.transactions import TransactionMarker
from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from bmq.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

MARKERS_PURPOSE: Final = "markers"
_log = structlog.get_logger("bmq.routing")


@dataclass(frozen=True, slots=True)
class RoutedMarkersConfig:
    """`answer_wait_ms`: wait for an owner's answer. `markers_per_request_max`: partitions in one request."""

    answer_wait_ms: int = 15_000
    markers_per_request_max: int = 1_000


class _Queued(NamedTuple):
    topic: str
    partition: int
    marker: TransactionMarker
    done: asyncio.Future[None]


class RoutedMarkers:
    """Implements bmq.proxy.services.Markers and the coordinator's MarkerWriter. `local`: of partitions owned here.

    Create it inside the event loop.
    """

    def __init__(
        self,
        node_id: int,
        local: MarkerWriter,
        links: Links,
        image: Callable[[], MetadataImage],
        config: RoutedMarkersConfig,
    ) -> None:
        self._node_id = node_id
        self._local = local
        self._links = links
        self._image = image
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._queued: dict[int, list[_Queued]] = {}  # by owner
        self._tasks: dict[asyncio.Task[None], None] = {}  # cancelled in this order

    async def write(self, topic_partition: TopicPartition, marker: TransactionMarker) -> None:
        """Write the marker; it is durable when this returns.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (no live owner), NETWORK_EXCEPTION (it may
        have been written), and the owner's errors.
        """
        image = self._image()
        topic = image.topics_by_id.get(topic_partition.topic_id)
        partition = None if topic is None else topic.partition(topic_partition.partition)
        if topic is None or partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        owner = partition.leader
        if owner == self._node_id:
            await self._local.write(topic_partition, marker)
            return
        if owner not in image.nodes:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has no live owner")
        queued = _Queued(topic.name, topic_partition.partition, marker, self._loop.create_future())
        if not self._queued:
            self._loop.call_soon(self._flush)
        self._queued.setdefault(owner, []).append(queued)
        await queued.done

    def _flush(self) -> None:
        queued, self._queued = self._queued, {}
        for owner, all_of_it in queued.items():
            for start in range(0, len(all_of_it), self._config.markers_per_request_max):
                some = all_of_it[start : start + self._config.markers_per_request_max]
                task = self._loop.create_task(self._send(owner, some))
                self._tasks[task] = None
                task.add_done_callback(self._tasks.pop)

    async def _send(self, owner: int, queued: Sequence[_Queued]) -> None:
        by_marker: dict[TransactionMarker, list[_Queued]] = {}
        for one in queued:
            by_marker.setdefault(one.marker, []).append(one)
        request = WriteTxnMarkersRequest(markers=[_encoded(marker, some) for marker, some in by_marker.items()])
        timeout_s = self._config.answer_wait_ms / 1000
        try:
            response: WriteTxnMarkersResponse = await self._links.call(
                owner, ApiKey.WRITE_TXN_MARKERS, request, timeout_s=timeout_s, purpose=MARKERS_PURPOSE
            )
            if len(response.markers) != len(by_marker):
                raise LinkLost(f"node {owner} answers {len(response.markers)} of {len(by_marker)} markers")
        except BmqError as error:
            for one in queued:
                _settle(one, ErrorCode.NETWORK_EXCEPTION, str(error))
            return
        except Exception as error:  # noqa: BLE001 every caller must get an answer
            _log.error("markers_not_sent", node_id=owner, markers=len(queued), exc_info=error)
            for one in queued:
                _settle(one, ErrorCode.UNKNOWN_SERVER_ERROR, repr(error))
            return
        for some, result in zip(by_marker.values(), response.markers, strict=True):
            codes = {
                (topic.name, partition.partition_index): partition.error_code
                for topic in result.topics
                for partition in topic.partitions
            }
            for one in some:
                code = _known(codes.get((one.topic, one.partition), ErrorCode.UNKNOWN_SERVER_ERROR))
                _settle(one, code, f"node {owner} refuses the marker: {code.name}")


def _encoded(marker: TransactionMarker, queued: Sequence[_Queued]) -> WritableTxnMarker:
    topics: dict[str, dict[int, None]] = {}
    for one in queued:
        topics.setdefault(one.topic, {})[one.partition] = None
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=list(numbers)) for name, numbers in topics.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _settle(queued: _Queued, code: ErrorCode, reason: str) -> None:
    if queued.done.done():
        return  # the caller was cancelled
    if code is ErrorCode.NONE:
        queued.done.set_result(None)
    else:
        queued.done.set_exception(KafkaError(code, reason))
