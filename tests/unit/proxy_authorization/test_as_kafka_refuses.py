"""Refusals in the form that Kafka gives them, for clients who may do some things: each once differed from Kafka's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final
from uuid import UUID

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from bmq.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest
from bmq.protocol.messages.delete_topics_response import DeleteTopicsResponse
from bmq.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from bmq.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.metadata_response import MetadataResponse
from bmq.protocol.messages.offset_delete_response import OffsetDeleteResponse
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import RequestContext
from bmq.proxy.access import Access
from bmq.proxy.authorization.rules import authorized
from bmq.proxy.fetch_reader import ReplicaRights, is_of_replica
from bmq.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import Decider
from tests.unit.proxy.harness import image_of, topic_image
from tests.unit.proxy_authorization.requests import full_request

pytestmark = pytest.mark.unit

TOPIC: Final = "there"
OFFSETS_TOPIC: Final = "__consumer_offsets"
TOPIC_ID: Final = UUID(int=77)
IMAGE: Final = image_of(topic_image(TOPIC, TOPIC_ID, 1))
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def access_of(*rights: tuple[Operation, ResourceType], beside: Sequence[Acl] = ()) -> Access:
    """Of a client who has these rights over everything of the type; `beside`: other ACLs."""
    numbers = count(1)
    acls = {
        UUID(int=next(numbers)): Acl(
            kind,
            CLUSTER_NAME if kind is ResourceType.CLUSTER else "*",
            PatternType.LITERAL,
            "User:guest",
            "*",
            operation,
            Permission.ALLOW,
        )
        for operation, kind in rights
    }
    acls.update((UUID(int=next(numbers)), acl) for acl in beside)
    return Access(Decider(), lambda: acls)


def context_of(version: int) -> RequestContext:
    return RequestContext(version, "client", "10.0.0.1", principal="User:guest")


def asked(
    api_key: ApiKey, version: int, request: Any, response: Any, *rights: tuple[Operation, ResourceType]
) -> tuple[Any, list[Any]]:
    """The rule's answer where the handler answers `response`, and what the handler was asked."""
    seen = []

    async def answer(allowed: Any) -> Any:
        seen.append(allowed)
        return response

    answered = asyncio.run(authorized(api_key, request, context_of(version), access_of(*rights), IMAGE, answer))
    return answered, seen


def test_a_topic_that_is_named_twice_is_refused_once_in_metadata() -> None:
    topics = [MetadataRequestTopic(name=TOPIC)] * 2
    answered, _ = asked(ApiKey.METADATA, 12, MetadataRequest(topics=topics), MetadataResponse())
    assert [(one.name, one.error_code) for one in answered.topics] == [(TOPIC, DENIED)]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_in_versions_of_metadata_that_cannot_use_them_are_refused_as_wrong(version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=TOPIC_ID)])
    answered, seen = asked(ApiKey.METADATA, version, request, MetadataResponse())
    assert not seen
    assert [one.error_code for one in answered.topics] == [ErrorCode.INVALID_REQUEST]
    assert not answered.brokers and answered.cluster_id is None and answered.controller_id == -1


def test_operations_with_a_topic_that_does_not_exist_are_those_of_the_client() -> None:
    unknown = DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="none", topic_authorized_operations=0xFFFF
    )
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="none")])
    response = DescribeTopicPartitionsResponse(topics=[unknown])
    rights = (Operation.READ, ResourceType.TOPIC)
    answered, _ = asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request, response, rights)
    assert answered.topics[0].topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE


def test_a_name_that_is_given_twice_to_create_topics_is_the_handlers_to_refuse() -> None:
    topics = [CreatableTopic(name="new"), CreatableTopic(name="other"), CreatableTopic(name="new")]
    request = CreateTopicsRequest(topics=topics, timeout_ms=1)
    empty = refused(ApiKey.CREATE_TOPICS, replace(request, topics=[]), 0, "")
    answered, seen = asked(ApiKey.CREATE_TOPICS, 7, request, empty)
    assert [one.name for one in seen[0].topics] == ["new", "new"]
    assert [(one.name, one.error_code) for one in answered.topics] == [("other", DENIED)]


