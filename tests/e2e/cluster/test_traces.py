"""A trace of a produce goes from the proxy to the partition's owner, and names the DataNodes that acknowledged it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from testing.otlp_collector import OtlpCollector, attributes_of, named
from testing.processes import eventually
from testing.servers import UNDER_TEST
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(240)]

WAIT_S = 60.0


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    made = OtlpCollector()
    yield made
    made.close()


def test_proxy_owner_and_datanodes_are_in_one_trace(
    new_cluster: ClusterMaker, make_topic: TopicMaker, collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(UNDER_TEST, raising=False)  # the extra `tracing` is beside this interpreter
    cluster = new_cluster(**collector.environment())
    owner, proxy = cluster.add("broker,coordinator,controller"), cluster.add("proxy")
    cluster.start()
    topic = make_topic(cluster)
    producer = Producer({"bootstrap.servers": proxy.kafka, "client.id": "writer", "acks": "all"})
    producer.produce(topic, b"record")
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({"bootstrap.servers": proxy.kafka, "group.id": topic, "client.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(WAIT_S)
    consumer.close()
    assert message is not None and message.value() == b"record"

    def acknowledged() -> bool:
        return any(
            len(named(trace, "hdfs ack")) == 2 and named(trace, "forward") for trace in collector.traces("produce")
        )

    eventually(acknowledged, WAIT_S, "a trace with the acknowledgements of both DataNodes")
    (trace,) = [one for one in collector.traces("produce") if named(one, "hdfs ack")]
    nodes = {span.name: node for node, span in trace}
    assert nodes["forward"] == str(proxy.node_id)
    assert nodes["produce at the owner"] == nodes["group commit"] == nodes["hdfs ack"] == str(owner.node_id)
    (forward,), (at_owner,) = named(trace, "forward"), named(trace, "produce at the owner")
    assert at_owner.parent_span_id == forward.span_id
    acks = named(trace, "hdfs ack")
    assert {ack.parent_span_id for ack in acks} == {named(trace, "group commit")[0].span_id}
    datanodes = [node for ack in acks for node in attributes_of(ack)["bmq.hdfs.datanodes"]]
    assert len(set(datanodes)) == 2 and all(":" in node for node in datanodes)
    eventually(lambda: collector.traces("fetch"), WAIT_S, "a trace of a fetch")
