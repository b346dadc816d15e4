"""Forwarded requests: who asked arrives with them, answers come back as they are, and only some APIs pass (KIP-590)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.default_principal_data.v0.data import DefaultPrincipalData
from kio.serial import entity_writer

from bmq.controller.decision_log import ControllerGone
from bmq.internode_client.envelope import (
    FORWARDED,
    encode_host,
    encode_principal,
    forward,
    parse_host,
    parse_principal,
)
from bmq.internode_client.link import LinkLost, LinkTimeout
from bmq.internode_client.links import Links
from bmq.internode_server.handlers.envelope import FORWARDING_DELAY_S_MAX, envelope
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import encode_request, message_format
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.envelope_request import EnvelopeRequest
from bmq.protocol.messages.envelope_response import EnvelopeResponse
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.heartbeat_response import HeartbeatResponse
from bmq.protocol.messages.join_group_request import JoinGroupRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from bmq.protocol.request_context import Received, RequestContext, by_itself
from bmq.proxy.access import Access
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.stall_watch import StallWatch
from bmq.security.authorizer import Decider
from tests.fakes.clock import FakeClock
from tests.fakes.loop_time import LoopTime
from tests.fakes.partition_log import FakePartitions
from tests.unit.internode_client.scripted_peer import ScriptedPeer
from tests.unit.internode_server.internal_node import (
    FakeLeadership,
    InternalNode,
    RecordingHandler,
    internal_over,
    start_internal_node,
)
from tests.unit.proxy.harness import FakeController, image_of, services_over, until
from tests.unit.proxy_authorization.requests import full_request

pytestmark = pytest.mark.unit

LONG_S = 60.0
NODE = 2
CONTEXT = RequestContext(9, "the client", "192.0.2.7", principal="User:alice")
JOIN = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer")


@pytest.fixture
async def node() -> AsyncIterator[InternalNode]:
    made = await start_internal_node()
    yield made
    await made.stop()


@pytest.fixture
async def links(node: InternalNode) -> AsyncIterator[Links]:
    made = Links("node-1", {NODE: (node.host, node.port)}.get)
    yield made
    await made.close()


def at(version: int) -> RequestContext:
    return RequestContext(version, "the client", "192.0.2.7", principal="User:alice")


# --- who asks


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "User:alice", "User:a:b", "User:", "User:" + "Ünïcode" * 30])
def test_a_principal_is_written_as_kafka_does(principal: str) -> None:
    kind, name = principal.split(":", 1)
    expected = BytesIO(b"\0\0")
    expected.seek(2)
    entity_writer(DefaultPrincipalData)(
        expected, DefaultPrincipalData(type_=kind, name=name, token_authenticated=False)
    )
    assert encode_principal(principal) == expected.getvalue()
    assert parse_principal(encode_principal(principal)) == (principal, False)
    assert parse_principal(encode_principal(principal, is_token=True)) == (principal, True)


@given(st.binary(max_size=40))
def test_a_principal_of_any_bytes_is_parsed_or_refused(data: bytes) -> None:
    try:
        assert ":" in parse_principal(data)[0]
    except MalformedMessage:
        pass


@pytest.mark.parametrize(
    ("host", "raw", "seen"),
    [
        ("192.0.2.7", b"\xc0\0\x02\x07", "192.0.2.7"),
        ("2001:db8::1", bytes.fromhex("20010db8000000000000000000000001"), "2001:db8::1"),
        ("fe80::1%eth0", bytes.fromhex("fe800000000000000000000000000001"), "fe80::1"),
        ("unknown", b"", "unknown"),
        ("client-1", b"", "unknown"),
    ],
)
def test_a_clients_address_travels_as_raw_bytes(host: str, raw: bytes, seen: str) -> None:
    assert encode_host(host) == raw
    assert parse_host(raw) == seen


async def test_the_coordinator_sees_the_request_and_who_asked(node: InternalNode, links: Links) -> None:
    async def answer(request: Any, context: RequestContext) -> Any:
        return JoinGroupResponse(generation_id=5, member_id="m-1", leader="m-1", protocol_name="range")

    node.groups.answer = answer
    response = await forward(links, NODE, ApiKey.JOIN_GROUP, JOIN, CONTEXT, timeout_s=LONG_S)
    assert (response.generation_id, response.member_id) == (5, "m-1")
    ((api_key, request, context),) = node.groups.asked
    assert api_key is ApiKey.JOIN_GROUP and request == JOIN
    assert (context.api_version, context.client_id, context.client_host, context.principal) == (
        9,
        "the client",
        "192.0.2.7",
        "User:alice",
    )
    assert context.peer is None  # the node's connection is not the client's


async def test_what_was_received_is_passed_on_as_it_came(node: InternalNode, links: Links) -> None:
    async def answer(request: Any, context: RequestContext) -> Any:
        return JoinGroupResponse(member_id="m-1")

    node.groups.answer = answer
    received = Received(bytearray(encode_request(ApiKey.JOIN_GROUP, 9, 1234, "as it came", JOIN)), JOIN)
    for message in (JOIN, replace(JOIN)):
        context = replace(CONTEXT, received=received)
        response = await forward(links, NODE, ApiKey.JOIN_GROUP, message, context, timeout_s=LONG_S)
        assert response.member_id == "m-1"
    assert [request == JOIN for _, request, _ in node.groups.asked] == [True, True]
    assert [context.client_id for _, _, context in node.groups.asked] == ["as it came", "the client"]


@pytest.mark.parametrize("api_key", sorted(FORWARDED))
async def test_every_forwarded_api_passes_in_all_its_versions(
    node: InternalNode, links: Links, monkeypatch: pytest.MonkeyPatch, api_key: ApiKey
) -> None:
    request = message_format("request", api_key).message_class()
    response = message_format("response", api_key).message_class()
    seen: list[Any] = []

    async def answer(request: Any, context: RequestContext, services: Any) -> Any:
        seen.append((type(request), context.api_version))
        return response

    monkeypatch.setitem(HANDLERS, api_key, answer)
    for version in range(APIS[api_key].version_min, APIS[api_key].version_max + 1):
        answered = await forward(links, NODE, api_key, request, at(version), timeout_s=LONG_S)
        assert type(answered) is type(response)
        assert seen[-1] == (type(request), version)


# --- rights


FILTERED = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}
"""Their answers are filtered."""


async def joined(request: Any, context: RequestContext) -> Any:
    return JoinGroupResponse(member_id="m-1")


async def created_as_asked(request: Any, context: RequestContext) -> Any:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=one.name) for one in request.topics])


@pytest.mark.parametrize("principal", ["User:alice", "User:mallory"])
async def test_the_node_that_acts_looks_at_the_clients_rights_again(
    node: InternalNode, links: Links, principal: str
) -> None:
    """An envelope is not enough: the node that forwarded it may have no authorizer, or older ACLs."""
    node.services.client_access = Access(Decider(frozenset({"User:alice"})), dict)
    node.groups.answer, node.controller.answer = joined, created_as_asked
    may = principal == "User:alice"
    context = replace(CONTEXT, principal=principal)
    answered = await forward(links, NODE, ApiKey.JOIN_GROUP, JOIN, context, timeout_s=LONG_S)
    assert answered.error_code == (0 if may else ErrorCode.GROUP_AUTHORIZATION_FAILED)
    context = replace(context, api_version=7)
    made = await forward(links, NODE, ApiKey.CREATE_TOPICS, CREATE, context, timeout_s=LONG_S)
    assert made.topics[0].error_code == (0 if may else ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert len(node.groups.asked) == may
    assert [topic.name for _, request, _ in node.controller.asked for topic in request.topics] == ["n"] * may


OF_OWNERS = {ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN}
"""A token's owner and renewers alone may do these, and the controller looks at them itself."""


