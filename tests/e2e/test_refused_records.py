"""Batches with records that a topic does not take: the answer names them, and clients fail these alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import PartitionProduceResponse, ProduceResponse
from kio.static.primitive import i16, i32, i32Timedelta

from bmq.protocol.batch_records import Record, encode_batch
from testing.java import CONSOLE_PRODUCER
from testing.processes import eventually
from testing.servers import Server
from testing.wire import INVALID_RECORD, MESSAGE_TOO_LARGE, WireClient
from tests.e2e.conftest import TopicMaker
from tests.support.kio_client import call
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

INVALID_TIMESTAMP = 32
DAY_MS = 24 * 3600 * 1000


def produce(server: Server, topic: str, records: Sequence[Record]) -> PartitionProduceResponse:
    data = PartitionProduceData(index=i32(0), records=bytes(encode_batch(records)))  # type: ignore[arg-type]
    request = ProduceRequest(
        transactional_id=None,
        acks=i16(-1),
        timeout=i32Timedelta.parse(timedelta(seconds=30)),
        topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),  # type: ignore[arg-type]
    )
    with WireClient(server.port) as client:
        return call(client, request, ProduceResponse).responses[0].partition_responses[0]


def named(answer: PartitionProduceResponse) -> list[int]:
    return [error.batch_index for error in answer.record_errors]


def test_records_without_a_key_are_named(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    now_ms = int(time.time() * 1000)
    answer = produce(server, topic, [Record(None if n % 2 else b"k", b"v", timestamp_ms=now_ms) for n in range(8)])
    text = f"Compacted topic cannot accept message without key in topic partition {topic}-0"
    assert (answer.error_code, named(answer)) == (INVALID_RECORD, [1, 3, 5, 7])
    assert {error.batch_index_error_message for error in answer.record_errors} == {text}
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in (1, 3, 5))
    assert answer.error_message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [{shown}]"
    )
    assert (answer.base_offset, answer.log_start_offset) == (-1, 0)


def test_records_out_of_time_are_named(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(
        config={"message.timestamp.before.max.ms": str(DAY_MS), "message.timestamp.after.max.ms": str(DAY_MS)}
    )
    now_ms = int(time.time() * 1000)
    times = [now_ms - 2 * DAY_MS, now_ms, now_ms + 2 * DAY_MS]
    answer = produce(server, topic, [Record(b"k", b"v", timestamp_ms=time_ms) for time_ms in times])
    assert (answer.error_code, named(answer)) == (INVALID_TIMESTAMP, [0, 2])
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    for error in answer.record_errors:
        said = error.batch_index_error_message or ""
        index = error.batch_index
        assert said.startswith(f"Timestamp {times[index]} of message with offset {index} is out of range. ")
        bounds = said.partition("The timestamp should be within [")[2].rstrip("]").split(", ")
        assert int(bounds[1]) - int(bounds[0]) == 2 * DAY_MS
    assert produce(server, topic, [Record(b"k", b"v", timestamp_ms=now_ms)]).error_code == 0


def test_a_batch_that_is_too_large_names_no_records(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"max.message.bytes": "2000"})
    answer = produce(server, topic, [Record(b"k", b"x" * 1_000)] * 3)
    assert (answer.error_code, named(answer)) == (MESSAGE_TOO_LARGE, [])


def test_librdkafka_tells_the_records_at_fault_from_their_neighbours(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    failed: dict[int, KafkaError | None] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        failed[int(message.value() or b"")] = error

    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 500})
    for number in range(100):
        key = None if number % 10 == 0 else b"k"
        producer.produce(topic, b"%d" % number, key, partition=0, on_delivery=delivered)
    # Not flush(): that ends the linger and may cut the records into several batches, and librdkafka blames every record of
    # a batch with a single one at fault.
    eventually(lambda: producer.poll(0.1) >= 0 and len(producer) == 0, 30, "every record has its answer")
    codes = {number: error.code() if error is not None else 0 for number, error in failed.items()}
    at_fault = {number for number, code in codes.items() if code == KafkaError.INVALID_RECORD}
    assert at_fault == set(range(0, 100, 10))
    assert {code for number, code in codes.items() if number % 10} == {KafkaError._INVALID_DIFFERENT_RECORD}


def test_the_console_producer_names_what_was_refused(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    told = run_tool(
        CONSOLE_PRODUCER, "--bootstrap-server", server.bootstrap, "--topic", topic, stdin="a\nb\n", check=False
    )
    assert "InvalidRecordException" in told.text, told.text
    assert f"without key in topic partition {topic}-0" in told.text, told.text
