"""A request that failed as a whole is refused in the form of its API, in every version."""

from __future__ import annotations

import dataclasses
from typing import Any
from uuid import UUID

import pytest

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import decode_response, encode_response
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from bmq.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from bmq.protocol.messages.end_txn_request import EndTxnRequest
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from bmq.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from bmq.protocol.refusals import refused
from tests.support.asking import key_of
from tests.unit.controller.support import create, delete, describe, full, grow, incremental, topic

pytestmark = pytest.mark.unit

TWO_PARTITIONS = [TopicPartitions(topic="a", partitions=[0, 1])]
# A request, and how many codes say that it is refused.
REQUESTS: list[tuple[Any, int]] = [
    (create(topic("a"), topic("b")), 2),
    (delete("a", UUID(int=5)), 2),
    (grow("a", 3), 1),
    (describe((2, "a", None), (4, "1", None)), 2),
    (incremental(2, "a", ("retention.ms", 0, "5")), 1),
    (full(2, "a", ("retention.ms", "5")), 1),
    (ElectLeadersRequest(topic_partitions=TWO_PARTITIONS), 3),
    (ElectLeadersRequest(topic_partitions=None), 1),
    (AlterPartitionReassignmentsRequest(), 1),
    (ListPartitionReassignmentsRequest(), 1),
    (HeartbeatRequest(group_id="g"), 1),
    (InitProducerIdRequest(transactional_id="id"), 1),
    (EndTxnRequest(transactional_id="id"), 1),
    (DescribeTransactionsRequest(transactional_ids=["a", "b"]), 2),
    (
        WriteTxnMarkersRequest(
            markers=[WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1])])]
        ),
        2,
    ),
]


def codes_in(part: Any) -> list[int]:
    """Every error code of a response, the outermost first."""
    if isinstance(part, (list, tuple)):
        return [code for one in part for code in codes_in(one)]
    if not dataclasses.is_dataclass(part):
        return []
    fields = [getattr(part, field.name) for field in dataclasses.fields(part)]
    own = [getattr(part, name) for name in ("error_code", "partition_error_code") if hasattr(part, name)]
    return own + [code for value in fields for code in codes_in(value)]


@pytest.mark.parametrize(("request_", "count"), REQUESTS, ids=lambda value: getattr(type(value), "__name__", ""))
def test_every_part_says_so(request_: Any, count: int) -> None:
    api_key = key_of(request_)
    response = refused(api_key, request_, ErrorCode.REQUEST_TIMED_OUT, "nobody answered")
    assert codes_in(response) == [ErrorCode.REQUEST_TIMED_OUT] * count
    # ElectLeaders 0 has codes for partitions alone, and here no partitions.
    first = 1 if request_ == ElectLeadersRequest(topic_partitions=None) else APIS[api_key].version_min
    for version in range(first, APIS[api_key].version_max + 1):
        encoded = encode_response(api_key, version, 3, response)
        assert ErrorCode.REQUEST_TIMED_OUT in codes_in(decode_response(api_key, version, encoded)[1])


def test_topics_to_delete_that_have_names_alone_are_refused_too() -> None:
    response = refused(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=("a", "b")), ErrorCode.NOT_CONTROLLER, "")
    assert [(one.name, one.error_code) for one in response.responses] == [("a", 41), ("b", 41)]


def test_a_response_without_a_place_for_a_code_cannot_refuse() -> None:
    assert refused(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=["g"]), ErrorCode.NOT_COORDINATOR, "") is None


def test_partitions_of_a_transaction_are_refused_one_by_one() -> None:
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0, 1])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_topics=topics, transactions=[AddPartitionsToTxnTransaction(transactional_id="id", topics=topics)]
    )
    response = refused(ApiKey.ADD_PARTITIONS_TO_TXN, request, ErrorCode.NOT_COORDINATOR, "")
    for version in range(6):
        encoded = encode_response(ApiKey.ADD_PARTITIONS_TO_TXN, version, 3, response)
        codes = codes_in(decode_response(ApiKey.ADD_PARTITIONS_TO_TXN, version, encoded)[1])
        assert codes.count(ErrorCode.NOT_COORDINATOR) == (2 if version < 4 else 3)
