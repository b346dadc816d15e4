"""A cluster that scales its own StatefulSet: nodes with a pod's token, Kubernetes' API server and its controllers.

No kubelet runs: a machine of the test starts a node for each pod and ends it with the pod.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bmq.admin.drivers.api_server import REQUEST_WAIT_S, ApiServer, PodAccess
from bmq.admin.drivers.commands import run_command
from bmq.admin.drivers.driver import DriverFailed, NodeSpec
from bmq.admin.drivers.kubectl import Kubectl
from bmq.admin.drivers.kubernetes import StatefulSetPods
from testing.cluster import BmqCluster
from testing.kubernetes import PROGRAMS, Kubernetes
from testing.patience import Patience
from testing.processes import eventually
from testing.servers import server_command
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.support.paced_load import producing
from tests.support.pod_machine import pod_machine
from tests.support.scaling import ended, ordered, scale
from tests.unit.deploy.chart_values import CHART

pytestmark = [pytest.mark.campaign("kubernetes"), pytest.mark.timeout(400)]

PARTITIONS: Final = 6
WAIT_S: Final = 60.0
COMMAND_WAIT_S: Final = 120.0
SET: Final = "bmq"


@pytest.fixture
def installed(kubernetes: Kubernetes, namespace: str) -> str:
    """The chart with one pod; the namespace."""
    values = CHART / "ci" / "scaling-values.yaml"
    kubernetes.helm(
        *("install", SET, str(CHART), "--namespace", namespace, "--values", str(values)), *("--set", "replicas=1")
    )
    return namespace


@pytest.fixture
def account(kubernetes: Kubernetes, installed: str, tmp_path: Path) -> Path:
    """What a kubelet mounts of the pod's service account."""
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    (directory / "namespace").write_text(installed)
    (directory / "ca.crt").write_bytes(kubernetes.ca_file.read_bytes())
    (directory / "token").write_text(kubernetes.token_of(SET, installed))
    return directory


def settings_of(kubernetes: Kubernetes, account: Path) -> dict[str, str]:
    """Of a node in a pod of the chart."""
    return {
        "BMQ_SCALE__DRIVER": "kubernetes",
        "BMQ_SCALE__FIRST_NODE_ID": "1",
        "BMQ_SCALE__LAST_NODE_ID": "4",
        "BMQ_SCALE__OPTIONS": json.dumps({"stateful_set": SET, "service_account": str(account)}),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(kubernetes.port),
    }


@pytest.fixture
def cluster(kubernetes: Kubernetes, installed: str, account: Path, new_cluster: ClusterMaker) -> Iterator[BmqCluster]:
    """Its first node is the pod that the chart begins with."""
    cluster = new_cluster(**settings_of(kubernetes, account))

    def start(pod: str) -> None:
        number = int(pod.rpartition("-")[2])
        while len(cluster.nodes) <= number:
            cluster.add()
        cluster.node(number + 1).execute()

    def stop(pod: str) -> None:
        cluster.node(int(pod.rpartition("-")[2]) + 1).stop()

    with pod_machine(kubernetes, installed, start, stop) as machine:
        eventually(
            lambda: any(node.is_running for node in [*cluster.nodes.values()]), WAIT_S, "the first pod has a node"
        )
        cluster.node(1).wait_until_ready()
        cluster.wait_settled()
        yield cluster
    assert machine.failures == []


def pods(kubernetes: Kubernetes, namespace: str) -> list[str]:
    return sorted(each["metadata"]["name"] for each in kubernetes.get(f"/api/v1/namespaces/{namespace}/pods")["items"])


def by_hand(kubernetes: Kubernetes, namespace: str, replicas: int) -> None:
    kubernetes.kubectl("-n", namespace, "scale", f"statefulset/{SET}", "--replicas", str(replicas))


def driver_of(kubernetes: Kubernetes, account: Path) -> StatefulSetPods:
    return StatefulSetPods(ApiServer(PodAccess(kubernetes.url, account)), range(1, 5), stateful_set=SET)


def test_one_three_two(cluster: BmqCluster, kubernetes: Kubernetes, installed: str, make_topic: TopicMaker) -> None:
    first = cluster.node(1)
    topic = make_topic(cluster, PARTITIONS)
    with producing(cluster.bootstrap, topic, PARTITIONS) as load:
        scale(first, 3)
        assert pods(kubernetes, installed) == ["bmq-0", "bmq-1", "bmq-2"]
        cluster.wait_balanced()
        load.wait_for_every_partition(200)
        scale(first, 2)
        assert pods(kubernetes, installed) == ["bmq-0", "bmq-1"]
        assert kubernetes.pods_wanted(SET, installed) == 2
        assert not cluster.node(3).is_running
        load.wait_for_every_partition(200)
    assert_nothing_lost(load, cluster.bootstrap)
    load.assert_no_hang()


