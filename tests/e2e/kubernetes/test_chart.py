"""The Helm chart in Kubernetes' own API server: what it takes, what an upgrade leaves, what the Role allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from testing.kubernetes import Kubernetes
from testing.processes import eventually
from tests.unit.deploy.chart_values import CHART, EXAMPLES

pytestmark = [pytest.mark.campaign("kubernetes"), pytest.mark.timeout(300)]

SCALING: Final = CHART / "ci" / "scaling-values.yaml"
WAIT_S: Final = 60.0
CRD: Final = "servicemonitors.monitoring.coreos.com"
SERVICE_MONITORS: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": CRD},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "ServiceMonitor", "plural": "servicemonitors", "singular": "servicemonitor"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""The Prometheus operator brings it. Its fields are not looked at here."""


IMPORTANT: Final = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "important"},
    "value": 1_000,
}
"""An example names it. Without it Kubernetes makes no pod."""


@pytest.fixture(scope="module", autouse=True)
def what_examples_name(kubernetes: Kubernetes) -> None:
    kubernetes.kubectl("apply", "-f", "-", given=json.dumps(IMPORTANT))
    make_service_monitors(kubernetes)


def make_service_monitors(kubernetes: Kubernetes) -> None:
    kubernetes.kubectl("apply", "-f", "-", given=json.dumps(SERVICE_MONITORS))
    kubernetes.kubectl("wait", "--for=condition=Established", f"crd/{CRD}")


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_every_object_of_each_example_is_taken(kubernetes: Kubernetes, namespace: str, values: Path) -> None:
    """With the API server's own checks of each field. A hook is no part of what Helm keeps, so it is looked at alone."""
    chosen = ("bmq", str(CHART), "--namespace", namespace, "--values", str(values))
    kubernetes.helm("install", *chosen, "--no-hooks")
    rendered = "\n---\n".join(
        kubernetes.helm("get", what, "bmq", "--namespace", namespace) for what in ("manifest", "hooks")
    )
    said = kubernetes.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts"),
        *("--namespace", namespace, "-f", "-"),
        given=rendered,
    )
    assert "Warning" not in said, said
    rows = [each for each in yaml.safe_load_all(rendered) if each]
    assert len(said.splitlines()) == len(rows)
    wanted = yaml.safe_load(values.read_text()).get("replicas", 3)
    path = f"/api/v1/namespaces/{namespace}/pods"
    eventually(lambda: len(kubernetes.get(path)["items"]) == wanted, WAIT_S, f"{wanted} pods are made")
    for pod in kubernetes.get(path)["items"]:
        is_mounted = any("serviceAccountToken" in json.dumps(each) for each in pod["spec"]["volumes"])
        assert is_mounted == (values == SCALING), "only pods that scale themselves get a token"


def test_a_service_monitor_needs_its_operator(kubernetes: Kubernetes, namespace: str) -> None:
    """Nothing is made where the Prometheus operator is not there."""
    chosen = ("bmq", str(CHART), "--namespace", namespace, "--values", str(SCALING))
    kubernetes.kubectl("delete", "crd", CRD)
    try:
        said = kubernetes.helm("install", *chosen, "--set", "serviceMonitor.enabled=true", is_checked=False)
        assert 'no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"' in said, said
        status, _ = kubernetes.request("GET", f"/apis/apps/v1/namespaces/{namespace}/statefulsets/bmq")
        assert status == 404
    finally:
        make_service_monitors(kubernetes)


def test_an_upgrade_leaves_the_number_of_pods(kubernetes: Kubernetes, namespace: str) -> None:
    chosen = ("bmq", str(CHART), "--namespace", namespace, "--values", str(SCALING))
    kubernetes.helm("install", *chosen)
    assert kubernetes.pods_wanted("bmq", namespace) == 2
    kubernetes.kubectl("-n", namespace, "scale", "statefulset/bmq", "--replicas", "3")
    kubernetes.helm("upgrade", *chosen, "--set", "image.tag=9.9.9")
    assert kubernetes.pods_wanted("bmq", namespace) == 3
    kubernetes.helm("rollback", "bmq", "1", "--namespace", namespace)
    assert kubernetes.pods_wanted("bmq", namespace) == 2, "a rollback brings the number of its revision back"
    kubernetes.helm("uninstall", "bmq", "--namespace", namespace)
    status, _ = kubernetes.request("GET", f"/apis/apps/v1/namespaces/{namespace}/statefulsets/bmq")
    assert status == 404


def test_without_scaling_an_upgrade_sets_the_number_of_pods(kubernetes: Kubernetes, namespace: str) -> None:
    chosen = ("bmq", str(CHART), "--namespace", namespace, "--values", str(CHART / "ci" / "open-values.yaml"))
    kubernetes.helm("install", *chosen)
    kubernetes.helm("upgrade", *chosen, "--set", "replicas=4")
    assert kubernetes.pods_wanted("bmq", namespace) == 4


def test_the_role_allows_two_requests_and_no_other(kubernetes: Kubernetes, namespace: str) -> None:
    kubernetes.helm("install", "bmq", str(CHART), "--namespace", namespace, "--values", str(SCALING))
    kubernetes.helm(
        *("install", "other", str(CHART), "--namespace", namespace, "--values", str(SCALING)),
        *("--set", "external.firstNodePort=31290"),
    )
    token = kubernetes.token_of("bmq", namespace)
    sets = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"

    def scaled(name: str, replicas: int) -> tuple[int, Any]:
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": replicas},
        }
        return kubernetes.request("PUT", f"{sets}/{name}/scale", body, token=token)

    assert kubernetes.request("GET", f"{sets}/bmq", token=token)[0] == 200
    status, answer = scaled("bmq", 3)
    assert (status, answer["spec"]["replicas"]) == (200, 3)
    assert scaled("other-bmq", 3)[0] == 403
    refused = [
        ("GET", sets),
        ("GET", f"{sets}/other-bmq"),
        ("DELETE", f"{sets}/bmq"),
        ("PATCH", f"{sets}/bmq"),
        ("PUT", f"{sets}/bmq"),
        ("GET", f"{sets}/bmq/scale"),
        ("PATCH", f"{sets}/bmq/scale"),
        ("GET", "/apis/apps/v1/namespaces/default/statefulsets/bmq"),
        ("GET", f"/api/v1/namespaces/{namespace}/pods"),
        ("GET", f"/api/v1/namespaces/{namespace}/secrets"),
        ("GET", "/api/v1/nodes"),
    ]
    found = {(method, path): kubernetes.request(method, path, token=token)[0] for method, path in refused}
    assert found == dict.fromkeys(refused, 403)
