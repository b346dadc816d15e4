"""Offsets in transactions: TxnOffsetCommit, and the markers that end transactions in the groups' shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bmq.coordinator.api.commit_checks import check_transactional_committer
from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.api.ownership import proven_error
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.runtime.log_errors import coordinator_error, marker_error
from bmq.log.state_log import Producer
from bmq.log.transactions import TransactionClaim, TransactionMarker, TransactionVerifier
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_commit_response import OffsetCommitResponseTopic
from bmq.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from bmq.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from bmq.protocol.request_context import RequestContext

_LOADING_FROM: Final = 2
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5


class TxnOffsetApi:
    """TxnOffsetCommit, and markers. `verifier` None: transactions are not available yet."""

    def __init__(self, context: CoordinatorContext, verifier: TransactionVerifier | None) -> None:
        self._context = context
        self._verifier = verifier

    def use_transactions(self, verifier: TransactionVerifier) -> None:
        """Verify transactional commits with `verifier` from now on."""
        self._verifier = verifier

    async def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> TxnOffsetCommitResponse:
        """TxnOffsetCommit 0-6. Answers when the offsets are durable; they are visible once the transaction commits.

        Nothing is written unless the shard's partition is part of the producer's open transaction.
        """
        version = context.api_version
        if not request.group_id:
            return refused_transactional(request.topics, ErrorCode.INVALID_GROUP_ID, version)
        try:
            shard = await self._context.directory.get(request.group_id)
        except KafkaError as error:
            return refused_transactional(request.topics, coordinator_error(error), version)
        commit = _as_commit(request)
        decided = shard.offsets.commit(commit, self._context.image(), ErrorCode.NONE, self._context.clock.now_ms())
        if not decided.records:
            return _response(decided.topics)  # nothing to write, so leave the shard out of the transaction
        producer = Producer(request.producer_id, request.producer_epoch)
        code = await self._admitted(shard, request, producer, version)
        if code is ErrorCode.NONE and shard.is_lost:
            code = ErrorCode.NOT_COORDINATOR
        if code is ErrorCode.NONE:
            code = await proven_error(
                shard, check_transactional_committer(shard, commit, version, self._context.image())
            )
        decided = shard.offsets.commit(
            commit, self._context.image(), _sent_error(code, version), self._context.clock.now_ms()
        )
        if decided.records:
            try:
                await shard.commit(request.group_id, decided.partitions, decided.records, producer)
            except BmqError as error:
                code = _sent_error(coordinator_error(error), version)
                for topic in decided.topics:
                    for partition in topic.partitions:
                        if partition.error_code == ErrorCode.NONE:
                            partition.error_code = code
        return _response(decided.topics)

    async def write_marker(self, partition_number: int, marker: TransactionMarker) -> None:
        """End a producer's transaction in this partition of the offsets topic; its committed offsets are visible
        afterwards.

        Raises KafkaError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, the errors of an append, and
        NOT_LEADER_OR_FOLLOWER when this process does not own the partition, or did not load it in time.
        """
        try:
            if not self._context.has_offsets_topic():
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "there is no offsets topic")
            shard = await self._context.directory.load(partition_number)
            await shard.write_marker(marker)
        except BmqError as error:
            raise KafkaError(marker_error(error), str(error)) from error

    async def _admitted(
        self, shard: GroupShard, request: TxnOffsetCommitRequest, producer: Producer, api_version: int
    ) -> ErrorCode:
        """Whether the producer may write to the shard's log now, by its coordinator's answer or the log itself."""
        if producer.producer_id < 0:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer.producer_epoch < 0:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self._verifier is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        claim = TransactionClaim(
            request.transactional_id,
            may_add=api_version >= _ADDS_FROM,
            is_abortable_told=api_version >= _ABORTABLE_FROM,
        )
        return await shard.transactions.admit(self._verifier, claim, producer)


def refused_transactional(
    topics: Iterable[TxnOffsetCommitRequestTopic], error: ErrorCode, api_version: int
) -> TxnOffsetCommitResponse:
    """The answer to a TxnOffsetCommit that failed as a whole."""
    code = _sent_error(error, api_version)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def _sent_error(error: ErrorCode, api_version: int) -> ErrorCode:
    """Clients of the first versions do not know COORDINATOR_LOAD_IN_PROGRESS."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < _LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


def _as_commit(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=part.partition_index,
                        committed_offset=part.committed_offset,
                        committed_leader_epoch=part.committed_leader_epoch,
                        committed_metadata=part.committed_metadata,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _response(topics: Sequence[OffsetCommitResponseTopic]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=part.error_code)
                    for part in topic.partitions
                ],
            )
            for topic in topics
        ]
    )
