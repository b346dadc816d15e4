"""The parts of the Helm chart that need no Helm: its values and their schema, and the script that starts a node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml

from bmq.security.listeners import listeners_of
from bmq.server.settings import Settings, split_address
from testing.patience import Patience
from testing.processes import REPOSITORY
from tests.unit.deploy.chart_values import CHART, DEFAULTS, EXAMPLES, SCHEMA, paths, problems
from tests.unit.deploy.given_settings import image_words, started_with
from tools.container_image import USER
from tools.debian_package import version_of

pytestmark = pytest.mark.unit

SCRIPT: Final = CHART / "files" / "start.sh"
POD: Final = {
    "POD_NAME": "bmq-2",
    "POD_DOMAIN": "bmq-nodes.prod.svc",
    "HOST_IP": "10.1.2.3",
    "FIRST_NODE_ID": "1",
    "INSIDE_PROTOCOL": "PLAINTEXT",
    "BMQ_STORE": "hdfs://namenode:8020/bmq",
    "BMQ_ZOOKEEPER": "zk:2181/bmq",
    "BMQ_INTERNODE_SECURITY__MODE": "plaintext",
}
LEAST: Final[dict[str, Any]] = {
    "store": "hdfs://namenode:8020/bmq",
    "zookeeper": "zk:2181/bmq",
    "internode": {"mode": "plaintext"},
}


def ran(directory: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The script, with a `bmq` that says how it was called and with which variables."""
    program = directory / "bmq"
    program.write_text('#!/bin/sh\necho "$@"\nexec env\n')
    program.chmod(0o755)
    environment = {**variables, "PATH": f"{directory}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    shell = shutil.which("dash") or "/bin/sh"
    return subprocess.run(
        [shell, str(SCRIPT)], capture_output=True, text=True, check=False, timeout=Patience(30).limit_s, env=environment
    )


def settings_of_pod(
    monkeypatch: pytest.MonkeyPatch, directory: Path, variables: dict[str, str] | None = None
) -> Settings:
    done = ran(directory, {**POD, **(variables or {})})
    called, *lines = done.stdout.splitlines()
    assert called == "node --config /etc/bmq/settings/bmq.toml", done.stderr
    given = dict(line.split("=", 1) for line in lines)
    own = {name: value for name, value in given.items() if name.startswith("BMQ_")}
    return started_with(monkeypatch, own, is_node=True)


def test_the_chart_has_the_version_of_the_package_and_the_user_of_its_image() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version_of(REPOSITORY),) * 2
    users = set(
        re.findall(r"(?:runAsUser|runAsGroup|fsGroup): (\d+)", (CHART / "templates" / "_helpers.tpl").read_text())
    )
    assert users == {str(USER)}
    mounted = set(re.findall(r"mountPath: (\S+?),", (CHART / "templates" / "_helpers.tpl").read_text()))
    assert set(image_words("volume")) <= mounted


def test_the_schema_is_one_and_knows_each_value() -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    free = ("resources.", "global")
    known = set()

    def walk(schema: dict[str, Any], prefix: str) -> None:
        for name, each in schema.get("properties", {}).items():
            known.add(prefix + name)
            walk(each, f"{prefix}{name}.")

    walk(SCHEMA, "")
    assert {name for name in paths(DEFAULTS) if not name.startswith(free)} == known - {"global"}


def test_the_defaults_ask_for_what_only_an_operator_knows() -> None:
    assert problems({}) != []
    assert problems(LEAST) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_follow_the_schema(path: Path) -> None:
    assert problems(yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"replica": 3},
        {"replicas": 0},
        {"replicas": "3"},
        {"store": "file:/data"},
        {"store": "hdfs:///bmq"},
        {"store": "hdfs://nameservice/bmq"},
        {"zookeeper": "zk"},
        {"internode": {"mode": "tls"}},
        {"internode": {"mode": "none"}},
        {"listeners": {"inside": "SSL"}},
        {"listeners": {"mechanisms": ["NTLM"]}},
        {"rest": {"protocol": "https"}},
        {"external": {"enabled": True}},
        {"external": {"enabled": True, "host": "{pod}.example.org"}},
        {"external": {"enabled": True, "host": "one.example.org"}, "listeners": {"outside": "PLAINTEXT"}},
        {"external": {"enabled": True, "host": '{pod}"', "type": "NodePort"}, "listeners": {"outside": "PLAINTEXT"}},
        {"kerberos": {"principal": "bmq@EXAMPLE.ORG"}},
        {"kerberos": {"principal": "bmq"}},
        {"settingsSecret": "Not_A_Name"},
        {"podDisruptionBudget": {"maxUnavailable": 0}},
        {"scaling": {"enabled": True, "maxReplicas": 0}},
        {"terminationGracePeriodSeconds": 5},
    ],
    ids=str,
)
def test_values_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    assert problems({**LEAST, **wrong}) != []


