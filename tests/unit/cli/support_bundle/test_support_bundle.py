"""`bmq support-bundle`: what it has, what it must not have, and what happens while a node hangs."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from bmq.cli import cluster_client
from bmq.cli.commands import app
from bmq.cli.doctor.finding import Finding, Verdict
from bmq.cli.support_bundle import machine_facts
from bmq.cli.support_bundle.archive import CONTENTS, NoBundle, new_archive
from bmq.cli.support_bundle.machine_facts import tail
from tests.unit.cli.doctor.machines import FakeNodes

pytestmark = pytest.mark.unit

SECRETS = {
    "jaas": "jaas-geheim-1",
    "key password": "key-geheim-2",
    "token key": "delegation-geheim-3",
    "password file": "file-geheim-4",
    "variable": "variable-geheim-5",
    "otlp": "otlp-geheim-6",
    "log": "log-geheim-7",
    "bearer": "bearer-geheim-8.abc",
    "private key": "MIIEgeheim9",
    "rest page": "page-geheim-10",
    "zookeeper": "zookeeper-geheim-11",
}


class Bundle:
    """What one run wrote, by its name in the archive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with tarfile.open(path) as tar:
            self.members = tar.getmembers()
            self.files = {
                member.name.partition("/")[2]: (tar.extractfile(member) or pytest.fail()).read()
                for member in self.members
            }

    def document(self, name: str) -> Any:
        return json.loads(self.files[name])

    @property
    def contents(self) -> Any:
        return self.document(CONTENTS)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with settings that are full of secrets. The doctor is another test's matter."""

    async def findings(_: object) -> list[Finding]:
        return [Finding("clock", Verdict.OK, f"a finding with {SECRETS['jaas']}")]

    monkeypatch.setattr("bmq.cli.doctor.examination.Examination.findings", findings)
    few = [distribution(name) for name in ("bmq", "httpx")]  # to read all takes a second
    monkeypatch.setattr("bmq.cli.support_bundle.machine_facts.distributions", lambda: few)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTHER_PASSWORD", SECRETS["variable"])
    monkeypatch.setenv("BMQ_TELEMETRY__OTLP_ENDPOINT", f"http://alice:{SECRETS['otlp']}@collector:4318")
    for name in ("password file", "zookeeper"):
        (tmp_path / f"{name.split()[0]}.secret").write_text(SECRETS[name] + "\n")
        (tmp_path / f"{name.split()[0]}.secret").chmod(0o600)
    (tmp_path / "bmq.toml").write_text(
        f"""rest = "127.0.0.1:0"
[zookeeper_security]
password_file = "{tmp_path}/zookeeper.secret"
[kafka]
"listeners" = "OUTSIDE://127.0.0.1:0"
"listener.security.protocol.map" = "OUTSIDE:SASL_SSL"
"listener.name.outside.sasl.enabled.mechanisms" = "PLAIN"
"listener.name.outside.plain.sasl.jaas.config" = 'M required user_bob="{SECRETS["jaas"]}";'
"ssl.key.password" = "{SECRETS["key password"]}"
"delegation.token.secret.key" = "{SECRETS["token key"]}"
"""
    )
    (tmp_path / "server.log").write_text(
        f"started with {SECRETS['key password']}\n"
        f"sasl.password={SECRETS['log']} authorization: Bearer {SECRETS['bearer']}\n"
        f"read {SECRETS['password file']} and {SECRETS['zookeeper']} and {SECRETS['variable']}\n"
        f"-----BEGIN PRIVATE KEY-----\n{SECRETS['private key']}\n-----END PRIVATE KEY-----\nthe last line\n"
    )
    yield tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["support-bundle", *arguments])


def answered(monkeypatch: pytest.MonkeyPatch, nodes: FakeNodes) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/topics":
            return httpx.Response(200, json={"topics": [{"password": SECRETS["rest page"], "name": "orders"}]})
        return nodes.answer(request)

    monkeypatch.setattr(cluster_client, "TRANSPORT", httpx.MockTransport(answer))


LOGIN = ("--rest", "http://b1:8080", "--rest-user", "alice", "--rest-password-file", "password.secret")


def test_no_secret_is_in_it_and_all_else_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, FakeNodes({"b1": "0.1.0", "b2": "0.1.0"}))
    result = run("--out", "b.tar.gz", "--log", "server.log", *LOGIN)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "look through it before you send it" in result.stdout
    bundle = Bundle(place / "b.tar.gz")
    everything = b"\n".join([*bundle.files.values(), result.output.encode()])
    assert {name: secret for name, secret in SECRETS.items() if secret.encode() in everything} == {}
    assert stat.S_IMODE(bundle.path.stat().st_mode) == 0o600
    assert {member.mode for member in bundle.members} == {0o600}
    wanted = {
        "settings.json", "versions.json", "environment.json", "processes.json", "doctor.json", "contents.json",
        "logs/server.log", "node/v1/health.json", "node/v1/cluster.json", "node/v1/topics.json", "node/metrics.txt",
        "node-2/v1/health.json", "node-2/metrics.txt",
    }  # fmt: skip
    assert wanted <= set(bundle.files)
    settings = {one["name"]: one["value"] for one in bundle.document("settings.json")}
    assert settings["kafka.ssl.key.password"] == "(hidden)"
    assert settings["node_id"] == "1"
    assert bundle.document("versions.json")["packages"]["httpx"]
    assert "MemTotal" in bundle.document("environment.json")["files"]["proc/meminfo"]
    assert bundle.files["logs/server.log"].decode().endswith("the last line\n")
    assert bundle.document("node/v1/topics.json")["topics"][0]["name"] == "orders"
    assert "404" in bundle.contents["missing"]["node/v1/history.json"]


