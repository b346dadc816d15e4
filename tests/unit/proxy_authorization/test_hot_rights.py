"""The rights of Produce and Fetch, which are answered without a task: what they are decided by, and what they cost a request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final
from uuid import UUID

import pytest

import bmq.proxy.handlers.produce  # noqa: F401  (registers)
from bmq.metadata.acl_journal import AclJournal
from bmq.metadata.image import OFFSETS_TOPIC_NAME, MetadataImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import decode_response, encode_request, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from bmq.protocol.request_context import RequestContext
from bmq.proxy.access import OPEN, Access
from bmq.proxy.dispatch import HOT_HANDLERS
from bmq.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import Decider
from tests.unit.proxy.harness import topic_image
from tests.unit.proxy_fetch.cluster import OTHER_ID, TOPIC_ID, FetchCluster, results, want

pytestmark = pytest.mark.unit

CALLS_MAX: Final = 1
"""Functions that an authorizer may add to a request for topics that its client was allowed before."""
PLAIN_FETCH_CALLS_MAX: Final = {(11, False): 37, (11, True): 39, (17, False): 41, (17, True): 41}
PLAIN_PRODUCE_CALLS_MAX: Final = {9: 35, 13: 33}
"""Functions that such a request calls without an authorizer, and with nothing else configured, by version (and session)."""
IDS_FROM: Final = 13
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Guarded:
    """A cluster with an authorizer. `acls`: in force."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.cluster = FetchCluster(1)
        self.cluster.produce()
        self.acls = AclJournal()
        self.topics: list[TopicImage] = [topic_image("t", TOPIC_ID, 1)]
        self.contexts: dict[tuple[str, int], RequestContext] = {}
        self.cluster.services.access = Access(Decider(), lambda: self.cluster.controller.image.acls)
        for name, principal in allowed:
            self.allow(name, principal)
        self.show()

    def allow(self, name: str, principal: str = "alice") -> UUID:
        acl_id = UUID(int=len(self.acls.acls) + 1)
        kind, pattern = ResourceType.TOPIC, PatternType.LITERAL
        self.acls.put(acl_id, Acl(kind, name, pattern, f"User:{principal}", "*", Operation.ALL, Permission.ALLOW))
        self.show()
        return acl_id

    def show(self, *topics: TopicImage) -> None:
        """Publish the next image, with these topics in place of those that were there."""
        self.topics = list(topics) or self.topics
        self.cluster.controller.image = MetadataImage(
            nodes=self.cluster.controller.image.nodes,
            topics={one.name: one for one in self.topics},
            topics_by_id={one.topic_id: one for one in self.topics},
            acls=self.acls.snapshot(),
        )

    def context(self, version: int, principal: str = "alice") -> RequestContext:
        """The same object for the same client, as a connection keeps it."""
        made = RequestContext(version, "test", "10.0.0.1", principal=f"User:{principal}")
        return self.contexts.setdefault((principal, version), made)

    def fetch(self, version: int, principal: str = "alice", **wanted: Any) -> Any:
        """The answer, which is there at once."""
        context = self.context(version, principal)
        return self.cluster.send(want(wanted.pop("offsets", {0: 0}), **wanted), version, context).result()

    def code(self, version: int, principal: str = "alice", **wanted: Any) -> int:
        """The error code of partition 0."""
        return int(results(self.fetch(version, principal, **wanted))[0].error_code)

    def produce(self, version: int, *named: tuple[str, UUID], principal: str = "alice") -> list[int]:
        """The codes of the first partitions of these topics."""
        answers: list[Sequence[Any] | None] = []
        begin(self, produce_frame(version, *named), version, principal, answers.append)()
        (buffers,) = answers
        assert buffers is not None
        response = decode_response(ApiKey.PRODUCE, version, b"".join(buffers))[1]
        return [topic.partition_responses[0].error_code for topic in response.responses]


