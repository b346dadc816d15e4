"""The drills of docs/OPERATIONS.md that are about a cluster: their commands, as the page has them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.zookeeper import ZooKeeperServer
from testing.cluster import BmqCluster, ClusterNode
from testing.hdfs import outside_any_loop
from testing.processes import eventually
from testing.steady_load import assert_nothing_lost, read_everything
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.e2e.cluster.test_refused_nodes import REFUSAL_WAIT_S, only_sentence, refusal
from tests.support.paced_load import PacedProducer, producing
from tests.support.page_commands import hadoop_tools, run_page
from tests.support.wrong_clock import SettableClock

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(300)]

PARTITIONS = 3
RECORDS_S = 100
HOUR_S = 3_600
FENCED_WAIT_S = 60.0


def test_zookeeper_has_lost_its_data(
    new_cluster: ClusterMaker,
    own_zookeeper: ZooKeeperServer,
    hdfs: HdfsCluster,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    cluster = new_cluster(2, zookeeper_hosts=str(own_zookeeper.address))
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    cluster_id = cluster.get("/v1/cluster")["cluster_id"]
    with producing(cluster.bootstrap, topic, PARTITIONS, records_s=RECORDS_S) as load:
        load.wait_for_every_partition(20)
        for node in cluster.nodes.values():
            node.restart()  # so that the metadata log has seen epochs that a new counter would give again
        load.wait_for_every_partition(20)
        for node in cluster.nodes.values():
            node.stop()
        outside_any_loop(own_zookeeper.stop())
        own_zookeeper.wipe()
        outside_any_loop(own_zookeeper.start())
        found = re.search(r"raise-epoch --to (\d+)", refusal(cluster.node(1)))
        assert found is not None
        said = run_page(
            "Drill: ZooKeeper has lost its data",
            hadoop_tools(tmp_path / "bin", hdfs.directory / "conf"),
            EPOCH=found[1],
            ZOOKEEPER=cluster.zookeeper,
            CLUSTER_ID=cluster_id,
            ROOT=cluster.root,
        )
        assert cluster_id in said
        cluster.start()
        load.wait_for_every_partition(20)
    assert_nothing_lost(load, cluster.bootstrap)


def test_two_processes_have_one_node_id(cluster: BmqCluster, new_cluster: ClusterMaker, make_topic: TopicMaker) -> None:
    """The wrong one comes while the right one runs, while it is away, and while it hangs."""
    others = new_cluster()
    others.store, others.zookeeper = cluster.store, cluster.zookeeper
    wrong, right = others.add(), cluster.node(1)
    topic = make_topic(cluster, PARTITIONS)
    clients = ",".join(node.kafka for node in cluster.proxies if node is not right)
    with producing(clients, topic, PARTITIONS, records_s=RECORDS_S) as load:
        assert right.internal in refusal(wrong)

        right.stop()
        wrong.start()
        assert wrong.internal in refusal(right)
        load.wait_for_every_partition(20)
        said = run_page("Drill: two processes have one node id", Path(), REST=f"http://{cluster.node(2).rest}")
        assert wrong.kafka in said and right.kafka not in said
        wrong.stop()
        right.start()
        load.wait_for_every_partition(20)

        right.pause()
        eventually(lambda: is_gone(cluster, right), FENCED_WAIT_S, "its session is over", 0.2)
        wrong.start()
        right.resume()
        assert right.process.wait(REFUSAL_WAIT_S) == 1
        assert wrong.internal in only_sentence_at_the_end(right)
        load.wait_for_every_partition(20)
        wrong.stop()
        right.start()
        cluster.wait_settled()
        load.wait_for_every_partition(20)
    assert_nothing_lost(load, cluster.bootstrap)


def is_gone(cluster: BmqCluster, node: ClusterNode) -> bool:
    return node.node_id not in [each["node_id"] for each in cluster.get("/v1/cluster")["nodes"]]


def only_sentence_at_the_end(node: ClusterNode) -> str:
    """Of a node that was ready before it ended."""
    said = node.process.log_of_this_run().splitlines()
    return only_sentence("\n".join(line for line in said if not line.startswith("bmq node ready")))


def test_the_clock_of_a_node_is_off_by_an_hour(
    new_cluster: ClusterMaker, make_topic: TopicMaker, tmp_path: Path
) -> None:
    clock = SettableClock(tmp_path / "clock")
    cluster = new_cluster(2)
    late = cluster.add(environment=clock.environment)
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    cluster.wait_balanced()
    tools = tmp_path / "bin"
    tools.mkdir()
    right_again = tools / "chronyc"
    right_again.write_text(f'#!/bin/bash\n[ "$*" = makestep ] && echo +0s > {shlex.quote(str(clock.file))}\n')
    right_again.chmod(0o755)
    with producing(cluster.bootstrap, topic, PARTITIONS, records_s=RECORDS_S) as load:
        owned = cluster.owners_of(topic).count(late.node_id)
        assert owned, "the node with the clock owns nothing: nothing is tested"
        clock.set_off_by(-HOUR_S - 60)
        eventually(lambda: load.failed, FENCED_WAIT_S, "records are refused for their time")
        assert cluster.owners_of(topic).count(late.node_id) == owned, "a node was fenced for its clock"
        said = run_page(
            "Drill: the clock of a node is off by an hour",
            tools,
            STORE=cluster.store,
            ZOOKEEPER=cluster.zookeeper,
            REST=f"http://{cluster.node(1).rest}",
            NODE_ID=str(late.node_id),
            COLUMNS="250",
        )
        assert re.search(rf"the clock of node {late.node_id} is 36\d\d\.\d s behind ours", said), said
        assert re.search(rf"agrees within 1 s with the clock of .*node {late.node_id}\b", said), said
        failed = len(load.failed)
        cluster.wait_balanced()
        load.wait_for_every_partition(50)
        assert len(load.failed) == failed, "records are refused by a clock that is right"
    # librdkafka gives records of a batch with several refused ones the second code (KIP-467).
    reasons = {reason for _, reason in load.failed}
    assert reasons <= {"Broker: Invalid timestamp", "Broker: Broker failed to validate record"}, reasons
    assert_acknowledged_is_there(load, cluster.bootstrap)


def assert_acknowledged_is_there(load: PacedProducer, bootstrap: str) -> None:
    """Every acknowledged record is where it was said to be, and nothing else is there."""
    assert len(load.acknowledged) + len(load.failed) == load.sent_count
    assert read_everything(bootstrap, load.topic, load.partitions) == load.acknowledged


def test_metadata_is_restored_on_another_cluster(
    new_cluster: ClusterMaker, make_topic: TopicMaker, tmp_path: Path
) -> None:
    first, second = new_cluster(2), new_cluster()
    first.start()
    topic = make_topic(first, PARTITIONS, config={"retention.ms": "77000"})
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin = AdminClient({"bootstrap.servers": first.bootstrap, "log_level": 0})
    user = UserScramCredentialUpsertion("alice", scram, b"secret of alice")
    admin.alter_user_scram_credentials([user])["alice"].result(30)
    with producing(first.bootstrap, topic, PARTITIONS, records_s=RECORDS_S) as load:
        said = run_page(
            "Drill: the metadata is restored on another cluster",
            Path(),
            BACKUP=str(tmp_path / "backup"),
            STORE=first.store,
            NEW_STORE=second.store,
        )
        load.wait_for_every_partition(20)
    assert "would be restored" in said and "restored as cluster" in said
    assert_nothing_lost(load, first.bootstrap)

    # Its nodes have other ids than those that owned the topic.
    for _ in range(3):
        second.add()
    for node_id in (1, 2):
        del second.nodes[node_id]
    second.start()
    there, here = first.topic(topic), second.topic(topic)
    assert here["topic_id"] == there["topic_id"] and len(here["partitions"]) == PARTITIONS
    assert first.get("/v1/cluster")["cluster_id"] != second.get("/v1/cluster")["cluster_id"]
    admin = AdminClient({"bootstrap.servers": second.bootstrap, "log_level": 0})
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    assert described.result(30)["retention.ms"].value == "77000"
    (info,) = admin.describe_user_scram_credentials(["alice"])["alice"].result(30).scram_credential_infos
    assert (info.mechanism, info.iterations) == (scram.mechanism, scram.iterations)
    with producing(second.bootstrap, topic, PARTITIONS, records_s=RECORDS_S) as load:
        load.wait_for_every_partition(20)
    assert_nothing_lost(load, second.bootstrap)
