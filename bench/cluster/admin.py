"""Kafka's admin requests over plain blocking connections, timed to the millisecond: no client library's refreshes between.

Versions are ones that bmq and Apache Kafka 4.3 both have, and that name topics rather than number them.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bmq.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from bmq.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

VERSIONS: Final[Mapping[ApiKey, int]] = {
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.PRODUCE: 9,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.SHARE_GROUP_HEARTBEAT: 1,
    ApiKey.SHARE_FETCH: 2,
    ApiKey.SHARE_ACKNOWLEDGE: 2,
}
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
"""Of a FindCoordinator."""
CLIENT_ID: Final = "bench"
CONNECT_WAIT_S: Final = 1.0
ANSWER_WAIT_S: Final = 60.0
POLL_S: Final = 0.02
LEADERS_WAIT_S: Final = 120.0


class AdminFailed(Exception):
    """Nobody answered, or with an error."""


class Connection:
    """One connection to one node. Raises OSError when it is lost, TimeoutError when nothing comes in time.

    `source`: an address of this machine, when it is not to be the usual one.
    """

    def __init__(self, address: str, timeout_s: float = ANSWER_WAIT_S, *, source: str = "") -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), CONNECT_WAIT_S, (source, 0) if source else None)
        self._socket.settimeout(timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reading = self._socket.makefile("rb", buffering=1 << 16)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reading.close()
        self._socket.close()

    def abort(self) -> None:
        """End it while another thread waits for an answer, which gets an OSError."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def exchange(self, api_key: ApiKey, request: Any) -> bytes:
        """The response frame as it came."""
        payload = encode_request(api_key, VERSIONS[api_key], next(self._correlation_ids), CLIENT_ID, request)
        return self.exchange_frame(payload)

    def exchange_frame(self, payload: bytes) -> bytes:
        self._socket.sendall(len(payload).to_bytes(4, "big") + payload)
        return self._receive(int.from_bytes(self._receive(4), "big"))

    def call(self, api_key: ApiKey, request: Any) -> Any:
        """The response message."""
        return decode_response(api_key, VERSIONS[api_key], self.exchange(api_key, request))[1]

    def _receive(self, length: int) -> bytes:
        data: bytes | None = self._reading.read(length)
        if data is None or len(data) < length:
            raise ConnectionResetError("the server closed the connection")
        return data


def call_any(addresses: Sequence[str], api_key: ApiKey, request: Any, timeout_s: float = ANSWER_WAIT_S) -> Any:
    """The answer of the first that gives one. Raises AdminFailed."""
    reasons = []
    for address in addresses:
        try:
            with Connection(address, timeout_s) as connection:
                return connection.call(api_key, request)
        except OSError as error:
            reasons.append(f"{address}: {error or type(error).__name__}")
    raise AdminFailed(f"{api_key.name} was answered by nobody ({'; '.join(reasons)})")


def check(what: str, code: int, message: str | None = None) -> None:
    """Raises AdminFailed unless `code` is NONE."""
    if code != ErrorCode.NONE:
        raise AdminFailed(f"{what}: {ErrorCode(code).name} {message or ''}".rstrip())


def metadata_request(topics: Sequence[str] | None) -> MetadataRequest:
    """None: of all topics."""
    wanted = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


def leaders(addresses: Sequence[str], topic: str) -> dict[int, int]:
    """The node that clients are sent to, by partition; -1 where there is none. Raises AdminFailed."""
    answer = call_any(addresses, ApiKey.METADATA, metadata_request([topic]))
    found = answer.topics[0]
    check(f"metadata of {topic}", found.error_code)
    return {partition.partition_index: partition.leader_id for partition in found.partitions}


def create_topics_request(
    name: str,
    partitions: int,
    replication: int,
    configs: Mapping[str, str] | None = None,
    assignments: Mapping[int, Sequence[int]] | None = None,
) -> CreateTopicsRequest:
    """`assignments`: the nodes of each partition, instead of `partitions` and `replication`."""
    placed = assignments or {}
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if placed else partitions,
        replication_factor=-1 if placed else replication,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=partition, broker_ids=tuple(nodes))
            for partition, nodes in placed.items()
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
    )
    return CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)


def create_topic(addresses: Sequence[str], request: CreateTopicsRequest, timeout_s: float = ANSWER_WAIT_S) -> None:
    """Raises AdminFailed."""
    answer = call_any(addresses, ApiKey.CREATE_TOPICS, request, timeout_s)
    for topic in answer.topics:
        check(f"topic {topic.name}", topic.error_code, topic.error_message)


def wait_for_leaders(addresses: Sequence[str], topic: str, partitions: int, timeout_s: float = LEADERS_WAIT_S) -> None:
    """Return once every partition has a leader at every address. Raises AdminFailed."""
    deadline = time.monotonic() + timeout_s
    for address in addresses:
        while True:
            try:
                found = leaders([address], topic)
            except AdminFailed as error:
                reason = str(error)
            else:
                if len(found) == partitions and -1 not in found.values():
                    break
                reason = f"{sum(leader >= 0 for leader in found.values())} of {partitions} have a leader"
            if time.monotonic() > deadline:
                raise AdminFailed(f"{topic} was not ready within {timeout_s:g} s at {address}: {reason}")
            time.sleep(POLL_S)


def reassign(addresses: Sequence[str], topic: str, partition: int, nodes: Sequence[int]) -> None:
    """What kafka-reassign-partitions sends; the partition moves after the answer. Raises AdminFailed."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000,
        topics=(
            ReassignableTopic(
                name=topic, partitions=(ReassignablePartition(partition_index=partition, replicas=tuple(nodes)),)
            ),
        ),
    )
    answer = call_any(addresses, ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
    check(f"reassignment of {topic}", answer.error_code, answer.error_message)
    for moved in answer.responses:
        for one in moved.partitions:
            check(f"reassignment of {topic}-{one.partition_index}", one.error_code, one.error_message)


def coordinator_of(addresses: Sequence[str], key: str, key_type: int = GROUP_KEY) -> tuple[int, str]:
    """(node id, HOST:PORT) of the coordinator of a group or a transactional id. Raises AdminFailed."""
    return coordinators_of(addresses, [key], key_type)[key]


def coordinators_of(
    addresses: Sequence[str], keys: Sequence[str], key_type: int = GROUP_KEY
) -> dict[str, tuple[int, str]]:
    """The same of many of them. Raises AdminFailed."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=tuple(keys))
    answer = call_any(addresses, ApiKey.FIND_COORDINATOR, request)
    for found in answer.coordinators:
        check(f"coordinator of {found.key}", found.error_code, found.error_message)
    return {found.key: (found.node_id, f"{found.host}:{found.port}") for found in answer.coordinators}
