"""Nodes that talk by TLS, on real daemons and under load: renewed certificates, another authority, the way to TLS and back."""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest

from bmq.protocol.apis import INTERNAL_APIS, ApiKey
from testing.cluster import BmqCluster, ClusterNode
from testing.patience import Patience
from testing.processes import eventually
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.support.node_pki import HERE, NodePki
from tests.support.paced_load import producing

pytestmark = [pytest.mark.bmq_only, pytest.mark.timeout(480)]

PARTITIONS: Final = 6
RECORDS_S: Final = 300
RENEWAL_WAIT_S: Final = 30.0
CONNECT_S: Final = 10.0
PREFIX: Final = "BMQ_INTERNODE_SECURITY__"


class Files:
    """What the nodes read: a certificate for each and one file of trust, in place of which others are put."""

    def __init__(self, directory: Path) -> None:
        self.pki = NodePki(directory / "authority")
        self.trust = directory / "trust.pem"
        self._directory = directory

    def certificate(self, node: ClusterNode) -> Path:
        return self._directory / f"node-{node.node_id}.pem"

    def show(self, node: ClusterNode, pki: NodePki) -> None:
        self._put(self.certificate(node), pki.node(f"node-{node.node_id}").read_bytes())

    def show_all(self, nodes: Iterable[ClusterNode], pki: NodePki) -> None:
        for node in nodes:
            self.show(node, pki)

    def believe(self, *authorities: NodePki) -> None:
        self._put(self.trust, b"".join(one.ca_file.read_bytes() for one in authorities))

    def set_up(self, node: ClusterNode, mode: str) -> None:
        """What the node is started with next. `mode` empty: no setting at all."""
        for name in ("MODE", "CERTIFICATE_FILE", "CA_FILE"):
            node.process.environment.pop(PREFIX + name, None)
        if mode:
            node.process.environment[f"{PREFIX}MODE"] = mode
        if mode in ("mixed", "tls"):
            node.process.environment[f"{PREFIX}CERTIFICATE_FILE"] = str(self.certificate(node))
            node.process.environment[f"{PREFIX}CA_FILE"] = str(self.trust)

    def _put(self, path: Path, data: bytes) -> None:
        made = path.with_suffix(".new")
        made.write_bytes(data)
        made.chmod(0o600)
        made.replace(path)


def said(node: ClusterNode, event: str) -> int:
    """How often the node's process of now has logged this."""
    return len(re.findall(rf"\b{event}\b", node.process.log_of_this_run()))


def serial_of(node: ClusterNode, shown: Path, trust: Path) -> str:
    """Of the certificate that a new connection sees. Raises OSError: there is no TLS."""
    with connected(node, shown, trust) as connection:
        return str((connection.getpeercert() or {})["serialNumber"])


def connected(node: ClusterNode, shown: Path, trust: Path) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(shown)
    context.load_verify_locations(trust)
    port = int(node.internal.rpartition(":")[2])
    return context.wrap_socket(
        socket.create_connection((HERE, port), Patience(CONNECT_S).limit_s), server_hostname=HERE
    )


def is_closed_unanswered(connection: socket.socket) -> bool:
    """After every API of nodes was asked for in one go."""
    with connection:
        connection.settimeout(Patience(CONNECT_S).limit_s)
        try:
            for api_key in sorted(INTERNAL_APIS):
                version = INTERNAL_APIS[ApiKey(api_key)].version_max
                frame = struct.pack(">hhihb", api_key, version, 1, -1, 0)
                connection.sendall(len(frame).to_bytes(4, "big") + frame)
            return connection.recv(1) == b""
        except ConnectionError:
            return True
        except ssl.SSLError as error:
            return "ALERT" in (error.reason or "") or isinstance(error, ssl.SSLEOFError)


@pytest.mark.faults
@pytest.mark.safety
def test_certificates_and_the_authority_are_replaced_under_load(
    new_cluster: ClusterMaker, make_topic: TopicMaker, tmp_path: Path
) -> None:
    cluster = new_cluster(3)
    nodes = list(cluster.nodes.values())
    files, other = Files(tmp_path), NodePki(tmp_path / "other")
    files.believe(files.pki)
    for node in nodes:
        files.show(node, files.pki)
        files.set_up(node, "tls")
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    with producing(cluster.bootstrap, topic, PARTITIONS, records_s=RECORDS_S) as load:

        def renewed(change: Callable[[], object], who: Iterable[ClusterNode] = nodes) -> None:
            before = {node: said(node, "certificate_renewed") for node in who}
            change()
            for node, count in before.items():
                eventually(lambda: said(node, "certificate_renewed") > count, RENEWAL_WAIT_S, f"{node} has new files")  # noqa: B023
            load.wait_for_every_partition(20)

        first = {node: serial_of(node, files.certificate(node), files.trust) for node in nodes}
        renewed(lambda: files.show_all(nodes, files.pki))
        renewed(lambda: files.believe(files.pki, other))
        renewed(lambda: files.show_all(nodes, other))
        renewed(lambda: files.believe(other))
        for node in nodes:
            assert serial_of(node, files.certificate(node), files.trust) != first[node]
            assert said(node, "certificate_not_renewed") == 0
        # Links of the first certificates are still there; new ones are by the new authority alone.
        died = cluster.owner_of(topic, 0)
        died.kill()
        died.start()
        cluster.wait_settled()
        load.wait_for_every_partition(20)
        strangers = {
            "a client of the authority": connected(died, other.client(), files.trust),
            "a node of the authority before": connected(died, files.pki.node("node-1"), files.trust),
            "clear text": socket.create_connection((HERE, int(died.internal.rpartition(":")[2]))),
        }
        for name, connection in strangers.items():
            assert is_closed_unanswered(connection), name
        eventually(
            lambda: "its certificate is of no node" in died.process.log_of_this_run(),
            RENEWAL_WAIT_S,
            "the reason is said",
        )
        load.wait_for_every_partition(20)
    assert load.failed == []
    assert_nothing_lost(load, cluster.bootstrap)


@pytest.mark.campaign("cluster")
def test_a_running_cluster_changes_to_tls_and_back(
    new_cluster: ClusterMaker, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Two rounds of restarts under load, as docs/OPERATIONS.md says; and two rounds back."""
    cluster = new_cluster(3)
    nodes = list(cluster.nodes.values())
    files = Files(tmp_path)
    files.believe(files.pki)
    for node in nodes:
        files.show(node, files.pki)
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    with producing(cluster.bootstrap, topic, PARTITIONS, records_s=RECORDS_S) as load:
        for mode in ("mixed", "tls", "mixed", ""):
            change(cluster, files, mode)
            load.wait_for_every_partition(20)
            if mode == "tls":
                for node in nodes:
                    assert serial_of(node, files.certificate(node), files.trust)
                    assert said(node, "link_not_encrypted") == 0
                    assert said(node, "internode_is_open") == 0
            elif mode == "mixed":
                assert [said(node, "internode_is_open") for node in nodes] == [1, 1, 1]
    assert load.failed == []
    assert_nothing_lost(load, cluster.bootstrap)


def change(cluster: BmqCluster, files: Files, mode: str) -> None:
    """Restart the nodes one by one."""
    for node in cluster.nodes.values():
        node.stop()
        files.set_up(node, mode)
        node.start()
        cluster.wait_settled()