def scaled_by_command(cluster: BmqCluster, brokers: int) -> tuple[int, str]:
    """Exit code and what it said on standard error."""
    words = ("cluster", "scale", str(brokers), "--yes", "--rest", f"http://{cluster.node(1).rest}")
    done = subprocess.run(
        [server_command(), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=Patience(COMMAND_WAIT_S).limit_s,
    )
    return done.returncode, done.stderr


def test_the_command_says_how_it_ends(cluster: BmqCluster, kubernetes: Kubernetes, installed: str) -> None:
    assert scaled_by_command(cluster, 2) == (0, "")
    assert pods(kubernetes, installed) == ["bmq-0", "bmq-1"]
    kubernetes.api_server.pause()
    try:
        patience = Patience(3 * REQUEST_WAIT_S)
        code, said = scaled_by_command(cluster, 3)
        assert not patience.is_over()
    finally:
        kubernetes.api_server.resume()
    assert code == 1 and f"Kubernetes' API server {kubernetes.url} did not answer within 10 s" in said, said
    kubernetes.api_server.kill()
    try:
        code, said = scaled_by_command(cluster, 3)
    finally:
        kubernetes.start_api_server()
    assert code == 1 and f"Kubernetes' API server {kubernetes.url} is not reached: " in said, said
    assert len(said.splitlines()) == 1, said
    assert scaled_by_command(cluster, 1) == (0, "")
    assert pods(kubernetes, installed) == ["bmq-0"]


def test_a_task_says_why_kubernetes_refuses(cluster: BmqCluster, kubernetes: Kubernetes, installed: str) -> None:
    kubernetes.kubectl("-n", installed, "delete", "rolebinding", f"{SET}-scaling")
    first = cluster.node(1)
    status, answer = first.call("POST", "/v1/scale", {"brokers": 2})
    said = json.dumps(answer if status != 202 else ended(first, answer))
    assert f"Kubernetes refuses to read StatefulSet {SET} in namespace {installed}: 403" in said, said
    assert kubernetes.pods_wanted(SET, installed) == 1


def test_a_node_that_does_not_come_is_taken_back(
    new_cluster: ClusterMaker, kubernetes: Kubernetes, installed: str, account: Path
) -> None:
    """Its pod is made and nothing runs it, as where an image cannot be had."""
    cluster = new_cluster(1, BMQ_SCALE__REGISTER_WAIT_MS="2000", **settings_of(kubernetes, account))
    cluster.start()
    task = ended(cluster.node(1), ordered(cluster.node(1), 2))
    assert task["state"] == "failed" and task["error"], task
    assert kubernetes.pods_wanted(SET, installed) == 1
    eventually(lambda: pods(kubernetes, installed) == ["bmq-0"], WAIT_S, "its pod is gone")


@pytest.mark.parametrize("way", ["in a pod", "by kubectl"])
async def test_a_pod_more_and_a_pod_less(
    way: str, kubernetes: Kubernetes, installed: str, account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
    by_kubectl = Kubectl(run_command, namespace=installed, context="here")
    sets = by_kubectl if way == "by kubectl" else ApiServer(PodAccess(kubernetes.url, account))
    driver = StatefulSetPods(sets, range(1, 5), stateful_set=SET)
    (second,) = await driver.next_node_ids(1, [1])
    handle = await driver.start_node(NodeSpec(second, "broker"))
    assert (handle.node_id, handle.detail) == (2, "bmq-1")
    await asyncio.to_thread(
        eventually, lambda: pods(kubernetes, installed) == ["bmq-0", "bmq-1"], WAIT_S, "there are two pods"
    )
    assert [node.node_id for node in await driver.list_nodes()] == [1, 2]
    await driver.stop_node(2)
    assert pods(kubernetes, installed) == ["bmq-0"], "it returns when the pod is gone"


async def test_a_change_that_is_none_of_scale_does_not_matter(
    kubernetes: Kubernetes, installed: str, account: Path
) -> None:
    sets = ApiServer(PodAccess(kubernetes.url, account))
    before = await sets.read(SET)
    kubernetes.kubectl("-n", installed, "annotate", f"statefulset/{SET}", "example.org/seen=yes")
    await sets.scale(SET, before, 2)
    assert kubernetes.pods_wanted(SET, installed) == 2


async def test_another_client_that_scales_meanwhile_is_told(
    kubernetes: Kubernetes, installed: str, account: Path
) -> None:
    sets = ApiServer(PodAccess(kubernetes.url, account))
    before = await sets.read(SET)
    by_hand(kubernetes, installed, 4)
    with pytest.raises(DriverFailed, match=r"^another client has scaled StatefulSet bmq meanwhile: from 1 pods to 4$"):
        await sets.scale(SET, before, 2)
    assert kubernetes.pods_wanted(SET, installed) == 4


async def test_a_renewed_token_is_used_at_once(kubernetes: Kubernetes, installed: str, account: Path) -> None:
    """A kubelet's token ends with its pod."""
    driver = driver_of(kubernetes, account)
    await asyncio.to_thread(eventually, lambda: pods(kubernetes, installed) == ["bmq-0"], WAIT_S, "the pod is made")
    (account / "token").write_text(kubernetes.token_of(SET, installed, "bmq-0"))
    kubernetes.kubectl("-n", installed, "delete", "pod", "bmq-0", "--grace-period=0", "--force")
    with pytest.raises(DriverFailed, match=r"^Kubernetes refuses to read StatefulSet bmq .*: 401 Unauthorized$"):
        await driver.list_nodes()
    await asyncio.to_thread(eventually, lambda: pods(kubernetes, installed) == ["bmq-0"], WAIT_S, "it is made anew")
    (account / "token").write_text(kubernetes.token_of(SET, installed, "bmq-0"))
    assert [node.node_id for node in await driver.list_nodes()] == [1]


async def test_an_api_server_that_is_away_is_a_sentence(kubernetes: Kubernetes, installed: str, account: Path) -> None:
    driver = driver_of(kubernetes, account)
    kubernetes.api_server.pause()
    try:
        with pytest.raises(DriverFailed, match=r"^Kubernetes' API server \S+ did not answer within 10 s$"):
            await driver.list_nodes()
    finally:
        kubernetes.api_server.resume()
    kubernetes.api_server.kill()
    try:
        with pytest.raises(DriverFailed, match=r"^Kubernetes' API server \S+ is not reached: "):
            await driver.list_nodes()
    finally:
        kubernetes.start_api_server()
    assert [node.node_id for node in await driver.list_nodes()] == [1]
