"""A node that cannot be one of its cluster says in one sentence why, and how to go on; those that run notice nothing."""

from __future__ import annotations

import shlex
import subprocess
import time

import pytest

from bmq.dev.ports import HOST
from bmq.dev.zookeeper import ZooKeeperServer
from testing.cluster import BmqCluster, ClusterNode
from testing.hdfs import outside_any_loop
from testing.patience import Patience
from testing.processes import free_port
from testing.servers import bmq_command
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(120)]

# Besides a start that waits for nothing: imports, and one look at HDFS and ZooKeeper, on two busy cores.
REFUSAL_WAIT_S = 30.0


def refusal(node: ClusterNode, timeout_s: float = REFUSAL_WAIT_S) -> str:
    """The one sentence of a node that does not start."""
    node.execute()
    assert node.process.wait(timeout_s) == 1, node.process
    return only_sentence(node.process.log_of_this_run())


def only_sentence(said: str) -> str:
    assert "Traceback" not in said, said
    sentences = [line for line in said.splitlines() if line.strip() and not line.startswith("{")]
    assert len(sentences) == 1 and sentences[0].startswith("bmq: "), said
    return sentences[0]


@pytest.fixture
def short_wait() -> dict[str, str]:
    return {"BMQ_START_WAIT_MS": "2000", "BMQ_HDFS__RETRY_MAX_S": "1"}


def test_chroot_of_another_cluster(cluster: BmqCluster, new_cluster: ClusterMaker) -> None:
    """Its HDFS directory is new, its place in ZooKeeper is not."""
    foreign = new_cluster()
    foreign.zookeeper = cluster.zookeeper
    sentence = refusal(foreign.add())
    assert "ZooKeeper belongs to the cluster" in sentence and "--zookeeper" in sentence, sentence
    cluster.wait_settled()


@pytest.mark.faults
def test_directory_of_another_cluster(cluster: BmqCluster, new_cluster: ClusterMaker) -> None:
    """The directory of one cluster with the chroot of another, both in use: neither is touched."""
    other = new_cluster(1)
    other.start()
    mixed = new_cluster()
    mixed.store, mixed.zookeeper = cluster.store, other.zookeeper
    sentence = refusal(mixed.add())
    assert "ZooKeeper belongs to the cluster" in sentence and "--zookeeper" in sentence, sentence
    cluster.wait_settled()
    other.wait_settled()


def test_cluster_id_of_another_cluster(cluster: BmqCluster, new_cluster: ClusterMaker) -> None:
    stranger = new_cluster()
    stranger.store, stranger.zookeeper = cluster.store, cluster.zookeeper
    sentence = refusal(stranger.add(environment={"BMQ_CLUSTER_ID": "bm90LXRoaXMtb25lISEhIQ"}))
    assert "bm90LXRoaXMtb25lISEhIQ" in sentence and cluster.get("/v1/cluster")["cluster_id"] in sentence, sentence
    cluster.wait_settled()


@pytest.mark.faults
def test_id_of_a_node_that_runs(cluster: BmqCluster, new_cluster: ClusterMaker) -> None:
    twin = new_cluster()
    twin.store, twin.zookeeper = cluster.store, cluster.zookeeper
    node = twin.add()
    cluster.wait_balanced()
    offset = cluster.get("/v1/cluster")["metadata_offset"]
    sentence = refusal(node)
    assert "node id 1" in sentence or "node 1" in sentence, sentence
    cluster.wait_settled()
    assert cluster.get("/v1/cluster")["metadata_offset"] == offset, "the twin was let in for a moment"


def test_zookeeper_that_does_not_answer(new_cluster: ClusterMaker, short_wait: dict[str, str]) -> None:
    nowhere = new_cluster(zookeeper_hosts=f"{HOST}:{free_port()}", **short_wait)
    began_at = time.monotonic()
    sentence = refusal(nowhere.add())
    assert nowhere.zookeeper.partition("/")[0] in sentence, sentence
    assert time.monotonic() - began_at > 2, "it did not wait"


def test_hdfs_that_does_not_answer(new_cluster: ClusterMaker, short_wait: dict[str, str]) -> None:
    nowhere = new_cluster(**short_wait)
    address = f"{HOST}:{free_port()}"
    nowhere.store = f"hdfs://{address}/nowhere"
    assert address in refusal(nowhere.add())


@pytest.mark.parametrize("missing", ["zookeeper", "store"])
def test_sigterm_ends_the_wait(new_cluster: ClusterMaker, missing: str) -> None:
    cluster = new_cluster()
    address = f"{HOST}:{free_port()}/nowhere"
    setattr(cluster, missing, address if missing == "zookeeper" else f"hdfs://{address}")
    node = cluster.add()
    node.execute()
    node.process.wait_for_line("waiting", REFUSAL_WAIT_S)
    assert node.process.stop(REFUSAL_WAIT_S) == 0
    assert "Traceback" not in node.process.log_of_this_run()


@pytest.mark.parametrize("arguments", [["--roles", "proxy,king"], ["--roles", "coordinator"], ["--store", "file:here"]])
def test_impossible_settings(new_cluster: ClusterMaker, arguments: list[str]) -> None:
    sentence = refusal(new_cluster().add(arguments=arguments))
    assert any(word in sentence for word in ("king", "broker role", "hdfs://")), sentence


@pytest.mark.faults
def test_address_in_use(cluster: BmqCluster, new_cluster: ClusterMaker) -> None:
    other = new_cluster()
    for occupied, option in ((cluster.node(1).kafka, "--listen"), (cluster.node(1).rest, "--rest")):
        assert occupied in refusal(other.add(arguments=[option, occupied]))


def test_wiped_zookeeper(new_cluster: ClusterMaker, own_zookeeper: ZooKeeperServer, make_topic: TopicMaker) -> None:
    """Its counter would give epochs that the metadata log has seen: no node goes on until the sentence is followed."""
    cluster = new_cluster(1, zookeeper_hosts=str(own_zookeeper.address))
    cluster.start()
    (node,) = cluster.nodes.values()
    topic = make_topic(cluster, 2)
    cluster_id = cluster.get("/v1/cluster")["cluster_id"]
    node.restart()
    node.stop()
    outside_any_loop(own_zookeeper.stop())
    own_zookeeper.wipe()
    outside_any_loop(own_zookeeper.start())

    sentence = refusal(node)
    command = sentence.partition("`")[2].partition("`")[0]
    assert command.startswith("bmq cluster raise-epoch"), sentence
    placed = {"HOSTS": cluster.zookeeper, "ID": cluster_id}
    words = [placed.get(word, word) for word in shlex.split(command)]
    subprocess.run([bmq_command(), *words[1:]], check=True, timeout=Patience(30).limit_s, capture_output=True)
    node.start()
    cluster.wait_settled()
    assert cluster.owners_of(topic) == [1, 1]
