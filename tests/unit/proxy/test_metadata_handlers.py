"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, InitProducerId: every version, over a socket."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.metadata.features import CLIENT_FEATURES
from bmq.metadata.image import Node
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.describe_cluster_request import DescribeClusterRequest
from bmq.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.messages.init_producer_id_response import InitProducerIdResponse
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.request_context import RequestContext
from bmq.proxy.client_telemetry import ClientTelemetry
from bmq.proxy.dispatch import HANDLERS, HOT_HANDLERS
from bmq.proxy.handlers.describe_topic_partitions import page_of
from bmq.proxy.services import DESCRIBED_PARTITIONS_MAX
from bmq.proxy.telemetry_receiver import CountingReceiver, TelemetryStats
from tests.unit.proxy.harness import CLUSTER_ID, NODE, TOPIC_ID, Client, Proxy, image_of, topic_image

pytestmark = pytest.mark.unit

NOT_ASKED_FOR = -(2**31)
TOPIC_OPERATIONS = 3576  # what an Apache Kafka without an authorizer answers
CLUSTER_OPERATIONS = 8096


def versions(api_key: ApiKey) -> range:
    return range(APIS[api_key].version_min, APIS[api_key].version_max + 1)


def known(**fields: Any) -> ApiVersionsRequest:
    return ApiVersionsRequest(**{"client_software_name": "tester", "client_software_version": "1.0", **fields})


def named(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


# --- ApiVersions


@pytest.mark.parametrize("version", versions(ApiKey.API_VERSIONS))
async def test_api_versions_names_what_has_a_handler_and_nothing_more(
    proxy: Proxy, client: Client, version: int
) -> None:
    response = await client.ask(ApiKey.API_VERSIONS, version, known())
    assert response.error_code == 0
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert set(ranges) == ({*HANDLERS, *HOT_HANDLERS} & set(APIS)) - telemetry  # others are for nodes only
    assert ranges[ApiKey.PRODUCE] == (0, 13)  # KAFKA-18659
    assert all(ranges[key] == (APIS[key].advertised_min, APIS[key].version_max) for key in ranges)
    # Before version 4 a lowest level of 0 is more than clients can read.
    finalized = {f.name: (f.min_version_level, f.max_version_level) for f in response.finalized_features}
    assert finalized == ({name: (high, high) for name, (_, high) in CLIENT_FEATURES.items()} if version >= 3 else {})
    supported = {one.name: (one.min_version, one.max_version) for one in response.supported_features}
    assert supported == (CLIENT_FEATURES if version >= 4 else {})


async def test_api_versions_names_the_finalized_features(proxy: Proxy, client: Client) -> None:
    proxy.controller.image = replace(proxy.controller.image, features={"a.feature": 3})
    response = await client.ask(ApiKey.API_VERSIONS, 4, known())
    assert response.finalized_features_epoch == 42
    told = {**{name: high for name, (_, high) in CLIENT_FEATURES.items()}, "a.feature": 3}
    assert (told["group.version"], told["streams.version"], told["transaction.version"]) == (1, 1, 2)
    assert {f.name: f.max_version_level for f in response.finalized_features} == told
    supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
    assert supported == {**CLIENT_FEATURES, "a.feature": (1, 3)}


async def test_api_versions_names_levels_that_were_lowered(proxy: Proxy, client: Client) -> None:
    proxy.controller.image = replace(proxy.controller.image, features={"group.version": 0, "transaction.version": 1})
    response = await client.ask(ApiKey.API_VERSIONS, 4, known())
    finalized = {f.name: f.max_version_level for f in response.finalized_features}
    assert finalized == {"share.version": 2, "streams.version": 1, "transaction.version": 1}
    supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
    assert supported == CLIENT_FEATURES


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "ü", "x\n", "."])
@pytest.mark.parametrize("field", ["client_software_name", "client_software_version"])
async def test_api_versions_refuses_software_names_kafka_refuses(client: Client, name: str, field: str) -> None:
    response = await client.ask(ApiKey.API_VERSIONS, 3, known(**{field: name}))
    assert (response.error_code, list(response.api_keys)) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, 0),
        (CLUSTER_ID, 1, 0),
        (CLUSTER_ID, -1, 0),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, 2, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
async def test_api_versions_tells_a_client_that_it_reached_another_server(
    client: Client, cluster_id: str | None, node_id: int, code: int
) -> None:
    response = await client.ask(ApiKey.API_VERSIONS, 5, known(cluster_id=cluster_id, node_id=node_id))
    assert response.error_code == code


