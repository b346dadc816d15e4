"""`bmq dev hdfs up --secure`: what it prints logs in, its Kerberos server takes orders, and the next start finds all again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from bmq.dev.ports import pick_ports
from bmq.hdfs.config import HdfsConfig, HdfsSettings
from bmq.hdfs.hadoop_site import hadoop_properties
from bmq.hdfs.location import located
from bmq.hdfs.security import Protection
from bmq.hdfs.store import HdfsStore
from testing.hdfs import PATIENT
from testing.kdc import install_kdc
from testing.patience import Patience

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(300)]


@contextmanager
def up(data: Path, *arguments: str) -> Iterator[list[str]]:
    """What it printed until it was up."""
    command = [sys.executable, "-m", "bmq.cli.main", "dev", "hdfs", "up", "--quick", "--data", str(data), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line.strip())
                if "Ctrl-C ends it" in line:
                    break
            else:
                raise AssertionError(f"it ended with {process.wait(10)}: {lines}")
            yield lines
            assert ordered(data, "down").exit_code == 0
            assert process.wait(Patience(60).limit_s) == 0
        finally:
            process.kill()


def ordered(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["dev", "hdfs", *arguments, "--data", str(data)])


def use(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> HdfsConfig:
    """Type what was printed."""
    for line in lines:
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            monkeypatch.setenv(name, value)
    (command,) = (line for line in lines if "bmq standalone --store" in line)
    settings = HdfsSettings(
        principal=os.environ["BMQ_HDFS__PRINCIPAL"], keytab=os.environ["BMQ_HDFS__KEYTAB"], replication=1
    )
    config = located(command.split()[-1], settings, system_user="", hadoop=hadoop_properties(os.environ))
    return replace(config, **PATIENT)  # type: ignore[arg-type]


async def written_and_read(config: HdfsConfig, name: str, *more: str) -> list[bytes]:
    """Writes a file; the contents of it and of `more`."""
    store = await HdfsStore.open(config, Random(1))
    try:
        await store.write_file(name, name.encode(), holder="h")
        return [await store.read_file(each, length_bytes_max=10) for each in (name, *more)]
    finally:
        await store.close()


def test_what_is_printed_logs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_kdc()
    data = tmp_path / "hdfs"
    (port,) = pick_ports("127.0.0.1", 1, Random())
    with up(
        data, "--port", str(port), "--datanodes", "1", "--secure", "--protection", "privacy", "--permissions"
    ) as lines:
        config = use(lines, monkeypatch)
        assert config.security is not None
        assert config.security.rpc == config.security.data == (Protection.PRIVACY,)
        assert asyncio.run(written_and_read(config, "a")) == [b"a"]
        states = {node["name"]: node["state"] for node in json.loads(ordered(data, "status", "--json").output)}
        assert states == dict.fromkeys(("nn0", "dn0", "kdc"), "running")
        assert ordered(data, "kill", "kdc").exit_code == 0
        assert ordered(data, "start", "kdc").exit_code == 0
        assert "krb5kdc" in ordered(data, "logs", "kdc").output
    with up(data, "--protection", "integrity", "--encrypt") as lines:
        config = use(lines, monkeypatch)
        assert config.security is not None
        assert config.security.data == (Protection.INTEGRITY,)
        assert any("dfs.encrypt.data.transfer=true" in line for line in lines)
        assert asyncio.run(written_and_read(config, "b", "a")) == [b"b", b"a"]


def test_two_namenodes_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed names both, the failover has a login of its own, and the next start finds the pair again."""
    install_kdc()
    data = tmp_path / "hdfs"
    (port,) = pick_ports("127.0.0.1", 1, Random())
    with up(data, "--port", str(port), "--datanodes", "1", "--secure", "--ha", "--protection", "integrity") as lines:
        config = use(lines, monkeypatch)
        assert [(each.host, each.port) for each in config.namenodes] == [("localhost", port), ("localhost", port + 1)]
        assert asyncio.run(written_and_read(config, "a")) == [b"a"]
        assert ordered(data, "activate", "nn1").exit_code == 0
        roles = {node["name"]: node["role"] for node in json.loads(ordered(data, "status", "--json").output)}
        assert (roles["nn0"], roles["nn1"]) == ("standby", "active")
        assert asyncio.run(written_and_read(config, "b", "a")) == [b"b", b"a"]
        assert ordered(data, "kill", "nn1").exit_code == 0
        assert ordered(data, "activate", "nn0").exit_code == 0
        assert asyncio.run(written_and_read(config, "c", "a", "b")) == [b"c", b"a", b"b"]
    with up(data) as lines:
        assert asyncio.run(written_and_read(use(lines, monkeypatch), "d", "c")) == [b"d", b"c"]