def produce_frame(version: int, *named: tuple[str, UUID]) -> bytes:
    data = [PartitionProduceData(index=0, records=bytes(encode_batch([Record(None, b"v")])))]
    topics = [TopicProduceData(name=name, topic_id=topic_id, partition_data=data) for name, topic_id in named]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
    return bytes(encode_request(ApiKey.PRODUCE, version, 1, "test", request))


def begin(
    guarded: Guarded, encoded: bytes, version: int, principal: str, reply: Callable[[Any], object]
) -> Callable[[], None]:
    """Carries out one request when it is called."""
    frame = bytearray(encoded)
    header, context, services = (
        parse_request_header(frame),
        guarded.context(version, principal),
        guarded.cluster.services,
    )
    handler = HOT_HANDLERS[ApiKey(header.api_key)]
    return lambda: handler(frame, header, context, services, reply)  # type: ignore[arg-type]


def calls_of(work: Callable[[], None]) -> int:
    """How many functions of bmq it calls."""
    count = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and "/bmq/" in frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("has_session", [False, True])
@pytest.mark.parametrize("version", [11, 17])
async def test_an_authorizer_adds_one_call_to_a_fetch(version: int, has_session: bool) -> None:
    def warm_calls(guarded: Guarded) -> int:
        opened = guarded.fetch(version, session=(0, 0 if has_session else -1)).session_id
        counts = []
        for epoch in (1, 2, 3):
            session = (opened, epoch) if has_session else (0, -1)
            answers: list[Any] = []
            encoded = encode_request(ApiKey.FETCH, version, 7, "test", want({0: 0}, session=session))
            counts.append(calls_of(begin(guarded, bytes(encoded), version, "alice", answers.append)))
            assert answers
        return counts[-1]

    guarded, plain = Guarded(("t", "alice")), Guarded()
    plain.cluster.services.access = OPEN
    assert has_session == bool(guarded.fetch(version, session=(0, 0 if has_session else -1)).session_id)
    calls = warm_calls(plain)
    assert warm_calls(guarded) - calls <= CALLS_MAX
    assert calls <= PLAIN_FETCH_CALLS_MAX[version, has_session]


@pytest.mark.parametrize("version", [9, IDS_FROM])
async def test_an_authorizer_adds_one_call_to_a_produce(version: int) -> None:
    def warm_calls(guarded: Guarded) -> int:
        counts = []
        for _ in range(3):
            answers: list[Any] = []
            counts.append(
                calls_of(begin(guarded, produce_frame(version, ("t", TOPIC_ID)), version, "alice", answers.append))
            )
            assert answers
        return counts[-1]

    guarded, plain = Guarded(("t", "alice")), Guarded()
    plain.cluster.services.access = OPEN
    assert guarded.produce(version, ("t", TOPIC_ID)) == plain.produce(version, ("t", TOPIC_ID)) == [0]
    calls = warm_calls(plain)
    assert warm_calls(guarded) - calls <= CALLS_MAX
    assert calls <= PLAIN_PRODUCE_CALLS_MAX[version]


@pytest.mark.parametrize("version", [11, IDS_FROM])
async def test_a_change_of_acls_reaches_a_session_that_was_served(version: int) -> None:
    guarded = Guarded()
    acl_id = guarded.allow("t")
    opened = guarded.fetch(version, session=(0, 0)).session_id
    assert guarded.code(version, session=(opened, 1)) == 0
    guarded.acls.remove(acl_id)
    guarded.show()
    assert guarded.code(version, session=(opened, 2)) == DENIED
    guarded.allow("t")
    assert guarded.code(version, session=(opened, 3)) == 0


@pytest.mark.parametrize("version", [11, IDS_FROM])
async def test_a_session_serves_another_client_by_that_clients_rights(version: int) -> None:
    guarded = Guarded(("t", "alice"))
    opened = guarded.fetch(version, session=(0, 0)).session_id
    assert guarded.code(version, session=(opened, 1)) == 0
    assert guarded.code(version, "bob", session=(opened, 2)) == DENIED
    assert guarded.code(version, session=(opened, 3)) == 0