def test_a_stop_and_a_start_are_given_their_time() -> None:
    settings = Settings()
    assert (
        DEFAULTS["terminationGracePeriodSeconds"] * 1000
        > settings.cluster.shutdown_wait_max_ms + settings.stop_timeout_ms
    )
    assert DEFAULTS["startPeriodSeconds"] * 1000 > settings.start_wait_ms + settings.cluster.registration_wait_max_ms


def test_the_script_is_one_of_the_shell() -> None:
    subprocess.run([shutil.which("dash") or "/bin/sh", "-n", str(SCRIPT)], check=True, timeout=Patience(30).limit_s)


def test_a_pods_node_has_the_id_and_the_names_of_its_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = settings_of_pod(monkeypatch, tmp_path)
    assert settings.node_id == 3
    host = "bmq-2.bmq-nodes.prod.svc"
    assert (settings.internal_advertised, settings.rest_advertised) == (f"{host}:9093", f"{host}:8080")
    (listener,) = listeners_of(settings.kafka, split_address(settings.listen), None)
    assert (listener.address, listener.advertised) == (("0.0.0.0", 9092), (host, 9092))


@pytest.mark.parametrize(
    ("host", "port", "step", "told"),
    [
        ("{pod}.kafka.example.org", "9094", "0", ("bmq-2.kafka.example.org", 9094)),
        ("{node}", "31090", "1", ("10.1.2.3", 31092)),
    ],
)
def test_clients_from_outside_are_told_the_address_of_their_pod(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, port: str, step: str, told: tuple[str, int]
) -> None:
    outside = {"OUTSIDE_HOST": host, "OUTSIDE_PORT": port, "OUTSIDE_PORT_STEP": step, "OUTSIDE_PROTOCOL": "PLAINTEXT"}
    settings = settings_of_pod(monkeypatch, tmp_path, outside)
    listeners = listeners_of(settings.kafka, split_address(settings.listen), None)
    assert [(one.name, one.address[1], one.advertised) for one in listeners][1:] == [("OUTSIDE", 9094, told)]


def test_what_the_chart_says_of_scaling_is_known_to_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    template = (CHART / "templates" / "statefulset.yaml").read_text()
    names = re.findall(r"\{name: (BMQ_SCALE__\w+), value:", template)
    assert len(names) == 5
    values = {"DRIVER": "kubernetes", "OPTIONS": '{"stateful_set": "bmq"}'}
    given = {name: values.get(name.removeprefix("BMQ_SCALE__"), "5000") for name in names}
    scale = settings_of_pod(monkeypatch, tmp_path, given).scale
    assert (scale.driver, scale.first_node_id, scale.last_node_id) == ("kubernetes", 5000, 5000)
    assert (scale.register_wait_ms, scale.options) == (5000, {"stateful_set": "bmq"})


def test_tls_logins_and_certificates_of_nodes_reach_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = settings_of_pod(
        monkeypatch,
        tmp_path,
        {
            "INSIDE_PROTOCOL": "SASL_SSL",
            "SASL_MECHANISMS": "SCRAM-SHA-512,PLAIN",
            "KEYSTORE": "/etc/bmq/tls/tls.pem",
            "BMQ_INTERNODE_SECURITY__MODE": "tls",
            "INTERNODE_CERTIFICATE": "/etc/bmq/internode/{pod}.pem",
            "BMQ_INTERNODE_SECURITY__CA_FILE": "/etc/bmq/internode/ca.pem",
        },
    )
    assert settings.kafka["sasl.enabled.mechanisms"] == "SCRAM-SHA-512,PLAIN"
    assert settings.kafka["ssl.keystore.location"] == "/etc/bmq/tls/tls.pem"
    assert settings.internode_security.certificate_file == "/etc/bmq/internode/bmq-2.pem"
    (listener,) = listeners_of(settings.kafka, split_address(settings.listen), None)
    assert listener.security.protocol.name == "SASL_SSL"


@pytest.mark.parametrize("name", ["bmq", "bmq-", "bmq-2a"])
def test_a_pod_without_a_number_does_not_start(tmp_path: Path, name: str) -> None:
    done = ran(tmp_path, {**POD, "POD_NAME": name})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"bmq: the pod's name {name} does not end with a number\n"