@pytest.mark.parametrize("api_key", sorted(OF_OWNERS | {ApiKey.CREATE_DELEGATION_TOKEN}))
async def test_a_client_that_logged_in_by_a_token_changes_none_through_another_node(
    node: InternalNode, links: Links, api_key: ApiKey
) -> None:
    request = full_request(api_key, APIS[api_key].version_max)
    context = replace(at(APIS[api_key].version_max), is_token=True)
    response = await forward(links, NODE, api_key, request, context, timeout_s=LONG_S)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert node.controller.asked == []


@pytest.mark.parametrize("api_key", sorted(FORWARDED - FILTERED - OF_OWNERS))
async def test_no_forwarded_api_gets_past_the_rights(
    node: InternalNode, links: Links, monkeypatch: pytest.MonkeyPatch, api_key: ApiKey
) -> None:
    seen: list[ApiKey] = []

    def refuses(self: Access, *_: Any, **__: Any) -> bool:
        seen.append(api_key)
        return False

    monkeypatch.setattr(Access, "allows", refuses)
    monkeypatch.setattr(Access, "allows_any", refuses)
    node.services.client_access = Access(Decider(frozenset()), dict)
    request = full_request(api_key, APIS[api_key].version_max)
    with structlog.testing.capture_logs():
        try:
            await forward(links, NODE, api_key, request, at(APIS[api_key].version_max), timeout_s=LONG_S)
        except KafkaError:
            pass  # in place of an answer without room for the refusal, or by the fakes behind a filter of the answer
    assert seen, "nobody looked at the client's rights"


