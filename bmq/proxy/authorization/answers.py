"""Makes the parts of answers about topics and groups that a client may not describe or use. Decisions only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import (
    consumer_group_describe_response,
    delete_records_response,
    describe_groups_response,
    describe_producers_response,
    list_offsets_response,
    offset_commit_response,
    offset_delete_response,
    offset_for_leader_epoch_response,
    share_group_describe_response,
    streams_group_describe_response,
    txn_offset_commit_response,
)
from bmq.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from bmq.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from bmq.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from bmq.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from bmq.protocol.messages.delete_groups_response import DeletableGroupResult
from bmq.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponseTopic
from bmq.protocol.messages.find_coordinator_response import Coordinator
from bmq.protocol.messages.metadata_request import MetadataRequestTopic
from bmq.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from bmq.protocol.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from bmq.protocol.refusals import partitions_refused

_NO_ID = UUID(int=0)


def partitions_with_code(api_key: ApiKey, name: str, partitions: Iterable[int], code: ErrorCode, message: str) -> Any:
    """A topic of an answer. Each partition has this code, and the message if the API has a field for one."""
    match api_key:
        case ApiKey.LIST_OFFSETS:
            offsets = list_offsets_response
            return offsets.ListOffsetsTopicResponse(
                name=name,
                partitions=[
                    offsets.ListOffsetsPartitionResponse(partition_index=one, error_code=code) for one in partitions
                ],
            )
        case ApiKey.DELETE_RECORDS:
            deletions = delete_records_response
            return deletions.DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    deletions.DeleteRecordsPartitionResult(partition_index=one, low_watermark=-1, error_code=code)
                    for one in partitions
                ],
            )
        case ApiKey.OFFSET_FOR_LEADER_EPOCH:
            epochs = offset_for_leader_epoch_response
            return epochs.OffsetForLeaderTopicResult(
                topic=name, partitions=[epochs.EpochEndOffset(partition=one, error_code=code) for one in partitions]
            )
        case ApiKey.DESCRIBE_PRODUCERS:
            producers = describe_producers_response
            return producers.TopicResponse(
                name=name,
                partitions=[
                    producers.PartitionResponse(partition_index=one, error_code=code, error_message=message)
                    for one in partitions
                ],
            )
        case ApiKey.OFFSET_DELETE:
            removed = offset_delete_response
            return removed.OffsetDeleteResponseTopic(
                name=name,
                partitions=[
                    removed.OffsetDeleteResponsePartition(partition_index=one, error_code=code) for one in partitions
                ],
            )
    raise ValueError(f"{api_key.name} has no answer by partition here")


def commit_refused(api_key: ApiKey, topics: Sequence[Any], code: ErrorCode) -> Any:
    """The answer to an OffsetCommit or TxnOffsetCommit in which each partition has this code."""
    if api_key is ApiKey.OFFSET_COMMIT:
        commit = offset_commit_response
        return commit.OffsetCommitResponse(
            topics=[
                commit.OffsetCommitResponseTopic(
                    topic_id=topic.topic_id,
                    name=topic.name,
                    partitions=[
                        commit.OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                        for one in topic.partitions
                    ],
                )
                for topic in topics
            ]
        )
    txn = txn_offset_commit_response
    return txn.TxnOffsetCommitResponse(
        topics=[
            txn.TxnOffsetCommitResponseTopic(
                topic_id=topic.topic_id,
                name=topic.name,
                partitions=[
                    txn.TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                    for one in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def metadata_topic(asked: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    """A refused topic of Metadata. It does not show whether the topic exists: no id if it was named, no name if asked by id."""
    if asked.name is not None:
        return MetadataResponseTopic(error_code=code, name=asked.name, topic_id=_NO_ID)
    return MetadataResponseTopic(error_code=code, name=None, topic_id=asked.topic_id)


def metadata_by_id_refused(topics: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    """The refusal of Metadata 10 and 11 by id: Kafka refuses such a request, and leaves the cluster out of the answer."""
    code = ErrorCode.INVALID_REQUEST
    return MetadataResponse(
        topics=[MetadataResponseTopic(error_code=code, name=one.name or "", topic_id=one.topic_id) for one in topics]
    )


def described_topic(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_id=_NO_ID)


def fetched_topic_refused(asked: Any, code: ErrorCode, *, is_grouped: bool) -> Any:
    """A refused topic of OffsetFetch. `is_grouped`: the version is 8 or later."""
    if is_grouped:
        return OffsetFetchResponseTopics(
            topic_id=asked.topic_id,
            name=asked.name,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=one, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
                )
                for one in asked.partition_indexes
            ],
        )
    return OffsetFetchResponseTopic(
        name=asked.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=one, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
            )
            for one in asked.partition_indexes
        ],
    )


def group_refused(group_id: str, code: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, error_code=code)


def coordinator_refused(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)


def described_group_refused(api_key: ApiKey, group_id: str, code: ErrorCode, message: str) -> Any:
    """A refused group of DescribeGroups, or of the descriptions of the newer group protocols."""
    if api_key is ApiKey.DESCRIBE_GROUPS:
        return describe_groups_response.DescribedGroup(group_id=group_id, error_code=code, error_message=message)
    if api_key is ApiKey.CONSUMER_GROUP_DESCRIBE:
        return consumer_group_describe_response.DescribedGroup(
            group_id=group_id, error_code=code, error_message=message
        )
    if api_key is ApiKey.SHARE_GROUP_DESCRIBE:
        return share_group_describe_response.DescribedGroup(group_id=group_id, error_code=code, error_message=message)
    return streams_group_describe_response.DescribedGroup(group_id=group_id, error_code=code, error_message=message)


def deleted_group_refused(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code)


def topics_of_txn_refused(
    denied: Sequence[AddPartitionsToTxnTopic], others: Sequence[AddPartitionsToTxnTopic], image: MetadataImage
) -> AddPartitionsToTxnResponse:
    """The answer to AddPartitionsToTxn before version 4 with a denied topic: no topic is added, and the others are checked."""
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            *partitions_refused(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            *(_not_added(topic, image.topics.get(topic.name)) for topic in others),
        ]
    )


def _not_added(asked: AddPartitionsToTxnTopic, topic: TopicImage | None) -> AddPartitionsToTxnTopicResult:
    count = 0 if topic is None else len(topic.partitions)
    return AddPartitionsToTxnTopicResult(
        name=asked.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(
                partition_index=number,
                partition_error_code=ErrorCode.OPERATION_NOT_ATTEMPTED
                if 0 <= number < count
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for number in asked.partitions
        ],
    )


def acls_refused(api_key: ApiKey, request: Any, code: ErrorCode, message: str) -> Any:
    """The answer to CreateAcls or DeleteAcls in which each entry or filter has this code."""
    if api_key is ApiKey.CREATE_ACLS:
        return CreateAclsResponse(
            results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
        )
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters]
    )
