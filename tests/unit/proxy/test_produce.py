"""Produce over a socket: each partition by itself, Kafka's codes, order kept while a partition starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.log.transactions import TransactionClaim
from bmq.metadata.image import Node
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import encode_request, parse_request_header
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_produce import encode_produce_request
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.produce_request import ProduceRequest, TopicProduceData
from bmq.protocol.record_batch import TRANSACTIONAL, put_leader_epoch, rewrite
from testing import wire
from tests.unit.proxy.harness import (
    NODE,
    TOPIC_ID,
    Client,
    Proxy,
    batch,
    image_of,
    produce_request,
    topic_image,
    until,
)

pytestmark = pytest.mark.unit

PRODUCE = ApiKey.PRODUCE
KNOWN = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0")


def codes(response: Any) -> dict[int, int]:
    return {p.index: p.error_code for topic in response.responses for p in topic.partition_responses}


@pytest.mark.parametrize("version", range(APIS[PRODUCE].version_min, APIS[PRODUCE].version_max + 1))
async def test_every_version_appends_and_tells_the_offset(proxy: Proxy, client: Client, version: int) -> None:
    for expected in (0, 2):
        response = await client.ask(PRODUCE, version, produce_request({0: batch(b"a", b"b"), 5: batch(b"c")}))
        (topic,) = response.responses
        assert topic.topic_id == TOPIC_ID if version >= 13 else topic.name == "t"
        assert codes(response) == {0: 0, 5: 0}
        assert topic.partition_responses[0].base_offset == expected
    assert proxy.log(0).high_watermark == 4 and proxy.log(5).high_watermark == 2
    assert proxy.log(0).batches[1].data[61:] == batch(b"a", b"b")[61:]


@pytest.mark.parametrize("version", [6, 7])
async def test_zstd_is_for_clients_that_may_use_it(proxy: Proxy, client: Client, version: int) -> None:
    zstd = encode_batch([Record(None, b"value")], compression=Compression.ZSTD)
    lz4 = encode_batch([Record(None, b"value")], compression=Compression.LZ4)
    response = await client.ask(PRODUCE, version, produce_request({0: bytes(zstd), 5: bytes(lz4)}))
    assert codes(response) == {0: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if version < 7 else 0, 5: 0}


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_acks_zero_has_no_answer_the_others_have_one(proxy: Proxy, client: Client, acks: int) -> None:
    client.send(PRODUCE, 9, produce_request({0: batch()}, acks=acks))
    after = client.send(ApiKey.API_VERSIONS, 3, KNOWN)
    if acks != 0:
        assert codes((await client.answer(PRODUCE, 9))[1]) == {0: 0}
    assert (await client.answer(ApiKey.API_VERSIONS, 3))[0] == after
    assert proxy.log(0).high_watermark == 1


@pytest.mark.parametrize("acks", [1, -1])
async def test_too_few_replicas_are_told_to_acks_all_alone(proxy: Proxy, client: Client, acks: int) -> None:
    proxy.log(0).is_short = True
    proxy.log(5).is_short_after = True
    response = await client.ask(PRODUCE, 9, produce_request({0: batch(), 5: batch()}, acks=acks))
    before, after = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert codes(response) == ({0: before, 5: after} if acks == -1 else {0: 0, 5: 0})
    assert (proxy.log(0).high_watermark, proxy.log(5).high_watermark) == (0 if acks == -1 else 1, 1)
    assert response.responses[0].partition_responses[1].base_offset == 0


async def test_acks_zero_with_an_error_closes_the_connection(proxy: Proxy, client: Client) -> None:
    proxy.log(0).refuse_with = ErrorCode.CORRUPT_MESSAGE
    client.send(PRODUCE, 9, produce_request({0: batch()}, acks=0))
    assert await client.is_closed_by_server()


@pytest.mark.parametrize("acks", [-2, 2, 32767])
async def test_other_acks_are_refused_for_every_partition(proxy: Proxy, client: Client, acks: int) -> None:
    response = await client.ask(PRODUCE, 9, produce_request({0: batch(), 1: batch()}, acks=acks))
    assert codes(response) == {0: ErrorCode.INVALID_REQUIRED_ACKS, 1: ErrorCode.INVALID_REQUIRED_ACKS}
    assert proxy.log(0).log_end_offset == 0


async def test_one_partitions_failure_never_fails_its_neighbours(proxy: Proxy, client: Client) -> None:
    proxy.log(1).refuse_with = ErrorCode.MESSAGE_TOO_LARGE
    response = await client.ask(PRODUCE, 9, produce_request({0: batch(), 1: batch(), 2: batch(), 99: batch(), 3: None}))
    assert codes(response) == {
        0: 0,
        1: ErrorCode.MESSAGE_TOO_LARGE,
        2: 0,
        99: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        3: ErrorCode.INVALID_RECORD,
    }
    failed = response.responses[0].partition_responses[1]
    assert failed.base_offset == -1
    assert proxy.log(0).high_watermark == proxy.log(2).high_watermark == 1


async def test_a_partition_named_twice_gets_the_last_of_its_batches_and_one_answer(
    proxy: Proxy, client: Client
) -> None:
    first, last = produce_request({0: batch(b"first"), 1: batch()}), produce_request({0: batch(b"last"), 2: batch()})
    topic = first.topic_data[0]
    both = [*topic.partition_data, *last.topic_data[0].partition_data]
    in_a_topic = replace(first, topic_data=[replace(topic, partition_data=both)])
    in_two = replace(first, topic_data=[topic, last.topic_data[0]])
    for offset, request in enumerate((in_a_topic, in_two)):
        response = await client.ask(PRODUCE, 9, request)
        (answered,) = response.responses
        assert [one.index for one in answered.partition_responses] == [0, 1, 2]
        assert [one.base_offset for one in answered.partition_responses] == [offset] * 3
        assert b"last" in bytes(proxy.log(0).batches[offset].data)


@pytest.mark.parametrize("partition", [-1, 6, 2**31 - 1, -(2**31)])
async def test_partitions_that_are_not_there(proxy: Proxy, client: Client, partition: int) -> None:
    response = await client.ask(PRODUCE, 9, produce_request({partition: batch()}))
    assert codes(response) == {partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_unknown_topics_by_name_and_by_id(proxy: Proxy, client: Client) -> None:
    by_name = await client.ask(PRODUCE, 12, produce_request({0: batch()}, topic="nope"))
    by_id = await client.ask(PRODUCE, 13, produce_request({0: batch()}, topic_id=UUID(int=99)))
    no_id = await client.ask(PRODUCE, 13, produce_request({0: batch()}, topic_id=None))
    assert codes(by_name) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert codes(by_id) == codes(no_id) == {0: ErrorCode.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("is_topic_known", [False, True])
async def test_nothing_gets_past_a_batch_for_a_partition_that_was_heard_of_since(
    proxy: Proxy, client: Client, version: int, is_topic_known: bool
) -> None:
    """The partition takes any batch of a new producer as its first; the refused one would be out of order for good."""

    def sequenced(sequence: int) -> ProduceRequest:
        records = encode_batch(
            [Record(None, b"%d" % sequence)], producer_id=7, producer_epoch=0, base_sequence=sequence
        )
        return produce_request({0: bytes(records)})

    known = proxy.controller.image
    proxy.controller.image = image_of(topic_image("t", TOPIC_ID, 0)) if is_topic_known else image_of()
    refused = codes(await client.ask(PRODUCE, version, sequenced(0)))[0]
    assert refused in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    proxy.controller.image = known
    assert codes(await client.ask(PRODUCE, version, sequenced(1))) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert proxy.log(0).log_end_offset == 0
    answers = [await client.ask(PRODUCE, version, sequenced(number)) for number in range(2)]
    assert [codes(answer) for answer in answers] == [{0: 0}] * 2


def transactional(producer_id: int = 7) -> bytes:
    return bytes(
        encode_batch(
            [Record(None, b"v")], producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
        )
    )


@pytest.mark.parametrize("version", range(APIS[PRODUCE].version_min, APIS[PRODUCE].version_max + 1))
@pytest.mark.parametrize("is_starting", [False, True])
async def test_the_version_says_what_the_client_knows_of_transactions(
    proxy: Proxy, client: Client, version: int, is_starting: bool
) -> None:
    if is_starting:
        proxy.partitions.idle.add(TopicPartition(TOPIC_ID, 0))
    request = produce_request({0: transactional()}, transactional_id="tx")
    assert codes(await client.ask(PRODUCE, version, request)) == {0: 0}
    assert proxy.log(0).claims == [TransactionClaim("tx", version >= 12, version >= 11)]
    assert codes(await client.ask(PRODUCE, version, produce_request({1: batch()}))) == {1: 0}
    assert proxy.log(1).claims == [None]


async def test_one_request_has_transactional_records_of_one_producer(proxy: Proxy, client: Client) -> None:
    same = produce_request({0: transactional(), 1: transactional(), 2: batch()}, transactional_id="tx")
    assert codes(await client.ask(PRODUCE, 9, same)) == {0: 0, 1: 0, 2: 0}
    other = produce_request({0: transactional(), 1: transactional(8), 2: batch()}, transactional_id="tx")
    refused = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert codes(await client.ask(PRODUCE, 9, other)) == {0: refused, 1: refused, 2: refused}
    assert proxy.log(0).log_end_offset == proxy.log(2).log_end_offset == 1


@pytest.mark.parametrize("producer_id", [7, -1])
async def test_transactional_records_without_a_transactional_id_fail_their_whole_request(
    proxy: Proxy, client: Client, producer_id: int
) -> None:
    """Whatever else is wrong with it: Kafka looks at this before anything else."""
    damaged = transactional(producer_id)[:-1] + b"!"
    parts = {0: batch(), 1: transactional(producer_id), 2: damaged, 99: batch()}
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    for request in (produce_request(parts), produce_request(parts, acks=7)):  # type: ignore[arg-type]
        assert codes(await client.ask(PRODUCE, 9, request)) == dict.fromkeys(parts, refused)
    assert codes(await client.ask(PRODUCE, 9, produce_request({0: batch(), 1: damaged}))) == {0: refused, 1: refused}
    assert proxy.log(0).log_end_offset == proxy.log(1).log_end_offset == 0


@pytest.mark.parametrize(
    "records",
    [transactional()[:-1], wire.old_message_set(1, b"\xff" * 80), batch()[:40]],
    ids=["cut short", "magic 1", "half a header"],
)
async def test_what_is_no_whole_batch_is_not_transactional(proxy: Proxy, client: Client, records: bytes) -> None:
    proxy.log(0).refuse_with = ErrorCode.CORRUPT_MESSAGE
    response = await client.ask(PRODUCE, 9, produce_request({0: records, 1: batch()}))
    assert codes(response) == {0: ErrorCode.CORRUPT_MESSAGE, 1: 0}


async def test_a_base_offset_of_its_own_is_refused_where_the_client_is(proxy: Proxy, client: Client) -> None:
    own = bytearray(batch())
    rewrite(own, 0, 42, -1)
    assert codes(await client.ask(PRODUCE, 9, produce_request({0: batch(), 1: batch()}))) == {0: 0, 1: 0}
    await proxy.log(0).delete_records(1)
    damaged = bytearray(own)
    damaged[-1] ^= 1
    response = await client.ask(PRODUCE, 9, produce_request({0: bytes(own), 1: batch(), 2: bytes(damaged)}))
    assert codes(response) == {0: ErrorCode.INVALID_RECORD, 1: 0, 2: ErrorCode.INVALID_RECORD}
    (refused, _, _) = response.responses[0].partition_responses
    assert refused.log_start_offset == 1
    assert "42" in refused.error_message
    assert proxy.log(0).log_end_offset == 1
    # A former owner has written one into a batch that a node passes on again.
    proxy.services.is_between_nodes = True
    rewrite(own, 0, 42, 3)
    assert codes(await client.ask(PRODUCE, 9, produce_request({0: bytes(own)}))) == {0: 0}


async def test_a_base_offset_of_its_own_starts_an_idle_partition_whose_start_is_in_the_answer(
    proxy: Proxy, client: Client
) -> None:
    keys = [TopicPartition(TOPIC_ID, number) for number in (0, 1)]
    proxy.partitions.idle.update(keys)
    proxy.partitions.errors[keys[1]] = ErrorCode.KAFKA_STORAGE_ERROR
    own = bytearray(batch())
    rewrite(own, 0, -1, -1)
    response = await client.ask(PRODUCE, 9, produce_request({0: bytes(own), 1: bytes(own), 2: batch()}))
    assert codes(response) == {0: ErrorCode.INVALID_RECORD, 1: ErrorCode.INVALID_RECORD, 2: 0}
    started, offline, _ = response.responses[0].partition_responses
    assert (started.log_start_offset, offline.log_start_offset) == (0, -1)
    assert proxy.partitions.idle == {keys[1]}


async def test_an_empty_transactional_id(proxy: Proxy, client: Client) -> None:
    empty = produce_request({0: transactional()}, transactional_id="")
    assert codes(await client.ask(PRODUCE, 9, empty)) == {0: ErrorCode.INVALID_REQUEST}
    assert codes(await client.ask(PRODUCE, 9, produce_request({0: batch()}, transactional_id=""))) == {0: 0}


async def test_the_version_another_client_names_counts_between_nodes_only(proxy: Proxy, client: Client) -> None:
    for is_between_nodes, may_add in ((False, True), (True, False)):
        proxy.services.is_between_nodes = is_between_nodes
        records = memoryview(bytearray(transactional()))
        put_leader_epoch(records, 3)
        body = encode_produce_request(
            TOPIC_ID, 0, records, acks=-1, timeout_ms=1_000, transactional_id="tx", client_version=11
        )
        frame = encode_request(PRODUCE, 13, 1, "c", ProduceRequest())
        head = parse_request_header(frame).body_position
        client.send_frame(frame[:head] + b"".join(body))
        assert codes((await client.answer(PRODUCE, 13))[1]) == {0: 0}
        assert proxy.log(0).claims[-1] == TransactionClaim("tx", may_add, True)


@pytest.mark.parametrize(("client_id", "code"), [("test", ErrorCode.INVALID_TOPIC_EXCEPTION), ("__admin_client", 0)])
async def test_internal_topics_are_for_the_admin_client(
    proxy: Proxy, client: Client, client_id: str, code: int
) -> None:
    topic_id = UUID(int=77)
    proxy.partitions.add(topic_id, 0)
    proxy.controller.image = image_of(topic_image("__consumer_offsets", topic_id, 1, is_internal=True))
    request = produce_request({0: batch()}, topic="__consumer_offsets")
    assert codes(await client.ask(PRODUCE, 9, request, client_id)) == {0: code}


async def test_an_empty_request_is_answered(proxy: Proxy, client: Client) -> None:
    assert (await client.ask(PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=1))).responses == ()
    no_partitions = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="t")])
    assert codes(await client.ask(PRODUCE, 9, no_partitions)) == {}


async def test_what_takes_longer_than_the_timeout_is_answered_so(proxy: Proxy, client: Client) -> None:
    proxy.log(1).is_acknowledging = False
    client.send(PRODUCE, 9, produce_request({0: batch(), 1: batch()}, timeout_ms=1_000))
    await until(lambda: proxy.log(1).pending_count == 1)
    proxy.services.produce_deadlines.expire(proxy.services.loop.time() + 0.5)
    proxy.services.produce_deadlines.expire(proxy.services.loop.time() + 2)
    response = (await client.answer(PRODUCE, 9))[1]
    assert codes(response) == {0: 0, 1: ErrorCode.REQUEST_TIMED_OUT}
    proxy.log(1).acknowledge()  # too late for this answer, and no second one comes
    assert (await client.ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0


async def test_a_partition_that_starts_gets_batches_in_order_from_all_connections(proxy: Proxy, client: Client) -> None:
    key = TopicPartition(TOPIC_ID, 0)
    proxy.partitions.idle.add(key)
    other = await proxy.connect()
    for value in (b"1", b"2", b"3"):
        client.send(PRODUCE, 9, produce_request({0: batch(value)}))
    assert codes((await client.answer(PRODUCE, 9))[1]) == {0: 0}
    assert codes(await other.ask(PRODUCE, 9, produce_request({0: batch(b"4")}))) == {0: 0}
    await client.answer(PRODUCE, 9)
    await client.answer(PRODUCE, 9)
    stored = [stored.data[61:] for stored in proxy.log(0).batches]
    assert [part for part in stored if part != batch(b"4")[61:]] == [batch(v)[61:] for v in (b"1", b"2", b"3")]
    assert len(stored) == 4
    await other.close()


@pytest.mark.parametrize("version", [9, 10, 13])
async def test_not_leader_comes_with_a_hint_where_the_version_has_one(
    proxy: Proxy, client: Client, version: int
) -> None:
    other = Node(node_id=2, host="elsewhere", port=9093, rack=None)
    proxy.controller.image = image_of(topic_image("t", TOPIC_ID, 1, leader=2), nodes=(NODE, other))
    proxy.partitions.errors[TopicPartition(TOPIC_ID, 0)] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    response = await client.ask(PRODUCE, version, produce_request({0: batch()}))
    assert codes(response) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    leader = response.responses[0].partition_responses[0].current_leader
    endpoints = [(e.node_id, e.host, e.port) for e in response.node_endpoints]
    if version >= 10:
        assert (leader.leader_id, leader.leader_epoch) == (2, 3)
        assert endpoints == [(2, "elsewhere", 9093)]
    else:
        assert (leader.leader_id, endpoints) == (-1, [])


async def test_a_topic_deleted_between_two_produces(proxy: Proxy, client: Client) -> None:
    assert codes(await client.ask(PRODUCE, 9, produce_request({0: batch()}))) == {0: 0}
    proxy.controller.image = replace(image_of(), offset=43)
    assert codes(await client.ask(PRODUCE, 9, produce_request({0: batch()}))) == {
        0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
