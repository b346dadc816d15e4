"""The group APIs from bytes to bytes, every version: decoded, handled by a coordinator over fakes, encoded again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.coordinator.coordinator import GroupCoordinator
from bmq.metadata.image import Node
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import decode_request, decode_response, encode_request, encode_response, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from bmq.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from bmq.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from bmq.protocol.request_context import RequestContext
from bmq.proxy.access import OPEN, Access
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.handlers import find_coordinator, forwarded  # noqa: F401  (register)
from tests.unit.coordinator.cluster import Cluster

pytestmark = pytest.mark.unit


@dataclass(frozen=True)
class GroupServices:
    """The part of bmq.proxy.services.Services that these handlers use."""

    node: Node
    groups: GroupCoordinator
    transactions: Any = None
    share_states: Any = None
    access: Access = OPEN
    controller: Any = field(default_factory=lambda: SimpleNamespace(image=SimpleNamespace(nodes={})))


class Wire:
    """A client's view: messages go through the codec in both directions."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.services = cast(Any, GroupServices(Node(3, "broker.example", 9092), self.cluster.coordinator))

    async def ask(self, key: ApiKey, version: int, message: Any) -> Any:
        frame = encode_request(key, version, 7, "client", message)
        header = parse_request_header(frame)
        request = decode_request(header, frame)
        context = RequestContext(version, header.client_id, "127.0.0.1")
        response = await HANDLERS[key](request, context, self.services)
        correlation_id, answer = decode_response(key, version, encode_response(key, version, 7, response))
        assert correlation_id == 7
        return answer


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    made = Wire()
    yield made
    await made.cluster.coordinator.close()


def versions(key: ApiKey) -> range:
    return range(APIS[key].version_min, APIS[key].version_max + 1)


async def join(wire: Wire, version: int = 3, member_id: str = "") -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return await wire.ask(ApiKey.JOIN_GROUP, version, request)


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
async def test_find_coordinator(wire: Wire, version: int) -> None:
    answer = await wire.ask(
        ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"])
    )
    found = answer.coordinators if version >= 4 else [answer]
    assert [(c.node_id, c.host, c.port, c.error_code) for c in found] == [(3, "broker.example", 9092, 0)] * len(found)
    assert len(found) == (2 if version >= 4 else 1)
    # Kafka's words for no error.
    assert {c.error_message for c in found} == {"" if version >= 4 else "NONE" if version else None}
    assert wire.cluster.coordinator.directory.find("g") is not None


async def test_find_coordinator_at_another_node(wire: Wire) -> None:
    class Elsewhere:
        async def prepare(self, group_id: str) -> Node | None:
            return Node(8, "other.example", 9093) if group_id == "g" else None

    as_seen_here = SimpleNamespace(image=SimpleNamespace(nodes={8: Node(8, "seen.example", 9095)}))
    groups = cast(Any, Elsewhere())
    for controller, address in (
        (wire.services.controller, ("other.example", 9093)),
        (as_seen_here, ("seen.example", 9095)),
    ):
        wire.services = cast(Any, GroupServices(wire.services.node, groups, controller=controller))
        await finds_at(wire, *address)


async def finds_at(wire: Wire, host: str, port: int) -> None:
    request = FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"])
    found = (await wire.ask(ApiKey.FIND_COORDINATOR, 6, request)).coordinators
    assert [(c.key, c.node_id, c.host, c.port) for c in found] == [
        ("g", 8, host, port),
        ("h", 3, "broker.example", 9092),
    ]


async def test_find_coordinator_of_a_transactional_id(wire: Wire) -> None:
    class Elsewhere:
        async def prepare(self, transactional_id: str, /) -> Node | None:
            return Node(8, "other.example", 9093) if transactional_id == "g" else None

    wire.services = cast(Any, GroupServices(wire.services.node, wire.cluster.coordinator, Elsewhere()))
    request = FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"], key_type=1)
    found = (await wire.ask(ApiKey.FIND_COORDINATOR, 6, request)).coordinators
    assert [(c.key, c.node_id, c.error_code) for c in found] == [("g", 8, 0), ("h", 3, 0)]
    assert (await wire.ask(ApiKey.FIND_COORDINATOR, 1, request)).node_id == 8
    assert not wire.cluster.coordinator.directory.ready


