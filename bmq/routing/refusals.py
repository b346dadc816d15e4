"""Answers of the controller's APIs that a proxy gives in its place: refusals in the form of each API.

An API whose response has no place for one error code gets it in every part, as from the controller itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.alter_configs_request import AlterConfigsRequest
from bmq.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse
from bmq.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from bmq.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest
from bmq.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest
from bmq.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest
from bmq.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest
from bmq.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from bmq.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from bmq.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from bmq.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from bmq.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from bmq.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse


def refused(api_key: ApiKey, request: Any, code: ErrorCode, message: str) -> Any:
    """The response that refuses all of the request. KeyError for an API that is not the controller's."""
    return _REFUSALS[api_key](request, code, message)


def _create_topics(request: CreateTopicsRequest, code: ErrorCode, message: str) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=one.name, error_code=code, error_message=message) for one in request.topics]
    )


def _delete_topics(request: DeleteTopicsRequest, code: ErrorCode, message: str) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_code=code, error_message=message)
            for one in request.topics
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


def _alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)


def _list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)


_REFUSALS: Final[dict[ApiKey, Callable[[Any, ErrorCode, str], Any]]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
}
