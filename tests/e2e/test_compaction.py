"""A compacted topic as clients see it: the newest record of each key, before and after a restart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from testing.patience import Patience
from testing.processes import eventually
from testing.servers import BmqServer

pytestmark = [pytest.mark.campaign("kills"), pytest.mark.bmq_only, pytest.mark.timeout(420)]

KEYS, ROUNDS, WAIT_S = 20, 200, 60.0
CLEANED_WAIT_S = 180.0
"""A process that cleans runs when nobody else wants to; one that gets nothing for a minute is followed by one that takes part."""
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "500",
    "bmq.segment.idle.close.ms": "500",
    "file.delete.delay.ms": "1000",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BmqServer]:
    server = BmqServer(tmp_path / "data", {"BMQ_BROKER__COMPACTION_CHECK_INTERVAL_MS": "200"})
    server.start()
    yield server
    server.close()


def write(server: BmqServer, topic: str, *, ends_in: bytes) -> dict[bytes, bytes]:
    """Each key many times; the last values."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": "t", "linger.ms": 2})
    producer.init_transactions(WAIT_S)
    expected: dict[bytes, bytes] = {}
    for number in range(ROUNDS):
        producer.begin_transaction()
        is_aborted = number % 10 == 9
        for key in range(KEYS):
            name, value = b"key-%d" % key, b"%d-" % number + ends_in
            producer.produce(topic, value, name)
            if not is_aborted:
                expected[name] = value
        # librdkafka aborts what it could not begin yet (CONCURRENT_TRANSACTIONS), which is INVALID_TXN_STATE: begin first.
        assert producer.flush(WAIT_S) == 0
        (producer.abort_transaction if is_aborted else producer.commit_transaction)(WAIT_S)
    return expected


def read(server: BmqServer, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    found: list[tuple[bytes | None, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, "nothing more comes"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append((message.key(), message.value()))
    finally:
        consumer.close()


def compactions(server: BmqServer) -> int:
    found = re.search(r"^bmq_compactions_total (\d+)", server.get("/metrics")[1], re.MULTILINE)
    return int(found[1]) if found else 0


def workers(server: BmqServer) -> list[psutil.Process]:
    children = psutil.Process(server.pid).children()
    return [child for child in children if "bmq.server.compaction_worker" in " ".join(child.cmdline())]


def test_consumers_find_the_newest_record_of_each_key(server: BmqServer) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic("state", 1, 1, config=CONFIGS)])["state"].result(WAIT_S)
    expected = write(server, "state", ends_in=b"first")
    eventually(lambda: len(read(server, "state")) == KEYS, CLEANED_WAIT_S, "only the newest records are left")
    assert dict(read(server, "state")) == expected
    # Whoever cleans may die; the next cleaning has another process.
    (worker,) = workers(server)
    worker.kill()
    before = compactions(server)
    expected = write(server, "state", ends_in=b"second")
    eventually(
        lambda: compactions(server) > before and len(read(server, "state")) == KEYS,
        CLEANED_WAIT_S,
        "the log is compacted once more",
    )
    assert dict(read(server, "state")) == expected
    children = workers(server)
    server.stop()
    _, alive = psutil.wait_procs(children, timeout=Patience(10).limit_s)
    assert not alive, "no process is left behind"
    server.start()
    assert dict(read(server, "state")) == expected
    assert len(read(server, "state")) == KEYS