def test_a_node_that_hangs_costs_one_wait_and_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, FakeNodes({"b1": "0.1.0", "b2": "0.1.0"}, deaf=frozenset({"b2"})))
    assert run("--out", "b.tar.gz", *LOGIN).exit_code == 0
    missing = Bundle(place / "b.tar.gz").contents["missing"]
    assert missing["node-2/v1/health.json"] == "http://b2:8080/v1/health was not answered within 3 s"
    assert missing["node-2/metrics.txt"] == "not asked: the node does not answer"
    answered(monkeypatch, FakeNodes({"b1": "0.1.0"}, deaf=frozenset({"b1"})))
    result = run("--out", "c.tar.gz", *LOGIN)
    assert result.exit_code == 0
    assert "missing: node/v1/health.json: http://b1:8080/v1/health was not answered within 3 s" in result.stderr
    assert "settings.json" in Bundle(place / "c.tar.gz").files


def test_wrong_settings_are_told_and_the_rest_is_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "TRANSPORT", FakeNodes({}, deaf=frozenset({"127.0.0.1"})).transport)
    (place / "bmq.toml").write_text("node_id = -5\n")
    assert run("--out", "b.tar.gz").exit_code == 0
    bundle = Bundle(place / "b.tar.gz")
    assert "node_id" in bundle.contents["missing"]["settings.json"]
    assert bundle.document("doctor.json")["exit_code"] == 2
    assert "versions.json" in bundle.files


def test_a_part_that_fails_costs_no_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> dict[str, str]:
        raise LookupError("no such distribution")

    monkeypatch.setattr(machine_facts, "versions", fail)
    answered(monkeypatch, FakeNodes({"b1": "0.1.0"}))
    assert run("--out", "b.tar.gz", *LOGIN).exit_code == 0
    bundle = Bundle(place / "b.tar.gz")
    assert "no such distribution" in bundle.contents["missing"]["versions.json"]
    assert "environment.json" in bundle.files


def test_a_file_that_is_there_is_not_overwritten(place: Path) -> None:
    (place / "b.tar.gz").write_text("mine")
    result = run("--out", "b.tar.gz")
    assert isinstance(result.exception, NoBundle)
    assert str(result.exception) == "cannot write b.tar.gz: File exists; name another file with --out"
    assert (place / "b.tar.gz").read_text() == "mine"


def test_logs_that_cannot_be_read_are_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "TRANSPORT", FakeNodes({}, deaf=frozenset({"b1"})).transport)
    os.mkfifo(place / "pipe")
    given = ["--log", "none.log", "--log", "pipe", "--log", "server.log"]
    assert run("--out", "b.tar.gz", *given, "--rest", "http://b1:8080").exit_code == 0
    bundle = Bundle(place / "b.tar.gz")
    assert bundle.contents["missing"]["logs/none.log"] == "it cannot be read: No such file or directory"
    assert bundle.contents["missing"]["logs/pipe"] == "it cannot be read: it is no regular file"
    assert "logs/server.log" in bundle.files


def test_an_archive_stays_within_its_bounds(tmp_path: Path) -> None:
    with new_archive(tmp_path / "a.tar.gz", str, bytes_max=1_000) as archive:
        archive.add_text("first.txt", "a" * 600)
        archive.add_text("second.txt", "b" * 300 + "c" * 300, is_end=True)
        archive.add_text("third.txt", "d")
        archive.add_text("first.txt", "")
    bundle = Bundle(tmp_path / "a.tar.gz")
    assert {name: len(data) for name, data in bundle.files.items() if name != CONTENTS} == {
        "first.txt": 600,
        "second.txt": 400,
        "first.txt.2": 0,
    }
    assert bundle.files["second.txt"].endswith(b"c" * 300)
    assert bundle.contents["cut"] == ["second.txt"]
    assert bundle.contents["missing"] == {"third.txt": "the bundle is full"}


def test_names_do_not_leave_the_archive_and_a_failure_leaves_no_file(tmp_path: Path) -> None:
    with new_archive(tmp_path / "a.tar.gz", str) as archive:
        archive.add_text("../../etc/passwd", "x")
        archive.add_text("logs/a b\n.log", "y")
    assert set(Bundle(tmp_path / "a.tar.gz").files) == {"_/_/etc/passwd", "logs/a_b_.log", CONTENTS}
    with pytest.raises(RuntimeError), new_archive(tmp_path / "b.tar.gz", str):
        raise RuntimeError
    assert not (tmp_path / "b.tar.gz").exists()


def test_a_tail_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first line\nsecond line\nthird line\n")
    assert tail(path, 15) == "third line\n"
    assert tail(path, 1_000) == path.read_text()
