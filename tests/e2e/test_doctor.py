"""`bmq doctor` beside a real server: with a wrong clock, few open files, a foreign port, and when the server hangs."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from testing.patience import Patience
from testing.processes import dying_with_us
from testing.servers import BmqServer, server_command
from tests.e2e.conftest import ServerMaker
from tests.support.wrong_clock import clock_off_by

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(120)]

WAIT_S = 45.0
FINE = {"ok", "not applicable"}


def doctor(server: BmqServer, *arguments: str, variables: Mapping[str, str] | None = None, files: int = 0) -> Any:
    """The document of `bmq doctor` with the server's settings. `files`: the hard limit of open files."""

    def limited() -> None:
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    given = {
        "BMQ_LISTEN": server.bootstrap,
        "BMQ_REST": f"127.0.0.1:{server.rest_port}",
        "BMQ_DATA": str(server.directory),
        **(variables or {}),
    }
    done = subprocess.run(
        dying_with_us([server_command(), "doctor", "--json", *arguments]),
        capture_output=True,
        text=True,
        timeout=Patience(WAIT_S).limit_s,
        check=False,
        env={**os.environ, **given},
        preexec_fn=limited,  # this process has no other threads that matter here
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stderr, done.stderr
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.returncode
    return document


def seen(document: Any, check: str) -> tuple[str, str]:
    """The worst verdict of a check and its sentence."""
    order = ("error", "warning", "ok", "not applicable")
    found = [finding for finding in document["findings"] if finding["check"] == check]
    worst = min(found, key=lambda finding: order.index(finding["verdict"]))
    assert worst["verdict"] in FINE or worst["to_do"]
    return worst["verdict"], worst["seen"]


def test_a_server_that_runs_is_known(server: BmqServer) -> None:
    document = doctor(server)
    verdict, sentence = seen(document, "ports")
    assert (verdict, sentence.startswith("a server of bmq has")) == ("ok", True), sentence
    for check in ("settings", "clock", "listeners", "nodes"):
        assert seen(document, check)[0] == "ok", document
    assert seen(document, "names")[0] in ("ok", "warning"), document  # a name server that is slow for a moment is one


def test_a_clock_that_is_an_hour_behind(server: BmqServer) -> None:
    verdict, sentence = seen(doctor(server, variables=clock_off_by(-3_600)), "clock")
    assert verdict == "error"
    assert sentence.startswith("the clock of node 1 is 3") and sentence.endswith("s ahead of ours")


def test_a_low_limit_of_open_files_and_a_port_that_another_program_has(tmp_path: Path) -> None:
    server = BmqServer(tmp_path / "never-started")
    with socket.create_server(("127.0.0.1", 0)) as other:
        server.rest_port = other.getsockname()[1]
        document = doctor(server, files=256)
    verdict, sentence = seen(document, "ports")
    assert verdict == "error"
    assert f"is taken by process {os.getpid()} (" in sentence
    if "started from here" in seen(document, "open files")[1]:  # else a server of another test runs here, and counts
        assert seen(document, "open files") == ("error", "a server started from here may have 256 open files")
    assert document["exit_code"] == 2
    assert not server.directory.exists()


def test_a_server_that_hangs_is_told_and_not_waited_for(new_server: ServerMaker) -> None:
    server = new_server()
    assert isinstance(server, BmqServer)
    server.start()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        document = doctor(server)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    verdict, sentence = seen(document, "nodes")
    assert verdict == "error"
    assert "did not answer within 3 s" in sentence
    assert seen(document, "ports")[0] == "ok"
