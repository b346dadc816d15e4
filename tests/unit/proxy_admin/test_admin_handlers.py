"""Every served version of the admin APIs, from bytes to bytes, through the handlers and a controller in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from bmq.controller.config import ControllerConfig
from bmq.controller.runtime import Controller
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import METADATA_TOPIC_ID
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import decode_request, decode_response, encode_request, encode_response, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest
from bmq.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from bmq.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from bmq.protocol.messages.push_telemetry_request import PushTelemetryRequest
from bmq.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from bmq.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from bmq.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy.appender import Appender
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.handlers import forwarded, get_telemetry_subscriptions, push_telemetry  # noqa: F401  (register)
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.services import Services
from bmq.proxy.stats import ProxyStats
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.fakes.store import FakeStore
from tests.unit.controller.support import NODE, create, delete, describe, full, grow, incremental, topic

pytestmark = pytest.mark.unit


class Server:
    """`ask` does what the proxy does with a frame, without the socket."""

    def __init__(self, controller: Controller, store: FakeStore) -> None:
        self.controller = controller
        partitions, stats, loop = FakePartitions(store), ProxyStats(), asyncio.get_running_loop()
        self.services = Services(
            node=NODE,
            store=store.client("proxy"),
            partitions=partitions,
            controller=controller,
            groups=object(),  # type: ignore[arg-type]
            transactions=None,  # type: ignore[arg-type]
            markers=None,  # type: ignore[arg-type]
            clock=FakeClock(),
            appender=Appender(partitions, retries=False),
            fetcher=object(),  # type: ignore[arg-type]
            producer_ids=ProducerIds(controller.allocate_producer_ids),
            stats=stats,
            loop=loop,
        )

    async def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        frame = encode_request(api_key, version, 7, "test", request)
        header = parse_request_header(frame)
        context = RequestContext(api_version=version, client_id="test", client_host="127.0.0.1")
        response = await HANDLERS[api_key](decode_request(header, frame), context, self.services)
        return decode_response(api_key, version, encode_response(api_key, version, 7, response))[1]


async def start(broker_configs: dict[str, str] | None = None) -> Server:
    store = FakeStore()
    config = ControllerConfig(cluster_id="cluster", broker_configs=broker_configs or {})
    log = FakePartitionLog(TopicPartition(METADATA_TOPIC_ID, 0))
    controller = Controller(log, store.client("c"), NODE, FakeClock(), Random(1), config, lambda old, new: None)
    await controller.start()
    return Server(controller, store)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = await start()
    yield made
    await made.controller.close()


def versions(api_key: ApiKey) -> list[int]:
    return list(range(APIS[api_key].version_min, APIS[api_key].version_max + 1))


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
async def test_create_topics(server: Server, version: int) -> None:
    request = create(topic("t", 2, configs={"retention.ms": "5"}), topic("a b"), topic("x"), topic("x"))
    response = await server.ask(ApiKey.CREATE_TOPICS, version, request)
    made, bad, twice = response.topics
    assert (made.name, made.error_code) == ("t", ErrorCode.NONE)
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION and "'a b'" in bad.error_message
    assert (twice.error_code, twice.error_message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert (made.num_partitions, made.replication_factor) == ((2, 1) if version >= 5 else (-1, -1))
    values = {config.name: (config.value, config.config_source) for config in made.configs or ()}
    assert values.get("retention.ms") == (("5", 1) if version >= 5 else None)
    assert made.topic_id == (server.controller.image.topics["t"].topic_id if version >= 7 else None)
    again = await server.ask(ApiKey.CREATE_TOPICS, version, create(topic("t"), topic("v"), validate_only=True))
    assert [result.error_code for result in again.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE]
    assert set(server.controller.image.topics) == {"t"}


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
async def test_delete_topics(server: Server, version: int) -> None:
    await server.ask(ApiKey.CREATE_TOPICS, 7, create(topic("a"), topic("b")))
    b = server.controller.image.topics["b"].topic_id
    if version < 6:
        request = DeleteTopicsRequest(topic_names=("a", "b", "nono"), timeout_ms=5_000)
    else:
        request = delete("a", b, "nono", UUID(int=9))
    results = (await server.ask(ApiKey.DELETE_TOPICS, version, request)).responses
    assert [result.name for result in results[:3]] == ["a", "b", "nono"]
    assert [result.error_code for result in results[:3]] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (results[2].error_message is not None) == (version >= 5)
    if version >= 6:
        assert (results[1].topic_id, results[3].error_code) == (b, ErrorCode.UNKNOWN_TOPIC_ID)
    assert not server.controller.image.topics


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
async def test_disabled_deletion_has_the_code_each_version_knows(version: int) -> None:
    server = await start({"delete.topic.enable": "false"})
    await server.ask(ApiKey.CREATE_TOPICS, 7, create(topic("a")))
    request = DeleteTopicsRequest(topic_names=("a",)) if version < 6 else delete("a")
    (result,) = (await server.ask(ApiKey.DELETE_TOPICS, version, request)).responses
    expected = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
    assert result.error_code == expected
    assert "a" in server.controller.image.topics
    await server.controller.close()


async def test_list_config_resources(server: Server) -> None:
    await server.ask(ApiKey.CREATE_TOPICS, 7, create(topic("b"), topic("a")))

    async def listed(version: int, *types: int) -> list[tuple[int, str]]:
        request = ListConfigResourcesRequest(resource_types=types)
        response = await server.ask(ApiKey.LIST_CONFIG_RESOURCES, version, request)
        assert response.error_code == ErrorCode.NONE
        return [(one.resource_type, one.resource_name) for one in response.config_resources]

    assert await listed(0) == []  # client metrics alone
    await server.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, incremental(16, "all", ("metrics", 0, "*")))
    assert await listed(0) == [(16, "all")]
    assert await listed(1, 16, 32, 4) == [(16, "all"), (4, "1")]
    await server.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, incremental(16, "all", ("metrics", 1, None)))
    assert await listed(1) == [(8, "1"), (4, "1"), (2, "b"), (2, "a")]
    assert await listed(1, 2, 2) == [(2, "b"), (2, "a")]
    assert await listed(1, 16, 32, 4) == [(4, "1")]
    for unknown in (0, 3, 64, -1):
        request = ListConfigResourcesRequest(resource_types=(2, unknown))
        response = await server.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, request)
        assert (response.error_code, list(response.config_resources)) == (ErrorCode.UNSUPPORTED_VERSION, [])


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
async def test_create_partitions(server: Server, version: int) -> None:
    await server.ask(ApiKey.CREATE_TOPICS, 7, create(topic("a")))
    (grown,) = (await server.ask(ApiKey.CREATE_PARTITIONS, version, grow("a", 3))).results
    assert (grown.name, grown.error_code, grown.error_message) == ("a", ErrorCode.NONE, None)
    (shrunk,) = (await server.ask(ApiKey.CREATE_PARTITIONS, version, grow("a", 2))).results
    assert shrunk.error_code == ErrorCode.INVALID_PARTITIONS and "2 would not be an increase" in shrunk.error_message
    assert len(server.controller.image.topics["a"].partitions) == 3


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
async def test_describe_configs(server: Server, version: int) -> None:
    await server.ask(ApiKey.CREATE_TOPICS, 7, create(topic("a", configs={"retention.ms": "5"})))
    request = describe((2, "a", ("retention.ms",)), (4, "1", None), (8, "1", None), synonyms=True, documentation=True)
    found, broker, loggers = (await server.ask(ApiKey.DESCRIBE_CONFIGS, version, request)).results
    (config,) = found.configs
    assert (config.name, config.value, config.config_source) == ("retention.ms", "5", 1)
    assert [synonym.value for synonym in config.synonyms] == ["5"]
    assert config.config_type == (5 if version >= 3 else 0)
    assert (config.documentation is not None) == (version >= 3)
    assert {"node.id", "log.retention.ms", "num.partitions"} <= {config.name for config in broker.configs}
    assert {"root", "bmq.proxy"} <= {config.name for config in loggers.configs}


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
async def test_incremental_alter_configs(server: Server, version: int) -> None:
    await server.ask(ApiKey.CREATE_TOPICS, 7, create(topic("a")))
    request = incremental(2, "a", ("cleanup.policy", 2, "compact"))
    (done,) = (await server.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request)).responses
    assert (done.error_code, done.error_message, done.resource_name) == (0, None, "a")
    assert server.controller.image.topics["a"].configs == {"cleanup.policy": "delete,compact"}
    request = incremental(2, "a", ("retention.ms", 0, "eternity"))
    (bad,) = (await server.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request)).responses
    assert bad.error_code == ErrorCode.INVALID_CONFIG and "eternity" in bad.error_message


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
async def test_alter_configs(server: Server, version: int) -> None:
    await server.ask(ApiKey.CREATE_TOPICS, 7, create(topic("a", configs={"retention.ms": "5"})))
    request = full(2, "a", ("segment.ms", "9"))
    (done,) = (await server.ask(ApiKey.ALTER_CONFIGS, version, request)).responses
    assert (done.error_code, done.resource_type, done.resource_name) == (0, 2, "a")
    assert server.controller.image.topics["a"].configs == {"segment.ms": "9"}


async def test_requests_of_many_connections_at_once(server: Server) -> None:
    answers = await asyncio.gather(
        *(server.ask(ApiKey.CREATE_TOPICS, 7, create(topic(f"t{number % 10}"))) for number in range(50))
    )
    codes = [answer.topics[0].error_code for answer in answers]
    assert codes.count(ErrorCode.NONE) == 10 and codes.count(ErrorCode.TOPIC_ALREADY_EXISTS) == 40


async def test_nodes_and_voters_stay_what_they_are(server: Server) -> None:
    """The only node lives, and nobody votes."""
    only = await server.ask(ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=1))
    assert (only.error_code, only.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Broker ID 1 is alive: stop the node before it is unregistered",
    )
    unknown = await server.ask(ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=7))
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    active = await server.ask(ApiKey.UNREGISTER_CONTROLLER, 0, UnregisterControllerRequest(controller_id=1))
    assert active.error_code == ErrorCode.INVALID_REQUEST
    other = await server.ask(ApiKey.UNREGISTER_CONTROLLER, 0, UnregisterControllerRequest(controller_id=7))
    assert other.error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    for version in versions(ApiKey.ADD_RAFT_VOTER):
        added = await server.ask(ApiKey.ADD_RAFT_VOTER, version, AddRaftVoterRequest(voter_id=2))
        assert added.error_code == ErrorCode.INVALID_REQUEST
    removed = await server.ask(
        ApiKey.REMOVE_RAFT_VOTER, 0, RemoveRaftVoterRequest(voter_id=2, voter_directory_id=UUID(int=5))
    )
    assert removed.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_client_learns_what_is_asked_for_and_sends_it(server: Server) -> None:
    request = incremental(16, "all", ("metrics", 0, "*"), ("interval.ms", 0, "100"))
    (done,) = (await server.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses
    assert done.error_code == ErrorCode.NONE
    asked = await server.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, GetTelemetrySubscriptionsRequest())
    assert (asked.error_code, list(asked.requested_metrics), asked.push_interval_ms) == (0, ["*"], 100)
    assert asked.client_instance_id is not None and asked.client_instance_id.version == 4

    async def push(metrics: bytes, subscription_id: int) -> int:
        pushed = PushTelemetryRequest(
            client_instance_id=asked.client_instance_id, subscription_id=subscription_id, metrics=metrics
        )
        return int((await server.ask(ApiKey.PUSH_TELEMETRY, 0, pushed)).error_code)

    stats = server.services.telemetry.stats
    assert await push(b"metrics", asked.subscription_id) == ErrorCode.NONE
    assert (stats.pushes, stats.pushed_bytes, stats.dropped) == (1, 7, 1)
    assert await push(b"metrics", asked.subscription_id) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    again = GetTelemetrySubscriptionsRequest(client_instance_id=asked.client_instance_id)
    early = await server.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, again)
    assert early.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    await server.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, incremental(16, "all", ("interval.ms", 0, "200")))
    assert await push(b"metrics", asked.subscription_id) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert (await server.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, again)).push_interval_ms == 200
    assert stats.pushes == 1