async def test_a_node_needs_no_right_for_its_own_requests_and_a_client_of_its_name_does(
    node: InternalNode, links: Links
) -> None:
    node.services.client_access = Access(Decider(frozenset()), dict)
    node.controller.answer = created_as_asked
    own = by_itself(ApiKey.CREATE_TOPICS)
    response = await forward(links, NODE, ApiKey.CREATE_TOPICS, CREATE, own, timeout_s=LONG_S)
    assert response.topics[0].error_code == 0
    client = replace(own, client_host="192.0.2.7")
    response = await forward(links, NODE, ApiKey.CREATE_TOPICS, CREATE, client, timeout_s=LONG_S)
    assert response.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [topic.name for _, request, _ in node.controller.asked for topic in request.topics] == ["n"]


async def test_what_may_not_be_seen_is_left_out_of_a_forwarded_listing(node: InternalNode, links: Links) -> None:
    async def listed(request: Any, context: RequestContext) -> Any:
        return ListGroupsResponse(groups=[ListedGroup(group_id="g")])

    node.groups.answer = listed
    request = ListGroupsRequest()
    response = await forward(links, NODE, ApiKey.LIST_GROUPS, request, at(5), timeout_s=LONG_S)
    assert [one.group_id for one in response.groups] == ["g"]
    node.services.client_access = Access(Decider(frozenset()), dict)
    response = await forward(links, NODE, ApiKey.LIST_GROUPS, request, at(5), timeout_s=LONG_S)
    assert not response.groups


# --- what fails inside


async def test_a_refusal_with_a_place_in_the_response_stays_there(node: InternalNode, links: Links) -> None:
    async def refuse(request: Any, context: RequestContext) -> Any:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    node.groups.answer = refuse
    response = await forward(links, NODE, ApiKey.JOIN_GROUP, JOIN, CONTEXT, timeout_s=LONG_S)
    assert response.error_code == ErrorCode.NOT_COORDINATOR


async def test_a_refusal_without_a_place_is_raised(node: InternalNode, links: Links) -> None:
    async def refuse(request: Any, context: RequestContext) -> Any:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    node.groups.answer = refuse
    with pytest.raises(KafkaError) as caught:
        await forward(links, NODE, ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=["g"]), at(5), timeout_s=LONG_S)
    assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert "DESCRIBE_GROUPS" in str(caught.value)


async def test_a_mistake_in_a_handler_is_one_line_and_an_error(node: InternalNode, links: Links) -> None:
    async def broken(request: Any, context: RequestContext) -> Any:
        raise ValueError("a mistake")

    node.groups.answer = broken
    with structlog.testing.capture_logs() as lines, pytest.raises(KafkaError) as caught:
        await forward(links, NODE, ApiKey.JOIN_GROUP, JOIN, CONTEXT, timeout_s=LONG_S)
    assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [line["event"] for line in lines] == ["handler_failed"]
    assert "JOIN_GROUP" in lines[0]["error"] and "a mistake" in lines[0]["error"]


