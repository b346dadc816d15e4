"""The whole server on a real HDFS whose daemons are hurt while clients write and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from testing.hdfs import fresh_root, outside_any_loop
from testing.patience import Patience
from testing.processes import eventually
from testing.servers import BmqServer
from testing.steady_load import SteadyProducer, assert_nothing_lost
from tests.support.hdfs_servers import server_on

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(300), pytest.mark.safety]

TOPIC = "numbers"
PARTITIONS = 3
DATANODES = 3
MIB = 1024 * 1024
_REFUSED_FETCHES = 'bmq_errors_total{api="fetch",error="KAFKA_STORAGE_ERROR"}'

ServerMaker = Callable[..., BmqServer]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[ServerMaker]:
    """`serve(cluster)` starts a server on a directory of its own in the cluster; it is gone when the test ends."""
    made: list[BmqServer] = []

    def make(cluster: HdfsCluster, **settings: str) -> BmqServer:
        environment = {f"BMQ_{name}": value for name, value in settings.items()}
        server = server_on(cluster, tmp_path / "server", fresh_root("server"), environment)
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        server.close()
        logged = server.log_file.read_text(errors="replace")
        assert "Traceback (most recent call last)" not in logged, logged[-8_000:]


def create_topic(server: BmqServer, name: str = TOPIC, partitions: int = PARTITIONS, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, num_partitions=partitions, config=settings)])[name].result(timeout=30)


def produce_one(server: BmqServer, *, acks: str = "all", timeout_ms: int = 3_000) -> KafkaError | None:
    """How one record fared that the client does not send twice."""
    outcomes: list[KafkaError | None] = []
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "acks": acks,
            "retries": 0,
            "request.timeout.ms": timeout_ms,
            "message.timeout.ms": 2 * timeout_ms,
            "log_level": 0,
        }
    )

    def delivered(error: KafkaError | None, _: Message) -> None:
        outcomes.append(error)

    producer.produce(TOPIC, b"-1", partition=0, on_delivery=delivered)
    producer.flush(Patience(3 * timeout_ms / 1000).limit_s)
    assert len(outcomes) == 1
    return outcomes[0]


def error_code_of_one(server: BmqServer) -> int | None:
    error = produce_one(server)
    return None if error is None else error.code()


def metric(server: BmqServer, name: str) -> float:
    lines = server.metrics().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_a_lost_and_a_hung_datanode_cost_nothing_but_time(own_hdfs: HdfsCluster, serve: ServerMaker) -> None:
    server = serve(own_hdfs)
    create_topic(server)
    producer = SteadyProducer(server.bootstrap, TOPIC, PARTITIONS)
    try:
        producer.wait_for_acknowledgements(3_000)
        outside_any_loop(own_hdfs.datanode(0).kill())
        producer.wait_for_acknowledgements(3_000)
        outside_any_loop(own_hdfs.datanode(0).restart())
        outside_any_loop(own_hdfs.wait_live(3))
        outside_any_loop(own_hdfs.datanode(1).pause())
        producer.wait_for_acknowledgements(3_000)
        outside_any_loop(own_hdfs.datanode(1).resume())
        producer.wait_for_acknowledgements(3_000)
    finally:
        producer.finish()
    assert metric(server, "bmq_segment_mends_total") > 0
    assert_nothing_lost(producer, server.bootstrap)


def test_the_server_is_killed_and_a_datanode_with_it(own_hdfs: HdfsCluster, serve: ServerMaker) -> None:
    server = serve(own_hdfs)
    create_topic(server)
    producer = SteadyProducer(server.bootstrap, TOPIC, PARTITIONS)
    try:
        for index in range(2):
            producer.wait_for_acknowledgements(3_000)
            server.kill()
            outside_any_loop(own_hdfs.datanode(index).kill())
            server.start()
            producer.wait_for_acknowledgements(3_000)
            outside_any_loop(own_hdfs.datanode(index).restart())
            outside_any_loop(own_hdfs.wait_live(3))
    finally:
        producer.finish()
    assert_nothing_lost(producer, server.bootstrap)


@pytest.mark.faults
def test_the_active_namenode_dies_under_load(own_ha_hdfs: HdfsCluster, serve: ServerMaker) -> None:
    server = serve(own_ha_hdfs)
    create_topic(server, segment_bytes=str(MIB))
    producer = SteadyProducer(server.bootstrap, TOPIC, PARTITIONS)
    try:
        for dying, heir in ((0, 1), (1, 0)):
            producer.wait_for_acknowledgements(3_000)
            outside_any_loop(own_ha_hdfs.namenode(dying).kill())
            outside_any_loop(own_ha_hdfs.transition_to_active(heir))
            producer.wait_for_acknowledgements(20_000)
            outside_any_loop(own_ha_hdfs.namenode(dying).restart())
        server.kill()
        server.start()
        producer.wait_for_acknowledgements(3_000)
    finally:
        producer.finish()
    assert_nothing_lost(producer, server.bootstrap)


def test_without_a_namenode_open_segments_and_known_blocks_go_on(own_hdfs: HdfsCluster, serve: ServerMaker) -> None:
    server = serve(own_hdfs)
    create_topic(server)
    producer = SteadyProducer(server.bootstrap, TOPIC, PARTITIONS)
    try:
        producer.wait_for_acknowledgements(3_000)
        outside_any_loop(own_hdfs.namenode(0).kill())
        producer.wait_for_acknowledgements(10_000)
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "reader", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        read_count = 0

        def are_read() -> bool:
            nonlocal read_count
            read_count += len(consumer.consume(5_000 - read_count, timeout=1))
            return read_count == 5_000

        eventually(are_read, 60, "5,000 records are read")
        consumer.close()
        outside_any_loop(own_hdfs.namenode(0).restart())
        outside_any_loop(own_hdfs.wait_live(3))
        producer.wait_for_acknowledgements(3_000)
    finally:
        producer.finish()
    assert_nothing_lost(producer, server.bootstrap)


def test_too_few_datanodes_are_said_and_writing_comes_back_with_them(own_hdfs: HdfsCluster, serve: ServerMaker) -> None:
    server = serve(own_hdfs)
    create_topic(server, partitions=1, min_insync_replicas="2")
    eventually(lambda: produce_one(server) is None, 60, "the new topic takes records")
    for index in (0, 1):
        outside_any_loop(own_hdfs.datanode(index).kill())
    too_few = (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    # Until the DataNodes are missed a client may give up before it is answered.
    eventually(lambda: error_code_of_one(server) in too_few, 60, "a refusal")
    too_few_before = KafkaError.NOT_ENOUGH_REPLICAS
    eventually(lambda: error_code_of_one(server) == too_few_before, 60, "a refusal before anything is appended")
    assert eventually(lambda: produce_one(server, acks="1") is None, 30, "acks=1 is served by one node")
    for index in (0, 1):
        outside_any_loop(own_hdfs.datanode(index).restart())
    outside_any_loop(own_hdfs.wait_live(3))
    assert eventually(lambda: produce_one(server) is None, 60, "writing comes back")


def _replicas(cluster: HdfsCluster, size_least: int) -> dict[str, list[Path]]:
    """The files of every closed block that has one on each DataNode: they are closed one after the other."""
    found: dict[str, list[Path]] = {}
    for path in cluster.directory.glob("dn*/**/finalized/**/blk_*"):
        if path.suffix != ".meta" and path.stat().st_size >= size_least:
            found.setdefault(path.name, []).append(path)
    return {name: paths for name, paths in found.items() if len(paths) == DATANODES}


def test_rot_in_one_replica_is_read_around_and_rot_in_all_is_an_error_for_its_range(
    own_hdfs: HdfsCluster, serve: ServerMaker
) -> None:
    # Without caches, so that reads do go to the DataNodes.
    server = serve(own_hdfs, BROKER__TAIL_CACHE_BYTES_MAX="0", FETCH__READ_CACHE_BYTES_MAX="0")
    create_topic(server, partitions=1, segment_bytes=str(MIB))
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 5})
    for number in range(3_000):
        producer.produce(TOPIC, b"%06d" % number + bytes(1_000), partition=0)
    assert producer.flush(60) == 0
    eventually(lambda: len(_replicas(own_hdfs, MIB // 2)) >= 2, 60, "closed blocks")
    replicas = _replicas(own_hdfs, MIB // 2)
    _flip_middle([paths[0] for paths in replicas.values()])
    assert _read_from(server, 0, 3_000) == 3_000
    assert metric(server, _REFUSED_FETCHES) == 0
    first_block = min(replicas, key=lambda name: int(name.removeprefix("blk_")))
    _flip_middle(replicas[first_block][1:])

    def is_refused() -> bool:
        # librdkafka tells its caller nothing of this error; it asks again for ever, as it does with a Kafka whose disk fails.
        assert _read_from(server, 0, 3_000, wait_s=5) < 1_000
        return metric(server, _REFUSED_FETCHES) > 0

    eventually(is_refused, 60, "a fetch is refused")
    assert metric(server, "bmq_hdfs_checksum_errors_total") > 0
    assert _read_from(server, 2_000, 1_000) == 1_000


def _flip_middle(paths: list[Path]) -> None:
    for path in paths:
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))


def _read_from(server: BmqServer, offset: int, wanted: int, wait_s: float = 20) -> int:
    """How many records follow `offset`, each checked; fewer than `wanted` when none has come for `wait_s`."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "r", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    count = 0
    while count < wanted and (messages := consumer.consume(1_000, timeout=wait_s)):
        for message in messages:
            assert message.error() is None, message.error()
            value = message.value()
            assert value is not None and value[:6] == b"%06d" % (offset + count)
            count += 1
    consumer.close()
    return count