@pytest.mark.parametrize(
    ("rights", "handled"),
    [((), []), (((Operation.DESCRIBE, ResourceType.TOPIC),), ["none"])],
    ids=["nothing", "describe"],
)
def test_who_may_describe_is_told_that_a_topic_to_delete_does_not_exist(rights: Any, handled: list[str]) -> None:
    request = DeleteTopicsRequest(topic_names=["none", TOPIC], timeout_ms=1)
    answered, seen = asked(ApiKey.DELETE_TOPICS, 5, request, DeleteTopicsResponse(), *rights)
    assert seen[0].topic_names == handled
    refusals = {one.name: (one.error_code, one.error_message) for one in answered.responses}
    assert refusals == {
        name: (DENIED, "Topic authorization failed.") for name in ("none", TOPIC) if name not in handled
    }


def test_a_group_that_does_not_exist_is_all_that_offset_delete_says() -> None:
    request = full_request(ApiKey.OFFSET_DELETE, 0)
    response = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    answered, _ = asked(ApiKey.OFFSET_DELETE, 0, request, response, (Operation.DELETE, ResourceType.GROUP))
    assert answered.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert not answered.topics


def test_a_group_that_does_not_exist_is_all_that_the_deletion_of_share_offsets_says() -> None:
    request = DeleteShareGroupOffsetsRequest(
        group_id="none", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=TOPIC)]
    )
    response = DeleteShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    right = (Operation.DELETE, ResourceType.GROUP)
    answered, seen = asked(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, request, response, right)
    assert [one.topics for one in seen] == [[]]
    assert answered.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert not answered.responses


@pytest.mark.parametrize("version", range(7))
def test_no_coordinator_is_node_minus_one(version: int) -> None:
    request = full_request(ApiKey.FIND_COORDINATOR, version)
    answered, _ = asked(
        ApiKey.FIND_COORDINATOR,
        version,
        request,
        replace(refused(ApiKey.FIND_COORDINATOR, request, 0, ""), coordinators=[]),
    )
    places = [(one.node_id, one.port) for one in (*answered.coordinators, answered)]
    assert set(places) == {(-1, -1)}


def test_a_refused_streams_member_has_no_tasks_rather_than_none() -> None:
    request = full_request(ApiKey.STREAMS_GROUP_HEARTBEAT, 0)
    answered, _ = asked(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request, None)
    assert answered.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert answered.active_tasks is answered.standby_tasks is answered.warmup_tasks is None


def test_each_partition_of_a_refused_reassignment_says_so() -> None:
    request = full_request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1)
    answered, _ = asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request, None)
    codes = [one.error_code for topic in answered.responses for one in topic.partitions]
    assert [answered.error_code, *codes] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2


@pytest.mark.parametrize("version", [4, 14, 15, 18])
@pytest.mark.parametrize(
    ("right", "is_allowed"),
    [
        ((Operation.READ, ResourceType.TOPIC), False),
        ((Operation.CLUSTER_ACTION, ResourceType.CLUSTER), True),
    ],
    ids=["reader", "broker"],
)
def test_who_fetches_as_a_replica_needs_the_cluster_and_no_topic(version: int, right: Any, is_allowed: bool) -> None:
    request = FetchRequest(replica_id=5 if version < 15 else -1)
    if version >= 15:
        request.replica_state = replace(request.replica_state, replica_id=5)
    assert is_of_replica(request, version)
    rights = ReplicaRights(access_of(right), context_of(version))
    assert TOPIC not in rights.names
    assert rights.allow(TOPIC) is is_allowed


def test_beside_a_denied_topic_a_transactions_other_partitions_are_told_what_is_wrong_with_them() -> None:
    acl = Acl(ResourceType.TOPIC, "denied", PatternType.LITERAL, "User:guest", "*", Operation.WRITE, Permission.DENY)
    access = access_of(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID), (Operation.WRITE, ResourceType.TOPIC), beside=(acl,)
    )
    topics = {TOPIC: [0, 1, -1], "none": [0], "denied": [0], OFFSETS_TOPIC: [0]}
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
        ],
    )

    async def answer(allowed: Any) -> Any:
        raise AssertionError("nothing is added")

    image = image_of(topic_image(TOPIC, TOPIC_ID, 1), topic_image(OFFSETS_TOPIC, UUID(int=78), 1, is_internal=True))
    api_key = ApiKey.ADD_PARTITIONS_TO_TXN
    answered = asyncio.run(authorized(api_key, request, context_of(3), access, image, answer))
    found = {
        (topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for topic in answered.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    }
    assert found == {
        (TOPIC, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (TOPIC, 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (TOPIC, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("denied", 0): DENIED,
        (OFFSETS_TOPIC, 0): DENIED,
    }