# --- the controller


CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="n", num_partitions=1, replication_factor=1)])


async def created(request: Any, context: RequestContext) -> Any:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="n")])


async def test_the_controller_hears_the_clients_principal(node: InternalNode, links: Links) -> None:
    node.controller.answer = created
    response = await forward(links, NODE, ApiKey.CREATE_TOPICS, CREATE, at(7), timeout_s=LONG_S)
    assert response.topics[0].name == "n"
    ((api_key, request, context),) = node.controller.asked
    assert (api_key, request.topics[0].name) == (ApiKey.CREATE_TOPICS, "n")
    assert (context.principal, context.client_id, context.client_host) == ("User:alice", "the client", "192.0.2.7")


async def test_a_node_that_is_not_the_controller_says_so_and_still_coordinates(
    node: InternalNode, links: Links
) -> None:
    async def beat(request: Any, context: RequestContext) -> Any:
        return HeartbeatResponse()

    node.controller.answer, node.groups.answer = created, beat
    node.leadership.active = None
    await assert_not_controller(links, ApiKey.CREATE_TOPICS, CREATE, 7)
    assert node.controller.asked == []
    heartbeat = HeartbeatRequest(group_id="g")
    assert (await forward(links, NODE, ApiKey.HEARTBEAT, heartbeat, at(4), timeout_s=LONG_S)).error_code == 0


async def test_a_leadership_lost_on_the_way_is_told(node: InternalNode, links: Links) -> None:
    async def lost(request: Any, context: RequestContext) -> Any:
        raise ControllerGone

    node.controller.answer = lost
    await assert_not_controller(links, ApiKey.CREATE_TOPICS, CREATE, 7)
    request = message_format("request", ApiKey.ALTER_PARTITION_REASSIGNMENTS).message_class()
    await assert_not_controller(links, ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, 0)


async def assert_not_controller(links: Links, api_key: ApiKey, request: Any, version: int) -> None:
    with pytest.raises(KafkaError) as caught:
        await forward(links, NODE, api_key, request, at(version), timeout_s=LONG_S)
    assert caught.value.code == ErrorCode.NOT_CONTROLLER and not isinstance(caught.value, LinkLost)


# --- what does not pass


def wrapped(api_key: int, version: int, body: bytes = b"") -> bytes:
    header = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    return header + body


GOOD = encode_request(ApiKey.JOIN_GROUP, 9, 0, "c", JOIN)


