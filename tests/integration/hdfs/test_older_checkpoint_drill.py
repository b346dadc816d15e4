"""The drill of docs/OPERATIONS.md about a NameNode with an older checkpoint: its commands, as the page has them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from testing.hdfs import fresh_root, new_cluster, outside_any_loop, running
from testing.processes import eventually
from tests.support.hdfs_drill import WAIT_S, Drill
from tests.support.older_checkpoint import copy_checkpoint, put_back
from tests.support.page_commands import hadoop_tools, run_commands, run_page

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(400)]

SEEN_WAIT_S = 60.0
UNREADABLE_WAIT_S = 8.0
DELETED = b"deleted since the checkpoint"
EXTENSION = "dfs.namenode.safemode.extension"


def test_the_namenode_has_an_older_checkpoint(tmp_path: Path) -> None:
    """Under a server that lives, and was killed and started since the checkpoint; then by the page."""
    # 0 lets HDFS leave safe mode in the middle of a report, before it has seen that DataNodes have newer blocks.
    cluster = new_cluster(tmp_path / "hdfs", datanodes=1, **{EXTENSION: "2000"})  # type: ignore[arg-type]
    with running(cluster):
        tools = hadoop_tools(tmp_path / "bin", cluster.directory / "conf")
        drill = Drill(cluster, tmp_path, fresh_root("older"))
        drill.server.start()
        try:
            for topic in ("t", "idle"):
                assert drill.takes_records(topic)
            before = {topic: list(values) for topic, values in drill.acknowledged.items()}
            copy_checkpoint(cluster, tools, tmp_path / "copy")
            assert drill.takes_records()
            drill.server.kill()
            drill.server.start()
            for topic in ("t", "new"):
                assert drill.takes_records(topic)
            epoch = leader_epoch(drill)

            outside_any_loop(put_back(cluster, tmp_path / "copy"))
            assert drill.server.process.wait(SEEN_WAIT_S) == 1
            assert "HDFS has an older state than this process has seen" in drill.server.process.log_of_this_run()
            refused = run_commands("hdfs dfsadmin -safemode leave || true; hdfs dfsadmin -safemode get", tools)
            assert "Safe mode is ON" in refused, refused

            said = follow_page(drill, tools)
            assert (
                "Safe mode is OFF" in said and "Last Block Report" in said and "accepted, and written down" in said
            ), said
            drill.server.start()
            assert "metadata_end_lost" in drill.server.process.log_of_this_run()
            # What follows the checkpoint may be lost. What is left is what was acknowledged, in order, from the start.
            for topic, values in before.items():
                found = drill.read(topic)
                assert found == drill.acknowledged[topic][: len(found)] and len(found) >= len(values)
                drill.acknowledged[topic] = found
            del drill.acknowledged["new"]
            for topic in ("t", "idle", "new"):
                eventually(partial(drill.takes_records, topic), WAIT_S, f"{topic} takes records")
            drill.check()
            assert leader_epoch(drill) > epoch, "consumers know that epoch by other records"
        finally:
            drill.server.close()
        assert "Traceback" not in drill.server.log_file.read_text()


def test_what_was_deleted_since_is_back_without_its_bytes(tmp_path: Path) -> None:
    """A reader is given no other record in its place, and an operator deletes it once more."""
    cluster = new_cluster(tmp_path / "hdfs", datanodes=1, **{EXTENSION: "2000"})  # type: ignore[arg-type]
    with running(cluster):
        tools = hadoop_tools(tmp_path / "bin", cluster.directory / "conf")
        drill = Drill(cluster, tmp_path, fresh_root("deleted"))
        drill.server.start()
        try:
            admin = AdminClient({"bootstrap.servers": drill.server.bootstrap, "log_level": 0})
            admin.create_topics([NewTopic("t", 1, config={"file.delete.delay.ms": "0"})])["t"].result(WAIT_S)
            produce(drill, DELETED)
            assert drill.server.stop() == 0
            drill.server.start()
            assert drill.takes_records()
            copy_checkpoint(cluster, tools, tmp_path / "copy")
            assert is_on_disks(cluster, DELETED)
            delete_first_record(admin)
            eventually(lambda: not is_on_disks(cluster, DELETED), WAIT_S, "its file is deleted", 0.2)
            assert drill.server.stop() == 0

            outside_any_loop(put_back(cluster, tmp_path / "copy"))
            said = follow_page(drill, tools)
            assert "00000000/00000000.log" in said, said
            drill.server.start()
            consumer = Consumer({"bootstrap.servers": drill.server.bootstrap, "group.id": "g", "log_level": 0})
            consumer.assign([TopicPartition("t", 0, 0)])
            message = consumer.poll(UNREADABLE_WAIT_S)
            assert message is None or message.error() is not None, message.value()
            consumer.close()
            assert drill.takes_records()
            delete_first_record(admin)
            consumer = Consumer({"bootstrap.servers": drill.server.bootstrap, "group.id": "g", "log_level": 0})
            consumer.assign([TopicPartition("t", 0, 1)])
            for value in drill.acknowledged["t"]:
                message = consumer.poll(WAIT_S)
                assert message is not None and message.error() is None and message.value() == value
            consumer.close()
        finally:
            drill.server.close()
        assert "Traceback" not in drill.server.log_file.read_text()


def follow_page(drill: Drill, tools: Path) -> str:
    return run_page(
        "Drill: the NameNode has an older checkpoint",
        tools,
        ROOT=drill.root,
        STORE=drill.server.store,
        DATANODES=" ".join(str(node.ipc) for node in drill.hdfs.plan.datanodes),
    )


def produce(drill: Drill, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": drill.server.bootstrap, "log_level": 0})
    producer.produce("t", value)
    assert producer.flush(WAIT_S) == 0


def delete_first_record(admin: AdminClient) -> None:
    place = TopicPartition("t", 0, 1)
    admin.delete_records([place])[place].result(WAIT_S)


def is_on_disks(cluster: HdfsCluster, content: bytes) -> bool:
    for path in cluster.directory.glob("dn*/data/**/blk_*"):
        with suppress(FileNotFoundError):
            if content in path.read_bytes():
                return True
    return False


def leader_epoch(drill: Drill) -> int:
    """Of the newest record of the topic `t`, as a consumer sees it."""
    consumer = Consumer({"bootstrap.servers": drill.server.bootstrap, "group.id": "g", "log_level": 0})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=WAIT_S)
        consumer.assign([TopicPartition("t", 0, end - 1)])
        message = consumer.poll(WAIT_S)
        assert message is not None and message.error() is None
        found = message.leader_epoch()
        assert found is not None
        return found
    finally:
        consumer.close()
