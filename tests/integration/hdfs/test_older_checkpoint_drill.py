"""The drill of docs/OPERATIONS.md about a NameNode with an older checkpoint: its commands, as the page has them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from testing.hdfs import fresh_root, new_cluster, outside_any_loop, running
from testing.processes import eventually
from tests.support.hdfs_drill import WAIT_S, Drill
from tests.support.older_checkpoint import copy_checkpoint, put_back
from tests.support.page_commands import hadoop_tools, run_commands, run_page

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(400)]

SEEN_WAIT_S = 60.0
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


def follow_page(drill: Drill, tools: Path) -> str:
    return run_page(
        "Drill: the NameNode has an older checkpoint",
        tools,
        ROOT=drill.root,
        STORE=drill.server.store,
        DATANODES=" ".join(str(node.ipc) for node in drill.hdfs.plan.datanodes),
    )


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
