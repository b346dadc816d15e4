"""What no transactional client should send: Kafka's error code, nothing lost, and other transactions notice nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kio.schema.errors import ErrorCode as E

from testing import wire
from testing.processes import eventually
from testing.servers import Server
from testing.wire import WireClient
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.transaction_client import Identity, TransactionClient

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

LONGEST_ID = "x" * 32_767
STATE_TOPIC, OFFSETS_TOPIC = "__transaction_state", "__consumer_offsets"


@pytest.fixture
def client(server: Server) -> Iterator[TransactionClient]:
    with WireClient(server.port) as connection:
        yield TransactionClient(connection)


@pytest.fixture
def neighbour(server: Server, make_topic: TopicMaker) -> Iterator[str]:
    """Another producer's transaction, open for the whole test, with all its records and offsets at the end; its topic."""
    topic, name = make_topic(), unique_name("neighbour")
    group_id = f"{name}-group"
    with WireClient(server.port) as connection:
        other = TransactionClient(connection)
        eventually(lambda: other.find(group_id, 0) is E.none, 20, "the groups have a coordinator")
        identity = other.begun(name)
        assert other.produce(name, identity, topic, 0) == wire.NONE
        assert other.commit_offset(name, group_id, identity, topic) is E.none
        yield topic
        assert other.produce(name, identity, topic, 1) == wire.NONE
        assert stable_offset(server, topic) == 0
        assert other.ended(name, identity) is E.none
    reader = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group_id})
    (committed,) = reader.committed([TopicPartition(topic, 0)], timeout=20)
    assert committed.offset == 1
    reader.close()
    assert stable_offset(server, topic) == 3