@pytest.mark.parametrize(
    ("request_data", "principal", "address", "code"),
    [
        (wrapped(0, 9), "User:a", b"", ErrorCode.INVALID_REQUEST),
        (wrapped(3, 9), "User:a", b"", ErrorCode.INVALID_REQUEST),
        (wrapped(18, 3), "User:a", b"", ErrorCode.INVALID_REQUEST),
        (wrapped(58, 0, b"\0"), "User:a", b"", ErrorCode.INVALID_REQUEST),
        (wrapped(62, 4, b"\0"), "User:a", b"", ErrorCode.INVALID_REQUEST),
        (wrapped(20_004, 0, b"\0"), "User:a", b"", ErrorCode.INVALID_REQUEST),
        (wrapped(999, 0), "User:a", b"", ErrorCode.INVALID_REQUEST),
        (wrapped(11, 99, b"\0"), "User:a", b"", ErrorCode.UNSUPPORTED_VERSION),
        (wrapped(11, 5), "User:a", b"", ErrorCode.INVALID_REQUEST),
        (b"", "User:a", b"", ErrorCode.INVALID_REQUEST),
        (GOOD[:-8], "User:a", b"", ErrorCode.INVALID_REQUEST),
        (GOOD, "User:a", b"\x01\x02\x03\x04\x05", ErrorCode.INVALID_REQUEST),
        (GOOD, None, b"", ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (GOOD, b"\0\1\0", b"", ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (GOOD, b"\0\0\x09Us", b"", ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
    ],
)
async def test_a_wrong_envelope_is_refused_with_kafkas_code(
    node: InternalNode,
    links: Links,
    request_data: bytes,
    principal: str | bytes | None,
    address: bytes,
    code: ErrorCode,
) -> None:
    request = EnvelopeRequest(
        request_data=request_data,
        request_principal=encode_principal(principal) if isinstance(principal, str) else principal,
        client_host_address=address,
    )
    response = await links.call(NODE, ApiKey.ENVELOPE, request, timeout_s=LONG_S)
    assert (response.error_code, response.response_data) == (code, None)
    assert node.groups.asked == [] and node.controller.asked == []


async def test_only_the_internal_listener_trusts_an_envelope() -> None:
    services = services_over(FakeController(image_of()), FakePartitions())
    request = EnvelopeRequest(request_data=GOOD, request_principal=encode_principal("User:root"))
    assert await envelope(request, at(0), services) == EnvelopeResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


@given(
    request_data=st.binary(max_size=80)
    | st.builds(
        lambda key, version, rest: wrapped(key, version, rest),
        st.sampled_from(sorted(FORWARDED)),
        st.integers(0, 12),
        st.binary(max_size=60),
    ),
    principal=st.none() | st.binary(max_size=20) | st.just(encode_principal("User:a")),
    address=st.binary(max_size=17),
)
def test_an_envelope_of_any_bytes_is_answered(request_data: bytes, principal: bytes | None, address: bytes) -> None:
    async def refuse(request: Any, context: RequestContext) -> Any:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    async def run() -> EnvelopeResponse:
        groups = RecordingHandler()
        groups.answer = refuse
        services = internal_over(
            services_over(FakeController(image_of()), FakePartitions()), FakeLeadership(None), groups
        )
        request = EnvelopeRequest(request_data=request_data, request_principal=principal, client_host_address=address)
        return await envelope(request, at(0), services)

    response = asyncio.run(run())
    assert (response.response_data is None) == (response.error_code != 0)


# --- time and loss


async def test_a_join_that_waits_holds_nobody_up_and_ends_with_its_link(node: InternalNode, links: Links) -> None:
    cancelled = asyncio.Event()

    async def answer(request: Any, context: RequestContext) -> Any:
        if isinstance(request, HeartbeatRequest):
            return HeartbeatResponse()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    node.groups.answer = answer
    joining = asyncio.ensure_future(forward(links, NODE, ApiKey.JOIN_GROUP, JOIN, CONTEXT, timeout_s=LONG_S))
    await until(lambda: len(node.groups.asked) == 1)
    for _ in range(3):
        await forward(links, NODE, ApiKey.HEARTBEAT, HeartbeatRequest(group_id="g"), at(4), timeout_s=LONG_S)
    assert not joining.done() and not cancelled.is_set()
    links.forget(NODE)
    with pytest.raises(LinkLost):
        await joining
    await cancelled.wait()


async def test_a_forwarded_request_has_its_time_limit(node: InternalNode, links: Links, loop_time: LoopTime) -> None:
    async def never(request: Any, context: RequestContext) -> Any:
        await asyncio.Event().wait()

    node.groups.answer = never
    joining = asyncio.ensure_future(forward(links, NODE, ApiKey.JOIN_GROUP, JOIN, CONTEXT, timeout_s=5))
    await until(lambda: len(node.groups.asked) == 1)
    await loop_time.pass_s(5)
    with pytest.raises(LinkTimeout):
        await joining


class AgedPeer:
    """A connection that had its first bytes a while ago."""

    def __init__(self, age_s: float) -> None:
        self.age_s = age_s

    def on_lost(self, lost: Callable[[], None]) -> None:
        raise AssertionError("nobody waits here")


@pytest.mark.parametrize(
    ("request_data", "code"),
    [(GOOD, ErrorCode.NOT_COORDINATOR), (encode_request(19, 7, 0, "c", CREATE), ErrorCode.NOT_CONTROLLER)],
    ids=["group", "controller"],
)
async def test_what_was_long_on_its_way_is_not_carried_out(
    node: InternalNode, request_data: bytes, code: ErrorCode
) -> None:
    """Its client may have asked elsewhere since: a commit would undo a newer one."""

    async def answer(request: Any, context: RequestContext) -> Any:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)

    node.groups.answer = node.controller.answer = answer

    async def code_of(age_s: float, sent_ms: int) -> ErrorCode:
        request = EnvelopeRequest(
            request_data=request_data, request_principal=encode_principal("User:a"), connection_age_ms=sent_ms
        )
        return ErrorCode((await envelope(request, replace(at(0), peer=AgedPeer(age_s)), node.services)).error_code)  # type: ignore[arg-type]

    assert await code_of(10 + FORWARDING_DELAY_S_MAX + 0.1, 10_000) is code
    assert node.groups.asked == [] and node.controller.asked == []
    assert await code_of(10 + FORWARDING_DELAY_S_MAX - 0.1, 10_000) is not code
    assert await code_of(9.0, 10_000) is not code, "the first one was slower"
    assert await code_of(100.0, -1) is not code, "an older release says nothing"
    assert len(node.groups.asked + node.controller.asked) == 3


async def test_a_link_says_how_long_after_its_first_request_it_forwards(
    peer: ScriptedPeer, loop_time: LoopTime
) -> None:
    links = Links("node-1", {NODE: (peer.host, peer.port)}.get)
    ages = []
    for number in range(2):
        asking = asyncio.ensure_future(forward(links, NODE, ApiKey.JOIN_GROUP, JOIN, CONTEXT, timeout_s=LONG_S))
        asked = await peer.request(number)
        ages.append(asked.message.connection_age_ms)
        asked.answer(EnvelopeResponse(error_code=ErrorCode.NOT_COORDINATOR))
        with pytest.raises(KafkaError):
            await asking
        await loop_time.pass_s(1)
    assert ages == pytest.approx([0, 1_000], abs=1)
    await links.close()


async def test_a_link_counts_the_time_asleep(peer: ScriptedPeer) -> None:
    """Else the receiver, whose clock went on, would refuse all later requests as late."""
    clock = FakeClock()
    links = Links("node-1", {NODE: (peer.host, peer.port)}.get, stalls=StallWatch(now_s=clock.elapsed_s))
    ages = []
    for number in range(2):
        asking = asyncio.ensure_future(forward(links, NODE, ApiKey.JOIN_GROUP, JOIN, CONTEXT, timeout_s=LONG_S))
        asked = await peer.request(number)
        ages.append(asked.message.connection_age_ms)
        asked.answer(EnvelopeResponse(error_code=ErrorCode.NOT_COORDINATOR))
        with pytest.raises(KafkaError):
            await asking
        clock.sleep(4)
    assert ages[1] - ages[0] >= 4_000
    await links.close()


async def test_a_node_that_is_not_there(links: Links) -> None:
    with pytest.raises(LinkLost, match="not known"):
        await forward(links, 99, ApiKey.JOIN_GROUP, JOIN, CONTEXT, timeout_s=LONG_S)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (EnvelopeResponse(error_code=9_999), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(response_data=None), ErrorCode.NETWORK_EXCEPTION),
        (EnvelopeResponse(response_data=b"\0\0\0\0\0\0"), ErrorCode.NETWORK_EXCEPTION),
    ],
)
async def test_an_answer_that_makes_no_sense_is_an_error(
    peer: ScriptedPeer, answer: EnvelopeResponse, code: ErrorCode
) -> None:
    links = Links("node-1", {NODE: (peer.host, peer.port)}.get)
    asking = asyncio.ensure_future(forward(links, NODE, ApiKey.JOIN_GROUP, JOIN, CONTEXT, timeout_s=LONG_S))
    (await peer.request()).answer(answer)
    with pytest.raises(KafkaError) as caught:
        await asking
    assert caught.value.code == code
    await links.close()