@pytest.mark.parametrize("key_type", [2, 9])
async def test_find_coordinator_of_something_else(wire: Wire, key_type: int) -> None:
    request = FindCoordinatorRequest(key="x", coordinator_keys=["x"], key_type=key_type)
    (found,) = (await wire.ask(ApiKey.FIND_COORDINATOR, 6, request)).coordinators
    assert (found.error_code, found.node_id, found.key) == (ErrorCode.INVALID_REQUEST, -1, "x")
    assert "not served" in found.error_message
    assert (await wire.ask(ApiKey.FIND_COORDINATOR, 1, request)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("a:group:ASNFZ4mrze8BI0VniavN7w:12", ErrorCode.NONE),
        ("g:ASNFZ4mrze8BI0VniavN7w", ErrorCode.INVALID_REQUEST),
        ("g:ASNFZ4mrze8BI0VniavN7w:-1", ErrorCode.INVALID_REQUEST),
        (":ASNFZ4mrze8BI0VniavN7w:1", ErrorCode.INVALID_REQUEST),
        ("g:not an id:1", ErrorCode.INVALID_REQUEST),
        ("", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_find_coordinator_of_a_share_partition(wire: Wire, key: str, error: ErrorCode) -> None:
    class Elsewhere:
        async def prepare(self, asked: str, /) -> Node | None:
            return Node(8, "other.example", 9093)

    node, groups = wire.services.node, wire.cluster.coordinator
    wire.services = cast(Any, GroupServices(node, groups, share_states=Elsewhere()))
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=2)
    (found,) = (await wire.ask(ApiKey.FIND_COORDINATOR, 6, request)).coordinators
    assert (found.key, found.error_code, found.node_id) == (key, error, -1 if error else 8)


async def test_find_coordinator_without_an_offsets_topic(wire: Wire) -> None:
    wire.cluster.shards.error = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "no node is alive")
    answer = await wire.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="g"))
    assert (answer.error_code, answer.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
async def test_join_group(wire: Wire, version: int) -> None:
    answer = await join(wire, version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        answer = await join(wire, version, answer.member_id)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert [member.member_id for member in answer.members] == [answer.member_id]
    assert (await join(wire, version, "nobody")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
async def test_sync_group(wire: Wire, version: int) -> None:
    member_id = (await join(wire)).member_id
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")],
    )
    answer = await wire.ask(ApiKey.SYNC_GROUP, version, request)
    assert (answer.error_code, answer.assignment) == (0, b"all")
    request.member_id = "nobody"
    assert (await wire.ask(ApiKey.SYNC_GROUP, version, request)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
async def test_heartbeat(wire: Wire, version: int) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=(await join(wire)).member_id)
    assert (await wire.ask(ApiKey.HEARTBEAT, version, request)).error_code == 0
    request.generation_id = 2
    assert (await wire.ask(ApiKey.HEARTBEAT, version, request)).error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
async def test_leave_group(wire: Wire, version: int) -> None:
    member_id = (await join(wire)).member_id
    request = LeaveGroupRequest(group_id="g", member_id=member_id, members=[MemberIdentity(member_id=member_id)])
    answer = await wire.ask(ApiKey.LEAVE_GROUP, version, request)
    assert answer.error_code == 0
    assert [(member.member_id, member.error_code) for member in answer.members] == (
        [(member_id, 0)] if version >= 3 else []
    )


def commit_of(version: int, *partitions: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                topic_id=UUID(int=1),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=p, committed_offset=10 + p) for p in partitions
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
async def test_offset_commit(wire: Wire, version: int) -> None:
    (topic,) = (await wire.ask(ApiKey.OFFSET_COMMIT, version, commit_of(version, 0, 9))).topics
    assert (topic.topic_id == UUID(int=1)) if version >= 10 else (topic.name == "t")
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(0, 0), (9, 3)]


@pytest.mark.parametrize("version", versions(ApiKey.TXN_OFFSET_COMMIT))
async def test_txn_offset_commit(wire: Wire, version: int) -> None:
    request = TxnOffsetCommitRequest(
        transactional_id="id",
        group_id="g",
        producer_id=7,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                topic_id=UUID(int=1),
                partitions=[TxnOffsetCommitRequestPartition(partition_index=p, committed_offset=10) for p in (0, 9)],
            )
        ],
    )
    (topic,) = (await wire.ask(ApiKey.TXN_OFFSET_COMMIT, version, request)).topics
    assert (topic.topic_id == UUID(int=1)) if version >= 6 else (topic.name == "t")
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(0, 0), (9, 3)]
    assert await wire.cluster.fetch("g", "t", 0) == (0, -1)
    await wire.cluster.end("g")
    assert await wire.cluster.fetch("g", "t", 0) == (0, 10)


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
async def test_offset_fetch(wire: Wire, version: int) -> None:
    await wire.ask(ApiKey.OFFSET_COMMIT, 9, commit_of(9, 1))
    request = OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])],
        groups=[
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[OffsetFetchRequestTopics(name="t", topic_id=UUID(int=1), partition_indexes=[0, 1])],
            )
        ],
    )
    answer = await wire.ask(ApiKey.OFFSET_FETCH, version, request)
    (topic,) = answer.groups[0].topics if version >= 8 else answer.topics
    assert (topic.topic_id == UUID(int=1)) if version >= 10 else (topic.name == "t")
    assert [(part.committed_offset, part.metadata, part.error_code) for part in topic.partitions] == [
        (-1, "", 0),
        (11, "", 0),
    ]
    if version >= 2:
        everything = OffsetFetchRequest(
            group_id="g", topics=None, groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]
        )
        answer = await wire.ask(ApiKey.OFFSET_FETCH, version, everything)
        (topic,) = answer.groups[0].topics if version >= 8 else answer.topics
        assert [part.committed_offset for part in topic.partitions] == [11]


async def test_offset_delete(wire: Wire) -> None:
    await wire.ask(ApiKey.OFFSET_COMMIT, 9, commit_of(9, 1))
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=1)])],
    )
    answer = await wire.ask(ApiKey.OFFSET_DELETE, 0, request)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert (await wire.ask(ApiKey.OFFSET_DELETE, 0, request)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
async def test_list_groups(wire: Wire, version: int) -> None:
    await join(wire)
    (group,) = (await wire.ask(ApiKey.LIST_GROUPS, version, ListGroupsRequest())).groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    assert group.group_state == ("CompletingRebalance" if version >= 4 else "")
    assert group.group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
async def test_describe_groups(wire: Wire, version: int) -> None:
    await join(wire)
    known, missing = (await wire.ask(ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest(groups=["g", "h"]))).groups
    assert (known.group_id, known.group_state, len(known.members)) == ("g", "CompletingRebalance", 1)
    assert (missing.group_state, missing.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
async def test_delete_groups(wire: Wire, version: int) -> None:
    await wire.ask(ApiKey.OFFSET_COMMIT, 9, commit_of(9, 1))
    request = DeleteGroupsRequest(groups_names=["g", "h"])
    results = (await wire.ask(ApiKey.DELETE_GROUPS, version, request)).results
    assert [(result.group_id, result.error_code) for result in results] == [
        ("g", 0),
        ("h", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert bool(results[1].error_message) == (version >= 3)
