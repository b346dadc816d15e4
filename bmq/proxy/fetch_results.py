"""Makes results of a fetch: of partitions in error or without records, and all results by topic, as responses have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from bmq.log.partition_log import AbortedTransaction, PartitionLog
from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import OTHER_LEADER, ErrorCode
from bmq.protocol.hot_fetch import FetchResult, FetchTopicResult
from bmq.protocol.hot_parts import LeaderHint, NodeEndpoint
from bmq.proxy.fetch_session import Interest
from bmq.proxy.topic_views import client_leader

if TYPE_CHECKING:
    from bmq.proxy.stats import ProxyStats

_LEADER_HINTS_FROM: Final = 16
_NOT_ASKED_OF_THE_LOG: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


def without_records(
    interest: Interest, log: PartitionLog, aborted: Sequence[tuple[int, int]] | None, **fields: Any
) -> FetchResult:
    """A result without records. `fields`: the fields of FetchResult that say why it has none."""
    return FetchResult(
        interest.partition,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        aborted_transactions=aborted,
        **fields,
    )


def error_result(image: MetadataImage, interest: Interest, code: ErrorCode, api_version: int) -> FetchResult:
    """A result with an error, and with the present leader if the version has a field for it (KIP-951)."""
    hint = None
    if code in OTHER_LEADER and api_version >= _LEADER_HINTS_FROM and interest.topic_partition is not None:
        partition = image.partition(*interest.topic_partition)
        if partition is not None:
            leader = client_leader(image, interest.topic_partition, partition)
            hint = LeaderHint(leader, partition.leader_epoch)
    # For unknown and refused partitions Kafka answers with an empty array of records, for errors of its log with null.
    aborted = () if code in _NOT_ASKED_OF_THE_LOG else None
    return FetchResult(interest.partition, code, current_leader=hint, aborted_transactions=aborted)


def response_topics(
    included: Iterable[tuple[Interest, FetchResult]], stats: ProxyStats
) -> tuple[list[FetchTopicResult], set[int]]:
    """(neighbouring results grouped by topic, the nodes that results name as leaders). Counts the errors."""
    topics: list[FetchTopicResult] = []
    hinted: set[int] = set()
    partitions: list[FetchResult] = []
    previous: Interest | None = None
    for interest, result in included:
        if previous is None or interest.name != previous.name or interest.topic_id != previous.topic_id:
            partitions = []
            topics.append(FetchTopicResult(interest.name, interest.topic_id, partitions))
            previous = interest
        partitions.append(result)
        if result[1]:
            stats.note_error(ApiKey.FETCH, result[1])
        if result[8] is not None:
            hinted.add(result[8].leader_id)
    return topics, hinted


def endpoints(image: MetadataImage, node_ids: set[int]) -> list[NodeEndpoint]:
    """The addresses of these nodes for clients, by id."""
    nodes = image.nodes
    found = (nodes[node_id] for node_id in sorted(node_ids) if node_id in nodes)
    return [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in found]


def in_order(aborted: Sequence[AbortedTransaction]) -> Sequence[tuple[int, int]]:
    """(producer id, first offset) of each transaction, by first offset, as responses have them."""
    return sorted(((one.producer_id, one.first_offset) for one in aborted), key=_first_offset) if aborted else ()


def known_aborted(log: PartitionLog, from_offset: int, to_offset: int) -> Sequence[tuple[int, int]] | None:
    """The aborted transactions that a client needs for these offsets; None if the owner has to be asked."""
    found = log.aborted_transactions(from_offset, to_offset)
    return None if found is None else in_order(found)


def _first_offset(aborted: tuple[int, int]) -> int:
    return aborted[1]
