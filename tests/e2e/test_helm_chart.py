"""The Helm chart, by Helm itself and by Kubernetes' schemas; no Kubernetes runs it."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from testing.patience import Patience
from testing.processes import REPOSITORY
from tests.support.rendered_chart import container_of, of_kind, only, plain_environment, problems
from tests.unit.deploy.chart_values import CHART, EXAMPLES
from tests.unit.deploy.given_settings import started_with

pytestmark = [pytest.mark.campaign("kubernetes"), pytest.mark.timeout(120)]

PROGRAMS: Final = REPOSITORY / ".cache" / "kubernetes" / "bin"
NOT_OF_KUBERNETES: Final = "ServiceMonitor"
VERSIONS: Final = ("1.37.0", "1.27.0")
"""The newest that there are schemas for, and the oldest that the chart takes."""
OPEN: Final = CHART / "ci" / "open-values.yaml"


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAMS / "helm"), *words], capture_output=True, text=True, check=False, timeout=Patience(60).limit_s
    )


def rendered(values: Path, *options: str) -> str:
    done = helm("template", "bmq", str(CHART), "--namespace", "prod", "--values", str(values), *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def manifests(values: Path, *options: str) -> list[dict[str, Any]]:
    return [manifest for manifest in yaml.safe_load_all(rendered(values, *options)) if manifest]


def schemas() -> Path:
    """Those of the package kubernetes-validate (the extra `kubernetes`): kubeconform would fetch its own from elsewhere."""
    found = importlib.util.find_spec("kubernetes_validate")
    assert found is not None and found.origin is not None, "run make kubernetes-tools"
    return Path(found.origin).parent / "kubernetes-json-schema"


def judged(text: str, version: str) -> subprocess.CompletedProcess[str]:
    """kubeconform's word on manifests; a field that Kubernetes does not know counts as wrong."""
    place = f"{schemas()}/v{version}-local-strict/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    words: Sequence[str] = [
        *(str(PROGRAMS / "kubeconform"), "-strict", "-summary", "-verbose", "-schema-location", place),
        *("-kubernetes-version", version, "-skip", NOT_OF_KUBERNETES, "-"),
    ]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=Patience(60).limit_s)


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_helm_finds_nothing_to_complain_of(values: Path) -> None:
    done = helm("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_manifests_are_ones_of_kubernetes(values: Path, version: str) -> None:
    text = rendered(values, "--kube-version", version)
    done = judged(text, version)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [manifest for manifest in yaml.safe_load_all(text) if manifest]
    valid = len([manifest for manifest in found if manifest["kind"] != NOT_OF_KUBERNETES])
    assert f"Valid: {valid}, Invalid: 0, Errors: 0, Skipped: {len(found) - valid}" in done.stdout


def test_a_field_that_kubernetes_does_not_know_is_noticed() -> None:
    text = rendered(OPEN).replace("podManagementPolicy:", "podManagmentPolicy:")
    assert judged(text, VERSIONS[0]).returncode == 1


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_names_in_manifests_lead_somewhere(values: Path) -> None:
    assert list(problems(manifests(values))) == []


def test_names_that_lead_nowhere_are_found() -> None:
    found = manifests(OPEN)
    only(found, "StatefulSet")["spec"]["template"]["metadata"]["labels"].clear()
    container_of(only(found, "StatefulSet"))["volumeMounts"].pop()
    lines = list(problems(found))
    assert any("which no pod has" in line for line in lines)
    assert any("mounts" in line for line in lines)


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_a_pod_gets_settings_that_the_node_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: Path) -> None:
    found = manifests(values)
    file = tmp_path / "bmq.toml"
    file.write_text(only(found, "ConfigMap")["data"].get("bmq.toml", ""))
    script = tmp_path / "start.sh"
    script.write_text(only(found, "ConfigMap")["data"]["start.sh"])
    program = tmp_path / "bmq"
    program.write_text("#!/bin/sh\nexec env\n")
    program.chmod(0o755)
    environment = {
        **plain_environment(found, "bmq-2", "prod", "10.1.2.3"),
        "PATH": f"{tmp_path}:/usr/bin:/bin",
    }
    done = subprocess.run(
        ["/bin/sh", script], env=environment, capture_output=True, text=True, check=True, timeout=Patience(30).limit_s
    )
    given = dict(line.split("=", 1) for line in done.stdout.splitlines())
    own = {name: value for name, value in given.items() if name.startswith("BMQ_")}
    settings = started_with(monkeypatch, own, is_node=True, file=file)
    assert settings.node_id == int(environment["FIRST_NODE_ID"]) + 2
    assert settings.rest_security.protocol == yaml.safe_load(values.read_text()).get("rest", {}).get("protocol", "http")
    told = [one.partition("://")[2] for one in settings.kafka["advertised.listeners"].split(",")]
    assert told[0] == "bmq-2.bmq-nodes.prod.svc:9092"
    outside = [service for service in of_kind(found, "Service") if service["metadata"]["name"] == "bmq-2-external"]
    if outside:
        port = outside[0]["spec"]["ports"][0]
        assert told[1].endswith(f":{port.get('nodePort', port['port'])}")
    assert len(told) == 1 + len(outside)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("replicas=0", "/replicas"),
        ("replica=3", "additional properties 'replica' not allowed"),
        ("store=file:/data", "/store"),
        ("internode.mode=tls", "/internode/secretName"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(option: str, sentence: str) -> None:
    done = helm("template", "bmq", str(CHART), "--values", str(OPEN), "--set", option)
    assert done.returncode != 0
    assert sentence in done.stderr
