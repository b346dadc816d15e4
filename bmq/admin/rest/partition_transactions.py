"""Open transactions in a topic's partitions, which of them hang, and the end of one that hangs (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bmq.admin.rest.problems import ProblemError
from bmq.admin.rest.transaction_requests import described, listed
from bmq.admin.rest.transaction_views import UNFINISHED
from bmq.admin.rest.user_requests import UserRequests
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from bmq.protocol.messages.describe_producers_response import PartitionResponse, ProducerState
from bmq.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

PRODUCERS_MAX: Final = 5_000
"""Producers whose coordinators one request asks."""


class OpenProducer(NamedTuple):
    """A producer with an open transaction in a partition. `transactional_id`: None where no coordinator knows the transaction."""

    partition: int
    state: ProducerState
    transactional_id: str | None


async def open_producers(
    requests: UserRequests, topic: str, partitions: Sequence[int]
) -> tuple[list[OpenProducer], dict[int, str]]:
    """Those of all partitions that answered, and the codes of the others.

    A transaction that no coordinator knows is looked for again afterwards: one that has just ended is gone by then. Raises ProblemError.
    """
    answers = await _producers(requests, topic, partitions)
    problems = {one.partition_index: ErrorCode(one.error_code).name for one in answers if one.error_code}
    found = [(one.partition_index, each) for one in answers for each in _open(one)]
    if len(found) > PRODUCERS_MAX:
        raise ProblemError(
            422,
            f"these partitions have {len(found)} open transactions, more than {PRODUCERS_MAX}: ask for fewer partitions",
        )
    known = await _coordinators(requests, topic, {state.producer_id for _, state in found})
    doubtful = {number for number, state in found if (state.producer_id, number) not in known}
    again = await _producers(requests, topic, sorted(doubtful))
    still = {(one.partition_index, _name(each)) for one in again for each in _open(one)}
    shown = [
        OpenProducer(number, state, known.get((state.producer_id, number)))
        for number, state in found
        if (state.producer_id, number) in known or (number, _name(state)) in still
    ]
    return shown, problems


async def write_abort(requests: UserRequests, topic: str, producer: OpenProducer) -> None:
    """End the producer's transaction in its partition. Raises ProblemError."""
    marker = WritableTxnMarker(
        producer_id=producer.state.producer_id,
        producer_epoch=producer.state.producer_epoch,
        coordinator_epoch=max(0, producer.state.coordinator_epoch),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[producer.partition])],
    )
    answer = await requests.ask(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[marker]))
    for one in (one for each in answer.markers for place in each.topics for one in place.partitions):
        if one.error_code:
            code = ErrorCode(one.error_code)
            raise ProblemError(
                403 if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else 503,
                f"partition {producer.partition} of {topic} has not taken the abort marker: {code.name}",
            )


def _open(answer: PartitionResponse) -> Iterable[ProducerState]:
    return (one for one in answer.active_producers if one.current_txn_start_offset >= 0)


def _name(state: ProducerState) -> tuple[int, int, int]:
    return state.producer_id, state.producer_epoch, state.current_txn_start_offset


async def _producers(requests: UserRequests, topic: str, partitions: Sequence[int]) -> Sequence[PartitionResponse]:
    """Raises ProblemError."""
    if not partitions:
        return ()
    asked = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=partitions)])
    answer = await requests.ask(ApiKey.DESCRIBE_PRODUCERS, asked)
    return [one for each in answer.topics for one in each.partitions]


async def _coordinators(
    requests: UserRequests, topic: str, producer_ids: Collection[int]
) -> Mapping[tuple[int, int], str]:
    """The transactional id of each (producer, partition of the topic) that a coordinator knows. Raises ProblemError."""
    if not producer_ids:
        return {}
    answer = await listed(requests, UNFINISHED, sorted(producer_ids))
    states = await described(requests, [one.transactional_id for one in answer.transaction_states])
    for one in states:
        if one.error_code not in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
            raise ProblemError(
                503, f"not all coordinators answer now ({ErrorCode(one.error_code).name}); ask again in a moment"
            )
    return {
        (state.producer_id, number): state.transactional_id
        for state in states
        for each in state.topics
        if each.topic == topic
        for number in each.partitions
    }