def stable_offset(server: Server, topic: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> int:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    asked = {TopicPartition(topic, 0): OffsetSpec.latest()}
    return next(iter(admin.list_offsets(asked, isolation_level=isolation).values())).result(timeout=20).offset


def test_bad_producers_begin_nothing(client: TransactionClient, neighbour: str) -> None:
    name = unique_name("tx")
    identity = client.begun(name)
    assert client.init("")[0] is E.invalid_request
    assert client.begun(LONGEST_ID).epoch >= 0
    for timeout_ms, code in ((0, 50), (-1, 50), (900_001, 50), (900_000, 0)):
        assert client.init(unique_name("timed"), timeout_ms=timeout_ms)[0] == code
    assert client.init(name, (identity.producer_id, -1))[0] is E.invalid_request
    assert client.init(name, (-1, 0))[0] is E.invalid_request
    assert client.init(name, (identity.producer_id + 1_000, 0))[0] is E.producer_fenced
    assert client.init(name, identity.at(9))[0] is E.producer_fenced
    assert client.init(name, identity) == (E.none, identity.at(1))
    assert client.init(name, identity) == (E.none, identity.at(1)), "the same, sent again"


@pytest.mark.parametrize("text", ["x" * 32_768, "x" * 100_000])
def test_an_id_that_no_string_can_be_closes_the_connection(server: Server, neighbour: str, text: str) -> None:
    with WireClient(server.port) as connection, pytest.raises(ConnectionError):
        TransactionClient(connection).init(text)


def test_an_end_without_a_transaction(client: TransactionClient, neighbour: str) -> None:
    for version in (3, 5):
        name = unique_name("tx")
        identity = client.begun(name)
        assert client.end(name, identity, version=version) is E.invalid_txn_state
        for other, code in (
            (identity.at(7), E.producer_fenced),
            (Identity(identity.producer_id + 1_000, 0), E.invalid_producer_id_mapping),
        ):
            assert client.end(name, other, version=version) is code
        assert client.end(unique_name("unknown"), identity, version=version) is E.invalid_producer_id_mapping
        assert client.end("", identity, version=version) is E.invalid_request
        # From transaction version 2 on there are transactions that nothing was written in.
        code = E.none if version == 5 else E.invalid_txn_state
        assert client.end(name, identity, is_commit=False, version=version) is code


def test_partitions_that_cannot_be_added(client: TransactionClient, neighbour: str) -> None:
    name, topic = unique_name("tx"), neighbour
    identity = client.begun(name)
    answer = client.add(name, identity, {topic: [0, 99, -1], "nobody": [0]})
    assert answer["nobody"] == [E.unknown_topic_or_partition]
    # Apache Kafka answers in any order.
    assert sorted(answer[topic]) == [E.unknown_topic_or_partition] * 2 + [E.operation_not_attempted]
    for internal in (STATE_TOPIC, OFFSETS_TOPIC):
        assert client.add(name, identity, {internal: [0]}) == {internal: [E.topic_authorization_failed]}
    assert client.state(name) == "Empty"
    assert client.add(name, identity.at(1), {topic: [0]}) == {topic: [E.producer_fenced]}
    assert client.add(unique_name("unknown"), identity, {topic: [0]}) == {topic: [E.invalid_producer_id_mapping]}
    assert client.add("", identity, {topic: [0]}) == {topic: [E.invalid_request]}
    assert client.add_offsets(name, identity.at(1), "group") is E.producer_fenced


@pytest.mark.bmq_only  # Apache Kafka 4 does not answer in time
def test_a_hundred_thousand_partitions_that_are_not_there(client: TransactionClient, neighbour: str) -> None:
    name = unique_name("tx")
    identity = client.begun(name)
    answer = client.add(name, identity, {neighbour: range(100_000)})[neighbour]
    assert answer == [E.operation_not_attempted] + [E.unknown_topic_or_partition] * 99_999
    assert client.state(name) == "Empty"


def test_records_of_no_transaction_are_refused(
    client: TransactionClient, server: Server, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    not_added = {9: 48, 10: 48, 11: 120}
    for version, code in not_added.items():
        name = unique_name("tx")
        identity = client.begun(name)
        assert client.produce(name, identity, topic, 0, version=version) == code
    # What nodes tell each other of a client's version means nothing to a server when a client says it.
    spoofed = b"\1" + b"\xa0\x9c\1" + b"\1" + bytes([12])
    assert client.produce(name, identity, topic, 0, version=11, tags=spoofed) == 120
    for version in (11, 12):
        unknown = Identity(identity.producer_id + 1_000, 0)
        assert client.produce(name, unknown, topic, 0, version=version) == E.invalid_producer_id_mapping
        assert client.produce(unique_name("unknown"), identity, topic, 0, version=version) == 49
        assert client.produce(name, identity.at(2), topic, 0, version=version) == E.invalid_producer_epoch
        assert client.produce(None, identity, topic, 0, version=version) == E.transactional_id_authorization_failed
        assert client.produce("", identity, topic, 0, version=version) == E.invalid_request
    assert client.produce(name, identity, topic, 5, version=12) == wire.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert stable_offset(server, topic, IsolationLevel.READ_UNCOMMITTED) == 0, "nothing of it is in the log"


def test_a_fenced_producer_writes_and_ends_nothing(
    client: TransactionClient, server: Server, make_topic: TopicMaker
) -> None:
    topic, name = make_topic(), unique_name("tx")
    old = client.begun(name)
    assert client.produce(name, old, topic, 0) == wire.NONE
    new = client.begun(name)
    assert new == old.at(2), "the abort of the old one's transaction has an epoch of its own"
    assert client.produce(name, new, topic, 0) == wire.NONE
    for version in (11, 12):
        assert client.produce(name, old, topic, 1, version=version) == wire.INVALID_PRODUCER_EPOCH
    for version in (3, 5):
        assert client.end(name, old, version=version) is E.producer_fenced
        assert client.end(name, old, is_commit=False, version=version) is E.producer_fenced
        assert client.commit_offset(name, "group", old, topic, version=version) is E.invalid_producer_epoch
    assert client.init(name, old)[0] is not E.none
    assert client.state(name) in ("Ongoing", "PrepareAbort", "CompleteAbort")


def test_what_comes_late_gets_into_no_transaction(
    client: TransactionClient, server: Server, make_topic: TopicMaker
) -> None:
    topic, name = make_topic(), unique_name("tx")
    first = client.begun(name)
    assert client.produce(name, first, topic, 0) == wire.NONE
    assert client.ended(name, first) is E.none
    second = first.at(1)
    assert client.produce(name, second, topic, 0) == wire.NONE
    assert client.produce(name, first, topic, 1) == wire.INVALID_PRODUCER_EPOCH
    assert client.end(name, first) is E.producer_fenced
    assert client.end(name, first, is_commit=False) is E.producer_fenced
    assert client.commit_offset(name, "group", first, topic) is E.invalid_producer_epoch
    late_marker = client.mark(second, {topic: [0]}, transaction_version=2)
    assert late_marker == {topic: [E.invalid_producer_epoch]}, "the end of the first one, once more"
    assert client.state(name) == "Ongoing"
    assert stable_offset(server, topic) == 2
    assert client.ended(name, second) is E.none
    assert client.ended(name, second) is E.none, "its answer was lost"
    assert client.end(name, second, is_commit=False) is E.invalid_txn_state
    assert stable_offset(server, topic) == 4


def test_markers_that_are_refused(
    client: TransactionClient, server: Server, neighbour: str, make_topic: TopicMaker
) -> None:
    topic, name = make_topic(), unique_name("tx")
    identity = client.begun(name).at(0)
    assert client.produce(name, identity, topic, 0) == wire.NONE
    assert client.mark(identity, {topic: [99], "nobody": [0]}) == {
        topic: [E.unknown_topic_or_partition],
        "nobody": [E.unknown_topic_or_partition],
    }
    for other in (Identity(-1, -1), Identity(-1, 0), Identity(identity.producer_id, -1)):
        assert client.mark(other, {topic: [0]}) == {topic: [E.unknown_server_error]}
    stranger = Identity(identity.producer_id + 1_000, 0)
    assert client.mark(stranger, {topic: [0]}, coordinator_epoch=9) == {topic: [E.none]}
    assert client.mark(stranger, {topic: [0]}, coordinator_epoch=8) == {topic: [E.transaction_coordinator_fenced]}
    assert client.mark(identity, {topic: [0]}, transaction_version=2) == {topic: [E.invalid_producer_epoch]}
    assert stable_offset(server, topic) == 0, "the transaction is as open as before"
    assert client.ended(name, identity) is E.none
    assert stable_offset(server, topic) == 3


def test_offsets_that_cannot_be_committed(client: TransactionClient, neighbour: str) -> None:
    name, group_id, topic = unique_name("tx"), unique_name("group"), neighbour
    identity = client.begun(name)

    def commit(who: Identity = identity, id_: str = name, group: str = group_id, partition: int = 0) -> list[E]:
        return [
            client.commit_offset(id_, group, who, topic, partition=partition, version=version) for version in (3, 5)
        ]

    eventually(lambda: client.find(group_id, 0) is E.none, 20, "the group has a coordinator")
    assert commit(group="") == [E.invalid_group_id] * 2
    assert commit(partition=99) == [E.unknown_topic_or_partition] * 2
    assert client.commit_offset(name, group_id, identity, "nobody") is E.unknown_topic_or_partition
    assert commit(identity.at(3)) == [E.invalid_producer_epoch] * 2
    assert commit(Identity(identity.producer_id + 1_000, 0)) == [E.invalid_producer_id_mapping] * 2
    assert commit(id_=unique_name("unknown")) == [E.invalid_producer_id_mapping] * 2
    assert client.commit_offset(name, group_id, identity, topic, version=3) is E.invalid_txn_state, "it was not added"
    assert client.commit_offset(name, group_id, identity, topic, version=5) is E.none
    code = client.commit_offset(name, group_id, identity, topic, generation=4, member_id="nobody")
    assert code in (E.unknown_member_id, E.illegal_generation)
    assert client.ended(name, identity, is_commit=False) is E.none


def test_hostile_filters(client: TransactionClient, neighbour: str) -> None:
    for pattern in ("((", "(?=a)", "(a)\\1"):
        assert client.listed(transactional_id_pattern=pattern).error_code is E.invalid_regular_expression
    assert client.listed(transactional_id_pattern="(x+x+)+y").error_code is E.none
    answer = client.listed(state_filters=("Sleeping", "ongoing"))
    assert set(answer.unknown_state_filters) == {"Sleeping", "ongoing"} and not answer.transaction_states
    assert not client.listed(duration_filter=2**62).transaction_states
    assert client.described("")[0] is E.invalid_request
    assert client.described(LONGEST_ID[:-1])[0] is E.transactional_id_not_found


@pytest.mark.bmq_only  # Apache Kafka is busy for minutes
def test_patterns_that_would_take_all_memory_or_time(client: TransactionClient, neighbour: str) -> None:
    client.begun(LONGEST_ID)
    answer = client.listed(transactional_id_pattern="(((x{1000}){1000}){1000})")
    assert answer.error_code is E.invalid_regular_expression
    for pattern in ("(.*)*" * 500, "((((x|b)*)*)*)*" * 100, ".*x.{500}c"):
        assert client.listed(transactional_id_pattern=pattern).error_code is E.none


def test_a_topic_of_an_open_transaction_is_deleted(
    client: TransactionClient, server: Server, make_topic: TopicMaker
) -> None:
    doomed, kept, name = make_topic(), make_topic(), unique_name("tx")
    identity = client.begun(name)
    for topic in (doomed, kept):
        assert client.produce(name, identity, topic, 0) == wire.NONE
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.delete_topics([doomed])[doomed].result(timeout=20)
    assert client.ended(name, identity) is E.none
    assert client.state(name) == "CompleteCommit"
    assert stable_offset(server, kept) == 2


def test_records_below_an_open_transaction_are_deleted(
    client: TransactionClient, server: Server, make_topic: TopicMaker
) -> None:
    topic, name = make_topic(), unique_name("tx")
    identity = client.begun(name)
    for sequence in range(3):
        assert client.produce(name, identity, topic, sequence) == wire.NONE
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 2)])[TopicPartition(topic, 0)].result(timeout=20)
    assert stable_offset(server, topic) == 2
    assert client.ended(name, identity, is_commit=False) is E.none
    assert stable_offset(server, topic) == 4


def test_the_producer_hears_that_its_time_is_over(
    client: TransactionClient, server: Server, make_topic: TopicMaker
) -> None:
    topic, name = make_topic(), unique_name("tx")
    identity = client.begun(name, timeout_ms=15_000)
    assert client.produce(name, identity, topic, 0) == wire.NONE
    eventually(lambda: client.state(name) == "CompleteAbort", 60, "the transaction is aborted")
    assert stable_offset(server, topic) == 2
    assert client.produce(name, identity, topic, 1) == wire.INVALID_PRODUCER_EPOCH
    # A commit that comes too late: Apache Kafka up to 4.3 says INVALID_TXN_STATE (KAFKA-20785).
    assert client.end(name, identity) in (E.producer_fenced, E.invalid_txn_state)
    assert client.end(name, identity, is_commit=False) is E.none
