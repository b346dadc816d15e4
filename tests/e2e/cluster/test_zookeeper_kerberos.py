"""Three nodes whose ZooKeeper lets nobody in without Kerberos: they start, fail over, and wait for a KDC that is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bmq.dev.kdc import Kdc
from testing.hdfs import outside_any_loop
from testing.kdc import running_kdc
from testing.processes import eventually
from testing.servers import UNDER_TEST
from testing.steady_load import assert_nothing_lost
from testing.zookeeper import running_zookeeper
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker, no_tracebacks
from tests.e2e.cluster.test_refused_nodes import refusal
from tests.support.kerberized_zookeeper import KerberizedZooKeeper, kerberized_zookeeper
from tests.support.paced_load import producing

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(300), pytest.mark.safety]

PARTITIONS = 3
TICKET_LIFE_S = 20


@pytest.fixture
def kdc(tmp_path: Path) -> Iterator[Kdc]:
    with running_kdc(tmp_path / "realm", ticket_life_s=TICKET_LIFE_S) as made:
        yield made


@pytest.fixture
def secure(tmp_path: Path, kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> Iterator[KerberizedZooKeeper]:
    monkeypatch.delenv(UNDER_TEST, raising=False)  # the extra `kerberos` is beside this interpreter
    made = kerberized_zookeeper(tmp_path / "kerberized", kdc)
    with running_zookeeper(made.server):
        yield made


def test_nodes_start_and_fail_over(
    new_cluster: ClusterMaker, secure: KerberizedZooKeeper, make_topic: TopicMaker
) -> None:
    cluster = new_cluster(3, zookeeper_hosts=secure.address, **secure.environment())
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    with no_tracebacks(cluster), producing(cluster.bootstrap, topic, PARTITIONS) as load:
        cluster.wait_balanced()
        controller = cluster.controller()
        controller.kill()
        load.wait_for_every_partition(300)
        eventually(lambda: cluster.controller() is not controller, 30, "another node is the active controller")
        assert controller.node_id not in cluster.owners_of(topic)
        controller.start()
        cluster.wait_settled()
        # Clients see nothing of a ZooKeeper that is back before the KDC is.
        outside_any_loop(secure.kdc.stop())
        outside_any_loop(secure.server.restart())
        load.wait_for_every_partition(300)
        outside_any_loop(secure.kdc.start())
        cluster.wait_settled()
        controller = cluster.controller()
        controller.kill()
        load.wait_for_every_partition(300)
        eventually(lambda: cluster.controller() is not controller, 30, "another node is the active controller")
        load.assert_no_hang()
    assert_nothing_lost(load, cluster.bootstrap)


def test_a_node_that_may_not_log_in_says_why(new_cluster: ClusterMaker, secure: KerberizedZooKeeper) -> None:
    cluster = new_cluster(zookeeper_hosts=secure.address, **secure.environment(), BMQ_START_WAIT_MS="4000")
    for setting, text, sentence in (
        ("PRINCIPAL", secure.kdc.full("eve"), "bmq.keytab has no usable key of eve@"),
        ("KEYTAB", "/no/such.keytab", "zookeeper_security.keytab /no/such.keytab cannot be read"),
        ("SERVER_PRINCIPAL", "zk/_HOST", "the KDC does not know the principal of ZooKeeper at localhost"),
        ("SASL_MECHANISM", "", "need sasl_mechanism = GSSAPI"),
    ):
        node = cluster.add(environment={f"BMQ_ZOOKEEPER_SECURITY__{setting}": text})
        assert sentence in refusal(node)