async def test_an_id_that_becomes_known_is_checked_by_its_name() -> None:
    guarded = Guarded(("t", "alice"))
    opened = guarded.fetch(IDS_FROM, session=(0, 0)).session_id
    assert guarded.code(IDS_FROM, topic_id=OTHER_ID, session=(0, -1)) == ErrorCode.UNKNOWN_TOPIC_ID
    guarded.show(topic_image("other", OTHER_ID, 1))
    assert guarded.code(IDS_FROM, topic_id=OTHER_ID, session=(0, -1)) == DENIED
    # The first topic is gone, and its id is as unknown to the session as any other.
    assert guarded.code(IDS_FROM, offsets={0: 0}, session=(opened, 1)) == ErrorCode.UNKNOWN_TOPIC_ID
    # It is made again under another name and the same id: no server does that, and no grant of the old name counts.
    guarded.show(topic_image("renamed", TOPIC_ID, 1))
    assert guarded.code(IDS_FROM, offsets={0: 0}, session=(opened, 2)) == DENIED


@pytest.mark.parametrize("version", [11, IDS_FROM])
async def test_a_denied_topic_does_not_show_how_many_partitions_it_has(version: int) -> None:
    guarded = Guarded()
    for partition in (0, 7):
        answer = results(guarded.fetch(version, offsets={partition: 0}))
        assert answer[partition].error_code == DENIED


@pytest.mark.parametrize("version", [9, IDS_FROM])
async def test_each_topic_of_a_produce_is_checked(version: int) -> None:
    other = ("other", OTHER_ID)
    guarded = Guarded(("t", "alice"))
    guarded.show(topic_image("t", TOPIC_ID, 1), topic_image("other", OTHER_ID, 1))
    two = (("t", TOPIC_ID), other, ("third", UUID(int=99)))
    unknown = DENIED if version < IDS_FROM else ErrorCode.UNKNOWN_TOPIC_ID
    assert guarded.produce(version, *two) == [0, DENIED, unknown]
    assert guarded.produce(version, *two, principal="bob") == [DENIED, DENIED, unknown]
    guarded.cluster.partitions.add(OTHER_ID, 0, leader_epoch=3)
    guarded.allow("other")
    assert guarded.produce(version, *two) == [0, 0, unknown]


@pytest.mark.parametrize("version", [9, IDS_FROM])
async def test_an_internal_topic_is_denied_before_it_is_called_invalid(version: int) -> None:
    guarded = Guarded(("t", "alice"))
    internal = (OFFSETS_TOPIC_NAME, UUID(int=78))
    guarded.show(topic_image(*internal, 1, is_internal=True))
    assert guarded.produce(version, internal) == [DENIED]
    guarded.allow(OFFSETS_TOPIC_NAME)
    assert guarded.produce(version, internal) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize("version", [11, 17])
async def test_a_fetch_with_a_replicas_id_needs_the_cluster(version: int) -> None:
    guarded = Guarded(("t", "alice"))
    assert guarded.code(version, replica_id=2) == DENIED
    assert guarded.code(version, replica_id=2, topic_id=OTHER_ID, name="none") == DENIED
    kind, action = ResourceType.CLUSTER, Operation.CLUSTER_ACTION
    cluster = Acl(kind, CLUSTER_NAME, PatternType.LITERAL, "User:alice", "*", action, Permission.ALLOW)
    guarded.acls.put(UUID(int=99), cluster)
    guarded.show()
    assert guarded.code(version, replica_id=2) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_client_that_logs_in_anew_has_its_new_rights() -> None:
    guarded = Guarded(("t", "alice"))
    assert guarded.produce(9, ("t", TOPIC_ID)) == [0]
    assert guarded.produce(9, ("t", TOPIC_ID), principal="bob") == [DENIED]
    guarded.allow("t", "bob")
    assert guarded.produce(9, ("t", TOPIC_ID), principal="bob") == [0]
    assert guarded.code(11, "bob") == 0