# --- Metadata


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
async def test_metadata_of_all_topics(proxy: Proxy, client: Client, version: int) -> None:
    request = MetadataRequest(topics=() if version == 0 else None)
    for _ in range(2):  # the second answer comes from the kept bytes
        response = await client.ask(ApiKey.METADATA, version, request)
        assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", 9092)]
        (topic,) = response.topics
        assert (topic.error_code, topic.name, topic.is_internal) == (0, "t", False)
        assert [p.partition_index for p in topic.partitions] == list(range(6))
        assert {(p.error_code, p.leader_id, tuple(p.replica_nodes)) for p in topic.partitions} == {(0, 1, (1,))}
        assert {p.leader_epoch for p in topic.partitions} == {3 if version >= 7 else -1}
        assert topic.topic_id == (TOPIC_ID if version >= 10 else None)
        assert response.cluster_id == (CLUSTER_ID if version >= 2 else None)
        assert response.controller_id == (1 if version >= 1 else -1)
        assert topic.topic_authorized_operations == NOT_ASKED_FOR


async def test_metadata_follows_a_new_image(proxy: Proxy, client: Client) -> None:
    everything = MetadataRequest(topics=None)
    assert [t.name for t in (await client.ask(ApiKey.METADATA, 12, everything)).topics] == ["t"]
    proxy.controller.image = image_of(topic_image("u", UUID(int=5), 1), topic_image("v", UUID(int=6), 1))
    assert [t.name for t in (await client.ask(ApiKey.METADATA, 12, everything)).topics] == ["u", "v"]


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
async def test_a_topic_is_answered_once_however_often_it_is_asked_for(
    proxy: Proxy, client: Client, version: int
) -> None:
    proxy.services.is_auto_create_enabled = False
    response = await client.ask(ApiKey.METADATA, version, MetadataRequest(topics=named("t", "no", "t", "t", "no")))
    assert [topic.name for topic in response.topics] == ["t", "no"]


@pytest.mark.parametrize("topics", [None, named("t")])
async def test_metadata_names_proxies_that_just_left_and_no_other_answer_does(
    proxy: Proxy, client: Client, topics: list[MetadataRequestTopic] | None
) -> None:
    async def named_nodes() -> list[tuple[int, int]]:
        response = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=topics))
        assert {p.leader_id for topic in response.topics for p in topic.partitions} == {1}
        return [(broker.node_id, broker.port) for broker in response.brokers]

    left = (Node(7, "127.0.0.1", 77), Node(8, "127.0.0.1", 88, roles=frozenset({"broker"})))
    departed: tuple[Node, ...] = left
    proxy.services.departed = lambda: departed
    assert await named_nodes() == [(1, 9092), (7, 77)]
    described = await client.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
    assert [broker.broker_id for broker in described.brokers] == [1]
    departed = ()
    assert await named_nodes() == [(1, 9092)]


@pytest.mark.parametrize("topics", [None, named("t")])
async def test_metadata_with_authorized_operations(client: Client, topics: list[MetadataRequestTopic] | None) -> None:
    plain = await client.ask(ApiKey.METADATA, 8, MetadataRequest(topics=topics))
    asked = await client.ask(
        ApiKey.METADATA,
        8,
        MetadataRequest(
            topics=topics, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        ),
    )
    assert (plain.cluster_authorized_operations, plain.topics[0].topic_authorized_operations) == (
        NOT_ASKED_FOR,
        NOT_ASKED_FOR,
    )
    assert (asked.cluster_authorized_operations, asked.topics[0].topic_authorized_operations) == (
        CLUSTER_OPERATIONS,
        TOPIC_OPERATIONS,
    )


async def test_metadata_of_no_topics(client: Client) -> None:
    response = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=()))
    assert list(response.topics) == [] and len(response.brokers) == 1


async def test_metadata_by_id(client: Client) -> None:
    asked = [MetadataRequestTopic(topic_id=TOPIC_ID, name=None), MetadataRequestTopic(topic_id=UUID(int=9), name=None)]
    response = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=asked))
    assert [(t.error_code, t.name, t.topic_id) for t in response.topics] == [
        (0, "t", TOPIC_ID),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, UUID(int=9)),
    ]


@pytest.mark.parametrize("version", [10, 11])
async def test_metadata_by_id_in_a_version_that_has_ids_only_in_its_answers(client: Client, version: int) -> None:
    asked = [MetadataRequestTopic(topic_id=TOPIC_ID, name="t")]
    response = await client.ask(ApiKey.METADATA, version, MetadataRequest(topics=asked))
    assert [t.error_code for t in response.topics] == [ErrorCode.INVALID_REQUEST]
    assert (list(response.brokers), response.cluster_id, response.controller_id) == ([], None, -1)


