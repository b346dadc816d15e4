"""Traces end to end: an OTLP endpoint gets what a server did for a produce and a fetch of a stock client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from testing.otlp_collector import OtlpCollector, attributes_of, named
from testing.processes import eventually
from testing.servers import BmqServer
from tests.e2e.conftest import assert_no_traceback, create_topic

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(120)]

WAIT_S = 30.0


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    made = OtlpCollector()
    yield made
    made.close()


@pytest.fixture
def server(collector: OtlpCollector, tmp_path: Path) -> Iterator[BmqServer]:
    made = BmqServer(tmp_path / "data", collector.environment(), has_extras=True)
    made.start()
    yield made
    made.close()
    assert_no_traceback(made)


def consume_one(server: BmqServer) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "g", "client.id": "reader"})
    consumer.assign([TopicPartition("t", 0, 0)])
    message = consumer.poll(WAIT_S)
    consumer.close()
    assert message is not None and message.error() is None
    value: bytes | None = message.value()
    return value


def test_an_endpoint_gets_the_traces_of_a_client(server: BmqServer, collector: OtlpCollector) -> None:
    create_topic(server, "t")
    producer = Producer({"bootstrap.servers": server.bootstrap, "client.id": "writer", "acks": "all"})
    producer.produce("t", b"record")
    assert producer.flush(WAIT_S) == 0
    assert consume_one(server) == b"record"

    def all_came() -> bool:
        return bool(collector.traces("produce")) and any(
            span.name == "read from memory" and attributes_of(span)["bmq.tail_bytes"] for _, span in collector.spans
        )

    eventually(all_came, WAIT_S, "the traces")
    (trace,) = [one for one in collector.traces("produce") if named(one, "append")]
    root, append, commit, sending = (named(trace, name)[0] for name in ("produce", "append", "group commit", "send"))
    assert attributes_of(root)["messaging.client.id"] == "writer"
    assert attributes_of(append)["messaging.kafka.offset"] == 0
    assert attributes_of(commit)["bmq.batches"] == 1
    assert (append.parent_span_id, commit.parent_span_id) == (root.span_id, append.span_id)
    times = (root.start_time_unix_nano, commit.start_time_unix_nano, sending.end_time_unix_nano)
    assert times == tuple(sorted(times)) and sending.end_time_unix_nano <= root.end_time_unix_nano

    def exported() -> bool:
        """They are counted when the endpoint has answered, which is after they came."""
        return "bmq_trace_spans_exported_total 0.0" not in server.metrics()

    eventually(exported, WAIT_S, "the spans are counted")
    assert 'bmq_trace_spans_dropped_total{reason="queue_full"} 0.0' in server.metrics()


def test_an_endpoint_that_is_gone_costs_clients_nothing(server: BmqServer, collector: OtlpCollector) -> None:
    collector.close()
    create_topic(server, "t")
    producer = Producer({"bootstrap.servers": server.bootstrap, "message.timeout.ms": "20000"})
    for _ in range(50):
        producer.produce("t", b"record")
        assert producer.flush(WAIT_S) == 0
    assert consume_one(server) == b"record"
