"""deploy/compose.yaml is a Compose file, and asks of the image nothing that tools/container_image.py does not put there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from compose_spec import PyCompose, PyOptions
from typer.main import get_command

from bmq.cli.commands import app
from bmq.security.listeners import listeners_of
from bmq.server.settings import split_address
from testing.processes import REPOSITORY
from tests.unit.deploy.given_settings import image_words, started_with
from tools.debian_package import HOME

pytestmark = pytest.mark.unit

FILE: Final = REPOSITORY / "deploy" / "compose.yaml"
TEXT: Final = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", FILE.read_text())
"""With the default of each variable, as Compose reads it where none is set."""
SERVICES: Final[dict[str, dict[str, Any]]] = yaml.safe_load(TEXT)["services"]
NODES: Final = ("node-1", "node-2", "node-3")
OURS: Final = ("bmq", *NODES)


def published(service: dict[str, Any]) -> dict[int, tuple[str, int]]:
    """By port of the container: the address on the machine."""
    found = {}
    for entry in service["ports"]:
        host, port, own = entry.split(":")
        found[int(own)] = host, int(port)
    return found


def required_compose(text: str) -> PyCompose:
    """Raises ValueError if it is no Compose file."""
    return PyOptions(apply_merge=True).from_yaml(text)


def test_the_file_follows_the_specification() -> None:
    assert set(required_compose(TEXT).service_names()) == set(SERVICES)
    mounted = [place.split(":")[0] for service in SERVICES.values() for place in service.get("volumes", [])]
    assert sorted(mounted) == sorted(yaml.safe_load(TEXT)["volumes"]), "each declared, and of one service"


@pytest.mark.parametrize(
    "service",
    ['ports: ["a:b"]', "prots: [1]", "stop_grace_period: soon", "depends_on: 5", "healthcheck: {retries: often}"],
)
def test_what_is_no_compose_file_is_noticed(service: str) -> None:
    with pytest.raises(ValueError):
        required_compose(f"services: {{bmq: {{image: bmq, {service}}}}}")


def test_one_server_needs_no_profile_and_the_cluster_is_one() -> None:
    assert {name for name, service in SERVICES.items() if "profiles" not in service} == {"bmq"}
    assert {tuple(service["profiles"]) for name, service in SERVICES.items() if name != "bmq"} == {("cluster",)}
    depends = {name for node in NODES for name in SERVICES[node]["depends_on"]}
    assert depends == SERVICES.keys() - set(OURS)


def test_commands_are_those_of_the_images_entry_point() -> None:
    assert image_words("entrypoint") == ["/usr/bin/bmq"]
    known = get_command(app).commands  # type: ignore[attr-defined]
    assert image_words("cmd")[0] in known
    assert {tuple(SERVICES[name]["command"]) for name in NODES} == {("node",)}
    assert "node" in known


def test_one_server_is_published_where_its_image_tells_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    service = SERVICES["bmq"]
    settings = started_with(monkeypatch, {}, is_node=False)
    ports = published(service)
    assert set(ports) <= {int(word.removesuffix("/tcp")) for word in image_words("exposedports")}
    assert split_address(settings.advertised) == ports[9092]
    assert [place.split(":")[1] for place in service["volumes"]] == image_words("volume")


@pytest.mark.parametrize("name", NODES)
def test_a_node_starts_with_its_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    service = SERVICES[name]
    settings = started_with(monkeypatch, service["environment"], is_node=True)
    assert f"node-{settings.node_id}" == name == service["hostname"]
    for advertised in (settings.internal_advertised, settings.rest_advertised, settings.advertised):
        assert split_address(advertised)[0] == name
    assert settings.store.startswith("hdfs://namenode:8020/") and "namenode" in SERVICES
    assert settings.zookeeper.startswith("zookeeper:") and "zookeeper" in SERVICES


@pytest.mark.parametrize("name", NODES)
def test_clients_reach_a_node_from_both_sides(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    settings = started_with(monkeypatch, SERVICES[name]["environment"], is_node=True)
    inside, outside = listeners_of(settings.kafka, split_address(settings.listen), None)
    assert (inside.name, inside.advertised) == ("INSIDE", (name, inside.address[1]))
    assert outside.name == "OUTSIDE"
    assert published(SERVICES[name])[outside.address[1]] == outside.advertised


def test_no_address_on_the_machine_is_used_twice_or_reached_from_elsewhere() -> None:
    addresses = [address for name in OURS for address in published(SERVICES[name]).values()]
    assert len(set(addresses)) == len(addresses)
    assert {host for host, _ in addresses} == {"127.0.0.1"}


@pytest.mark.parametrize("name", OURS)
def test_a_stop_is_given_its_time(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    service = SERVICES[name]
    settings = started_with(monkeypatch, service.get("environment", {}), is_node=name != "bmq")
    needed_ms = settings.stop_timeout_ms + (settings.cluster.shutdown_wait_max_ms if name != "bmq" else 0)
    assert int(service["stop_grace_period"].removesuffix("s")) * 1000 > needed_ms


@pytest.mark.parametrize("name", OURS)
def test_health_is_asked_by_a_program_of_the_image(name: str) -> None:
    kind, program, *_, code = SERVICES[name]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", f"{HOME}/bin/python")
    assert "http://127.0.0.1:8080/v1/health'" in code
    compile(code, "healthcheck", "exec")


def test_a_variable_that_no_setting_has_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="no setting has"):
        started_with(monkeypatch, {"BMQ_LISTEM": "127.0.0.1:1"}, is_node=False)


def test_nodes_differ_in_what_has_to_be_their_own_alone() -> None:
    own = {"BMQ_NODE_ID", "BMQ_ADVERTISED", "BMQ_INTERNAL_ADVERTISED", "BMQ_REST_ADVERTISED", "BMQ_KAFKA"}
    for name in {name for node in NODES for name in SERVICES[node]["environment"]}:
        values = {SERVICES[node]["environment"][name] for node in NODES}
        assert len(values) == (len(NODES) if name in own else 1), name
    assert all(json.loads(SERVICES[node]["environment"]["BMQ_KAFKA"]) for node in NODES)


def test_the_documents_name_the_file() -> None:
    assert "deploy/compose.yaml" in Path(REPOSITORY / "docs" / "INSTALL.md").read_text()
