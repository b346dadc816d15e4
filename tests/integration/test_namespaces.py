"""Hosts in namespaces reach each other, until they are cut off; what is cut is silent, for open connections too.

In a process of its own: it moves to another network namespace. Needs root, as the soak of a cluster does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testing.namespaces import Host, Network
from testing.patience import Patience
from testing.processes import REPOSITORY

pytestmark = [pytest.mark.contract, pytest.mark.timeout(120)]

PORT = 7
SILENT_S = 0.4
ANSWER_S = 10.0
# Sends back what it gets, on any number of connections.
ECHO = """
import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(100):
            self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
server = Server((sys.argv[1], int(sys.argv[2])), Echo)
print("ready", flush=True)
server.serve_forever()
"""
# Connects from a host, says so, and for each line asks a new question and waits so many seconds for its answer.
ASK = """
import itertools, socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
print("ready", flush=True)
got = b""
for number, line in enumerate(sys.stdin):
    until_s = time.monotonic() + float(line)
    question = b"<%d>" % number
    connection.sendall(question)
    while question not in got and time.monotonic() < until_s:
        connection.settimeout(max(0.001, until_s - time.monotonic()))
        try:
            got += connection.recv(100)
        except TimeoutError:
            pass
    print("answer" if question in got else "silence", flush=True)
"""


@contextmanager
def running(host: Host, code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Python code on a host, once it is ready."""
    command = host.command([sys.executable, "-c", code, *map(str, arguments)])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[str], wait_s: float) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{wait_s}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def answers(host: Host, wait_s: float = ANSWER_S) -> bool:
    """Whether the hub reaches it with a new connection."""
    try:
        with socket.create_connection((host.address, PORT), wait_s):
            return True
    except TimeoutError:
        return False


def look_at_everything() -> None:
    """What the test is about, in the process that has left the namespace of all others."""
    network = Network.enter()
    near, far = network.add_host("near"), network.add_host("far")
    look_at_services(network, near)
    with running(far, ECHO, far.address, PORT), running(near, ASK, far.address, PORT) as asking:
        assert answer(asking, ANSWER_S) == "answer"
        assert answers(far)

        for sender, receiver in ((near, far), (far, near)):
            network.cut(sender.address, receiver.address)
            assert answer(asking, SILENT_S) == "silence", "what one direction loses is lost"
            assert answers(far), "nobody else is cut off"
            network.mend()
            assert answer(asking, ANSWER_S) == "answer", "the connection lives through it"

        both_ways = [(near.address, far.address), (far.address, near.address)]
        for one, other in [*both_ways, (network.address, far.address)]:
            network.cut(one, other)
        assert answer(asking, SILENT_S) == "silence"
        assert not answers(far, SILENT_S)
        network.mend(both_ways)
        assert answer(asking, ANSWER_S) == "answer"
        assert not answers(far, SILENT_S), "the other cut is still there"
        network.heal()
        assert answers(far)

        far.unplug()
        assert answer(asking, SILENT_S) == "silence"
        assert not answers(far, SILENT_S)
        far.plug()
        assert answer(asking, ANSWER_S) == "answer"
        assert answers(far)


def look_at_services(network: Network, host: Host) -> None:
    """A service of the hub is found, and finds itself, under an address of its own."""
    service = network.add_service()
    with socket.create_server((service, PORT)) as server:
        with socket.create_connection((service, PORT), ANSWER_S) as connection:
            assert connection.getsockname()[0] == service
        server.accept()[0].close()
        with running(host, ASK, service, PORT):
            accepted, (address, _) = server.accept()
            accepted.close()
            assert address == host.address


def test_hosts_reach_each_other_until_they_are_cut_off() -> None:
    before = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
    code = "from tests.integration.test_namespaces import look_at_everything; look_at_everything()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=Patience(100).limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    after = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
    assert after == before, "a device was left behind"


def test_without_root_there_is_one_sentence(tmp_path: Path) -> None:
    """As a user whom nobody knows; the interpreter and the sources must be readable to everybody."""
    assert os.geteuid() == 0, "the soak of a cluster and its tests need root"
    code = (
        "import os\n"
        "from testing import namespaces\n"
        "os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "try:\n    namespaces.Network.enter()\n"
        "except namespaces.NoNamespaces as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=Patience(60).limit_s,
        check=False,
    )
    assert done.stdout == "network namespaces need root: run this as root\n", done.stderr
