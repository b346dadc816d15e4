"""A minute and a half of the soak of a cluster: hosts in namespaces, real HDFS, ZooKeeper and clients, a fixed seed.

Every kind of fault happens, to nodes that it hurts: the active controller is killed while another broker has lost HDFS.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from testing.cluster import processes_of
from testing.processes import REPOSITORY, eventually
from tests.soak.cluster.plan import HAZARDS, Kind

pytestmark = [pytest.mark.campaign("soak"), pytest.mark.safety]

SEED = 33597
MINUTES = 1.5
READY_S = 120.0
RUN_S_MAX = 600
GONE_S = 60
NODES, DAEMONS = 4, 5


def command(directory: Path, minutes: float, *hazards: Kind) -> list[str]:
    arguments = [sys.executable, "-m", "tests.soak.cluster", "--minutes", f"{minutes:g}", "--seed", f"{SEED}"]
    arguments += ["--directory", str(directory), "--results", str(directory.with_suffix(".json"))]
    return [*arguments, "--hazards", *hazards]


def devices() -> str:
    """Of the network namespace of all tests."""
    return subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout


def assert_nothing_left(directory: Path, devices_before: str) -> None:
    eventually(lambda: not processes_of(str(directory)), GONE_S, "the processes of the soak are gone")
    assert devices() == devices_before
    kept = {path.name for path in directory.rglob("*") if path.is_file()}
    assert not any(name.startswith(("blk_", "fsimage", "edits", "snapshot")) for name in kept), kept


@pytest.mark.timeout(RUN_S_MAX + 60)
@pytest.mark.parametrize(
    "hazards", [(), (Kind.LATE_CALLS, Kind.POWER_LOSS)], ids=["usual faults", "late calls and a power loss"]
)
def test_nothing_acknowledged_is_lost_while_processes_and_the_network_fail(
    tmp_path: Path, hazards: tuple[Kind, ...]
) -> None:
    directory, before = tmp_path / "soak", devices()
    done = subprocess.run(
        command(directory, MINUTES, *hazards),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(directory.with_suffix(".json").read_text())
    assert found["violations"] == []
    assert all(found["faults"][kind] >= 1 for kind in (set(Kind) - HAZARDS).union(hazards))
    assert not hazards or found["late_calls"]
    assert found["counts"]["records_read"] == found["counts"]["records_acknowledged"] > 0
    assert_nothing_left(directory, before)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_whoever_ends_it_finds_nothing_left(tmp_path: Path, sign: signal.Signals) -> None:
    directory, before = tmp_path / "soak", devices()
    with subprocess.Popen(command(directory, MINUTES), cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as soak:
        try:
            # The daemons and the nodes are there, and some faults have begun.
            eventually((directory / "clients.log").exists, READY_S, "the clients are started", interval_s=0.2)
            started = psutil.Process(soak.pid).children(recursive=True)
            assert len(started) >= NODES + DAEMONS
            soak.send_signal(sign)
            assert soak.wait(60) == (130 if sign is signal.SIGINT else -sign)
        finally:
            soak.kill()
    _, alive = psutil.wait_procs(started, GONE_S)
    assert alive == []
    assert devices() == before