async def test_metadata_creates_what_is_missing_when_it_may(proxy: Proxy, client: Client) -> None:
    request = MetadataRequest(topics=named("new", "t", "new", "bad name"), allow_auto_topic_creation=True)
    response = await client.ask(ApiKey.METADATA, 12, request)
    assert [(t.error_code, t.name, len(t.partitions)) for t in response.topics] == [
        (0, "new", 2),
        (0, "t", 6),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "bad name", 0),
    ]
    assert proxy.controller.created == ["new"]


@pytest.mark.parametrize(("allowed", "enabled"), [(False, True), (True, False)])
async def test_metadata_creates_nothing_when_it_may_not(
    proxy: Proxy, client: Client, allowed: bool, enabled: bool
) -> None:
    proxy.services.is_auto_create_enabled = enabled
    request = MetadataRequest(topics=named("new", "a/b"), allow_auto_topic_creation=allowed)
    response = await client.ask(ApiKey.METADATA, 12, request)
    assert [t.error_code for t in response.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert proxy.controller.created == []


@pytest.mark.parametrize(
    ("refusal", "answered"),
    [
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR),
        (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
        (ErrorCode.NOT_CONTROLLER, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
async def test_metadata_says_why_a_topic_was_not_created(
    proxy: Proxy, client: Client, refusal: ErrorCode, answered: ErrorCode
) -> None:
    proxy.controller.refuse_creation = refusal
    response = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=named("new", "t")))
    assert [t.error_code for t in response.topics] == [answered, 0]


async def test_metadata_of_a_partition_without_a_live_leader(proxy: Proxy, client: Client) -> None:
    proxy.controller.image = image_of(topic_image("t", TOPIC_ID, 1, leader=-1))
    for topics in (None, named("t")):
        (topic,) = (await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=topics))).topics
        (partition,) = topic.partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_metadata_names_offline_replicas_and_internal_topics(proxy: Proxy, client: Client) -> None:
    image = image_of(topic_image("__consumer_offsets", TOPIC_ID, 1, is_internal=True))
    topic = image.topics["__consumer_offsets"]
    moved = replace(topic, partitions=(replace(topic.partitions[0], replicas=(1, 8, 9)),))
    proxy.controller.image = replace(image, topics={topic.name: moved}, topics_by_id={TOPIC_ID: moved})
    (found,) = (await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics
    assert found.is_internal
    assert (list(found.partitions[0].replica_nodes), list(found.partitions[0].offline_replicas)) == ([1, 8, 9], [8, 9])


# --- DescribeCluster


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
async def test_describe_cluster(client: Client, version: int) -> None:
    response = await client.ask(
        ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, CLUSTER_ID, 1)
    assert [(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in response.brokers] == [
        (NODE.node_id, NODE.host, NODE.port, NODE.rack, False)
    ]
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS


async def test_clients_are_to_ask_for_subscriptions_while_there_are_any_or_a_receiver(
    proxy: Proxy, client: Client
) -> None:
    async def is_named() -> bool:
        response = await client.ask(ApiKey.API_VERSIONS, 4, known())
        return {71, 72} <= {api.api_key for api in response.api_keys}

    assert not await is_named()
    image = proxy.controller.image
    proxy.controller.image = replace(image, client_metrics={"a": {"metrics": "*"}})
    assert await is_named()
    proxy.controller.image = image
    assert not await is_named()
    proxy.services.telemetry = ClientTelemetry(receiver=CountingReceiver(TelemetryStats()))
    assert await is_named()


async def test_fenced_nodes_are_described_if_they_are_asked_for(proxy: Proxy, client: Client) -> None:
    fenced = {5: Node(5, "h5", 9092, "r"), 6: Node(6, "", -1, roles=frozenset({"broker"}))}
    proxy.controller.image = replace(proxy.controller.image, fenced_nodes=fenced)
    for is_asked, expected in ((False, [(1, False)]), (True, [(1, False), (5, True)])):
        request = DescribeClusterRequest(include_fenced_brokers=is_asked)
        response = await client.ask(ApiKey.DESCRIBE_CLUSTER, 2, request)
        assert [(broker.broker_id, broker.is_fenced) for broker in response.brokers] == expected


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_describe_cluster_has_one_type_of_endpoint(client: Client, endpoint_type: int, code: int) -> None:
    response = await client.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert response.error_code == code and response.error_message
    assert list(response.brokers) == []


# --- DescribeTopicPartitions


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 9), max_size=6),
    st.integers(1, 12),
)
def test_pages_together_are_everything_once_and_in_order(counts: dict[str, int], limit: int) -> None:
    image = image_of(*(topic_image(name, UUID(int=n + 1), count) for n, (name, count) in enumerate(counts.items())))
    seen: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    for _ in range(sum(counts.values()) + 1):
        page = page_of(image, DescribeTopicPartitionsRequest(response_partition_limit=limit, cursor=cursor))
        found = [(topic.name or "", p.partition_index) for topic in page.topics for p in topic.partitions]
        assert len(found) <= limit
        seen += found
        if page.next_cursor is None:
            break
        assert found
        cursor = Cursor(topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index)
    assert seen == [(name, number) for name in sorted(counts) for number in range(counts[name])]


