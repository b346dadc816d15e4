"""How long a change of a config takes until every node acts on it, told by what clients meet there.

Each change is made and taken back, and each of the two is timed, from sending IncrementalAlterConfigs on. The nodes are
asked over connections that exist, one after the other, until each has shown it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from bench.cluster.admin import (
    AdminFailed,
    Connection,
    check,
    create_topic,
    create_topics_request,
    metadata_request,
    wait_for_leaders,
)
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from bmq.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.wire import record_batch

PARTITIONS: Final = 12
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
SET: Final = 0
DELETE: Final = 1
LIMIT_BYTES: Final = 1_000
LARGE_BYTES: Final = 4_000
RETENTION_MS: Final = 7_654_321
STRANGER: Final = "127.0.0.2"
"""An address of this machine that no server uses."""
SEEN_S_MAX: Final = 30.0
POLL_S: Final = 0.001
_COMING: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@dataclass(frozen=True, slots=True)
class Node:
    """A connection to a node, and a partition for which clients are sent to it."""

    address: str
    connection: Connection
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Change:
    """`value` of a config of the topic, or of all brokers; `is_seen`: whether a node acts on it."""

    config: str
    value: str
    resource: int
    is_seen: Callable[[Node], bool]


def measure(addresses: Sequence[str]) -> dict[str, Any]:
    """Seconds by change, on a topic of its own. `addresses`: of all nodes. Raises AdminFailed, OSError."""
    topic = f"configs-{uuid4().hex[:8]}"
    create_topic(addresses, create_topics_request(topic, PARTITIONS, 1))
    wait_for_leaders(addresses, topic, PARTITIONS)
    found: dict[str, float] = {}
    with connected(addresses, topic) as nodes:
        senders = itertools.cycle(nodes)
        for change in CHANGES:
            found[change.config] = effective_s(change, nodes, next(senders), is_set=True)
            found[f"{change.config}, back"] = effective_s(change, nodes, next(senders), is_set=False)
    return {"effective_s": {name: round(seconds, 4) for name, seconds in found.items()}}


@contextmanager
def connected(addresses: Sequence[str], topic: str) -> Iterator[list[Node]]:
    nodes: list[Node] = []
    try:
        for address in addresses:
            connection = Connection(address)
            nodes.append(Node(address, connection, topic, -1))
            answer = connection.call(ApiKey.METADATA, metadata_request([topic]))
            ids = {f"{broker.host}:{broker.port}": broker.node_id for broker in answer.brokers}
            led = [one.partition_index for one in answer.topics[0].partitions if one.leader_id == ids.get(address)]
            if not led:
                raise AdminFailed(f"clients are sent to {address} for no partition of {topic}")
            nodes[-1] = Node(address, connection, topic, led[0])
            _wait_until_led(nodes[-1])
        yield nodes
    finally:
        for node in nodes:
            node.connection.close()


def _wait_until_led(node: Node) -> None:
    """Metadata may name a leader before it knows of it. Raises AdminFailed."""
    deadline = time.monotonic() + SEEN_S_MAX
    while (code := _produced(node, b"record").error_code) != ErrorCode.NONE:
        if code not in _COMING or time.monotonic() > deadline:
            raise AdminFailed(f"{node.topic}-{node.partition} at {node.address}: {ErrorCode(code).name}")
        time.sleep(POLL_S)


def effective_s(change: Change, nodes: Sequence[Node], sender: Node, *, is_set: bool) -> float:
    """Seconds until every node shows it. Raises AdminFailed."""
    for node in nodes:
        if change.is_seen(node) == is_set:
            raise AdminFailed(f"{change.config} would be seen at {node.address} before it is changed")
    began = time.perf_counter()
    _alter(change, sender, is_set=is_set)
    for node in nodes:
        while change.is_seen(node) != is_set:
            if time.perf_counter() - began > SEEN_S_MAX:
                raise AdminFailed(f"{change.config} is not in force at {node.address} after {SEEN_S_MAX:g} s")
            time.sleep(POLL_S)
    return time.perf_counter() - began


def _alter(change: Change, sender: Node, *, is_set: bool) -> None:
    entry = AlterableConfig(
        name=change.config, config_operation=SET if is_set else DELETE, value=change.value if is_set else None
    )
    name = sender.topic if change.resource == TOPIC_RESOURCE else ""
    resource = AlterConfigsResource(resource_type=change.resource, resource_name=name, configs=(entry,))
    answer = sender.connection.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=(resource,))
    )
    for one in answer.responses:
        check(f"{change.config} at {sender.address}", one.error_code, one.error_message)


# -- What clients meet ---------------------------------------------------------------------------------------------------


def _produced(node: Node, value: bytes) -> Any:
    """What is answered for one record without a key."""
    data = PartitionProduceData(index=node.partition, records=record_batch([value]))
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=(TopicProduceData(name=node.topic, partition_data=(data,)),)
    )
    return node.connection.call(ApiKey.PRODUCE, request).responses[0].partition_responses[0]


def _refused(value: bytes, refusal: ErrorCode) -> Callable[[Node], bool]:
    def is_seen(node: Node) -> bool:
        code = _produced(node, value).error_code
        if code not in (ErrorCode.NONE, refusal):
            raise AdminFailed(f"a record at {node.address}: {ErrorCode(code).name}")
        return bool(code == refusal)

    return is_seen


def _is_stamped(node: Node) -> bool:
    answer = _produced(node, b"record")
    check(f"a record at {node.address}", answer.error_code, answer.error_message)
    return bool(answer.log_append_time_ms >= 0)


def _describes(config: str, value: str) -> Callable[[Node], bool]:
    """Of the topic, which has no value of its own."""

    def is_seen(node: Node) -> bool:
        resource = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=node.topic, configuration_keys=(config,)
        )
        answer = node.connection.call(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=(resource,))).results[0]
        check(f"configs of {node.topic}", answer.error_code, answer.error_message)
        return [one.value for one in answer.configs] == [value]

    return is_seen


def _is_turned_away(node: Node) -> bool:
    """Whether a new connection from an address that nobody else has is closed."""
    try:
        with Connection(node.address, source=STRANGER) as connection:
            connection.call(ApiKey.METADATA, metadata_request([]))
    except ConnectionError:
        return True
    return False


CHANGES: Final[Sequence[Change]] = (
    Change("max.message.bytes", str(LIMIT_BYTES), TOPIC_RESOURCE, _refused(bytes(LARGE_BYTES), ErrorCode.MESSAGE_TOO_LARGE)),
    Change("message.timestamp.type", "LogAppendTime", TOPIC_RESOURCE, _is_stamped),
    Change("cleanup.policy", "compact", TOPIC_RESOURCE, _refused(b"record", ErrorCode.INVALID_RECORD)),
    Change("message.max.bytes", str(LIMIT_BYTES), BROKER_RESOURCE, _refused(bytes(LARGE_BYTES), ErrorCode.MESSAGE_TOO_LARGE)),
    Change("log.retention.ms", str(RETENTION_MS), BROKER_RESOURCE, _describes("retention.ms", str(RETENTION_MS))),
    Change("max.connections.per.ip.overrides", f"{STRANGER}:0", BROKER_RESOURCE, _is_turned_away),
)  # fmt: skip
