"""The answer to a request that failed as a whole, in the form of each API.

A response with one error code for everything gets it there; the APIs in `_REFUSALS` get it in every part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import message_format
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from bmq.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from bmq.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from bmq.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData
from bmq.protocol.messages.alter_configs_request import AlterConfigsRequest
from bmq.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse
from bmq.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from bmq.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from bmq.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from bmq.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from bmq.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from bmq.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest
from bmq.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest
from bmq.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from bmq.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from bmq.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest
from bmq.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from bmq.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from bmq.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from bmq.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from bmq.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from bmq.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from bmq.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest
from bmq.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from bmq.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from bmq.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from bmq.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from bmq.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from bmq.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.messages.init_producer_id_response import InitProducerIdResponse
from bmq.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from bmq.protocol.messages.share_group_describe_response import DescribedGroup as DescribedShareGroup
from bmq.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse
from bmq.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from bmq.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from bmq.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)


def refused(api_key: ApiKey, request: Any, code: int, message: str) -> Any:
    """The response that refuses the whole request; None when it has no field for a code.

    (Its handler then had to put the code into every part; a connection that gets None here is closed, as Kafka does.)
    """
    refuse = _REFUSALS.get(api_key)
    return _with_one_code(api_key, code, message) if refuse is None else refuse(request, ErrorCode(code), message)


def _with_one_code(api_key: ApiKey, code: int, message: str) -> Any:
    response = message_format("response", api_key).message_class
    names = {field.name for field in dataclasses.fields(response)}
    if "error_code" not in names:
        return None
    filled: dict[str, Any] = {"error_code": code}
    if "error_message" in names and message:
        filled["error_message"] = message
    return response(**filled)


def _create_topics(request: CreateTopicsRequest, code: ErrorCode, message: str) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=one.name, error_code=code, error_message=message) for one in request.topics]
    )


def _delete_topics(request: DeleteTopicsRequest, code: ErrorCode, message: str) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            *(DeletableTopicResult(name=name, error_code=code, error_message=message) for name in request.topic_names),
            *(
                DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_code=code, error_message=message)
                for one in request.topics
            ),
        ]
    )


def _create_partitions(request: CreatePartitionsRequest, code: ErrorCode, message: str) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=one.name, error_code=code, error_message=message) for one in request.topics
        ]
    )


def _describe_configs(request: DescribeConfigsRequest, code: ErrorCode, message: str) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one in request.resources
        ]
    )


def _alter_configs(request: AlterConfigsRequest, code: ErrorCode, message: str) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one in request.resources
        ]
    )


def _alter_log_dirs(request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                    for number in topic.partitions
                ],
            )
            for one in request.dirs
            for topic in one.topics
        ]
    )


def _alter_client_quotas(request: AlterClientQuotasRequest, code: int, message: str) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryData(
                error_code=code,
                error_message=message,
                entity=[EntityData(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity],
            )
            for entry in request.entries
        ]
    )


def _incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one in request.resources
        ]
    )


def _elect_leaders(request: ElectLeadersRequest, code: ErrorCode, message: str) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=one.topic,
                partition_result=[
                    PartitionResult(partition_id=number, error_code=code, error_message=message)
                    for number in one.partitions
                ],
            )
            for one in request.topic_partitions or ()
        ],
    )


def _init_producer_id(request: InitProducerIdRequest, code: ErrorCode, message: str) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def partitions_refused(
    topics: Sequence[AddPartitionsToTxnTopic], code: ErrorCode
) -> list[AddPartitionsToTxnTopicResult]:
    """Each partition of an AddPartitionsToTxn with this code."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]


def _add_partitions(request: AddPartitionsToTxnRequest, code: ErrorCode, message: str) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=code,
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=one.transactional_id, topic_results=partitions_refused(one.topics, code)
            )
            for one in request.transactions
        ],
        results_by_topic_v3_and_below=partitions_refused(request.v3_and_below_topics, code),
    )


def _describe_transactions(
    request: DescribeTransactionsRequest, code: ErrorCode, message: str
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=one, error_code=code, transaction_start_time_ms=0)
            for one in request.transactional_ids
        ]
    )


def _write_markers(request: WriteTxnMarkersRequest, code: ErrorCode, message: str) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=one.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in request.markers
        ]
    )


def _alter_users(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str
) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys([one.name for one in request.deletions] + [one.name for one in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message) for name in names]
    )


def _share_group_describe(request: ShareGroupDescribeRequest, code: ErrorCode, message: str) -> Any:
    why = message or None
    groups = [DescribedShareGroup(group_id=one, error_code=code, error_message=why) for one in request.group_ids]
    return ShareGroupDescribeResponse(groups=groups)


def _share_offsets(request: DescribeShareGroupOffsetsRequest, code: ErrorCode, message: str) -> Any:
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(group_id=one.group_id, error_code=code, error_message=message)
            for one in request.groups
        ]
    )


def _describe_users(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, message: str
) -> DescribeUserScramCredentialsResponse:
    """A result for each user that is asked for, without the name, as Kafka does."""
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=message,
        results=[
            DescribeUserScramCredentialsResult(error_code=code, error_message=message) for _ in request.users or ()
        ],
    )


def _find_coordinator(request: FindCoordinatorRequest, code: ErrorCode, message: str) -> FindCoordinatorResponse:
    """No node, as Kafka writes it; from version 4 on for each key."""
    why = message or None
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=why)
            for key in request.coordinator_keys
        ],
        error_code=code,
        error_message=why,
        node_id=-1,
        port=-1,
    )


def _reassignments(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> AlterPartitionReassignmentsResponse:
    why = message or None
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=why,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=one.partition_index, error_code=code, error_message=why
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def streams_heartbeat_refused(code: int, message: str) -> StreamsGroupHeartbeatResponse:
    """Without tasks, which is not the same as with none."""
    return StreamsGroupHeartbeatResponse(
        error_code=code,
        error_message=message or None,
        status=[],
        active_tasks=None,
        standby_tasks=None,
        warmup_tasks=None,
        partitions_by_user_endpoint=None,
    )


def _describe_quotas(
    request: DescribeClientQuotasRequest, code: ErrorCode, message: str
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


_REFUSALS: Final[dict[ApiKey, Callable[[Any, ErrorCode, str], Any]]] = {
    ApiKey.SHARE_GROUP_DESCRIBE: _share_group_describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _share_offsets,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_log_dirs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.WRITE_TXN_MARKERS: _write_markers,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_users,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_users,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_quotas,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda _, code, message: streams_heartbeat_refused(code, message),
}