@pytest.mark.parametrize("limit", [-5, 0, 1])
async def test_describe_topic_partitions_gives_at_least_one(client: Client, limit: int) -> None:
    response = await client.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest(response_partition_limit=limit)
    )
    assert [len(topic.partitions) for topic in response.topics] == [1]
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("t", 1)


async def test_describe_topic_partitions_is_bounded_whatever_is_asked(proxy: Proxy, client: Client) -> None:
    proxy.controller.image = image_of(topic_image("big", TOPIC_ID, DESCRIBED_PARTITIONS_MAX + 5))
    response = await client.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest(response_partition_limit=2**31 - 1)
    )
    assert sum(len(topic.partitions) for topic in response.topics) == DESCRIBED_PARTITIONS_MAX
    assert response.next_cursor.partition_index == DESCRIBED_PARTITIONS_MAX


async def test_describe_topic_partitions_by_name(client: Client) -> None:
    asked = [TopicRequest(name=name) for name in ("t", "nope", "bad name", "t")]
    response = await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest(topics=asked))
    assert [(t.name, t.error_code, len(t.partitions)) for t in response.topics] == [
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        ("t", 0, 6),
    ]
    assert response.topics[2].topic_id == TOPIC_ID
    assert response.topics[2].topic_authorized_operations == TOPIC_OPERATIONS
    assert response.next_cursor is None


async def test_describe_topic_partitions_from_a_cursor_that_no_longer_fits(client: Client) -> None:
    cursor = Cursor(topic_name="t", partition_index=100)
    response = await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest(cursor=cursor))
    assert [len(topic.partitions) for topic in response.topics] == [0]
    assert response.next_cursor is None


async def test_describe_topic_partitions_from_a_cursor_below_0(client: Client) -> None:
    cursor = Cursor(topic_name="t", partition_index=-1)
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")], cursor=cursor)
    response = await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    assert [(one.name, one.error_code, list(one.partitions)) for one in response.topics] == [
        ("t", ErrorCode.INVALID_REQUEST, [])
    ]


# --- InitProducerId


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
async def test_producer_ids_are_given_once(proxy: Proxy, client: Client, version: int) -> None:
    for _ in range(20):
        client.send(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest())
    answers = [(await client.answer(ApiKey.INIT_PRODUCER_ID, version))[1] for _ in range(20)]
    assert {(a.error_code, a.producer_epoch) for a in answers} == {(0, 0)}
    assert len({a.producer_id for a in answers}) == 20
    assert proxy.controller.blocks_given == 5


async def test_callers_share_a_request_for_the_next_block(proxy: Proxy) -> None:
    given = await asyncio.gather(*(proxy.services.producer_ids.next() for _ in range(4)))
    assert sorted(given) == [0, 1, 2, 3]
    assert proxy.controller.blocks_given == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5, "producer_epoch": 3}, 0),
        ({"producer_id": 5, "producer_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": -1, "producer_epoch": 3}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "tx", "producer_id": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_which_requests_get_an_id(client: Client, fields: dict[str, Any], code: int) -> None:
    response = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(**fields))
    assert response.error_code == code
    assert (response.producer_id, response.producer_epoch) == ((0, 0) if code == 0 else (-1, -1))


async def test_a_transactional_id_is_its_coordinators(proxy: Proxy, client: Client) -> None:
    asked: list[tuple[ApiKey, Any]] = []

    class Coordinators:
        async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
            asked.append((api_key, request))
            return InitProducerIdResponse(producer_id=77, producer_epoch=4)

    proxy.services.transactions = Coordinators()  # type: ignore[assignment]
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
    response = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 77, 4)
    assert asked == [(ApiKey.INIT_PRODUCER_ID, request)]


async def test_no_block_is_a_reason_to_ask_again(proxy: Proxy, client: Client) -> None:
    proxy.controller.refuse_blocks = ErrorCode.NOT_CONTROLLER
    response = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest())
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    proxy.controller.refuse_blocks = None
    assert (await client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest())).error_code == 0
