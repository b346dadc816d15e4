"""Ctrl-C and SIGTERM while a command is still importing: no traceback, and the exit code of one that was asked to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gate_share import few_in_gate

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

INTERRUPTED = """
import importlib.abc, os, signal, sys
arguments, module, number = sys.argv[1].split(), sys.argv[2], int(sys.argv[3])

class SignalAtImport(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), number)
        return None

sys.meta_path.insert(0, SignalAtImport())
sys.argv = ["bmq", *arguments]
from bmq.cli.main import main
main()
"""
NOBODY = "127.0.0.1:1"

COMMANDS = [
    ("--help", "bmq.cli.commands"),
    ("--help", "bmq.cli.cluster"),
    ("config show", "pydantic_settings"),
    (f"topic list --bootstrap {NOBODY}", "bmq.cli.topic"),
    (f"topic list --bootstrap {NOBODY}", "confluent_kafka"),
    ("cluster status", "httpx"),
    ("verify", "bmq.cli.verify"),
    ("log segments t", "bmq.cli.log"),
    ("dev hdfs status", "bmq.cli.dev"),
    ("spark stats t", "bmq.cli.spark"),
    ("table list", "bmq.cli.table"),
]
SERVERS = [
    ("standalone --listen 127.0.0.1:0 --rest 127.0.0.1:0", "typer"),
    ("standalone --listen 127.0.0.1:0 --rest 127.0.0.1:0", "bmq.server.process"),
    ("standalone --listen 127.0.0.1:0 --rest 127.0.0.1:0", "uvloop"),
    ("standalone --listen 127.0.0.1:0 --rest 127.0.0.1:0", "bmq.local_store.store"),
    ("node --store hdfs://127.0.0.1:1/bmq --zookeeper 127.0.0.1:1", "bmq.cli.commands"),
    ("node --store hdfs://127.0.0.1:1/bmq --zookeeper 127.0.0.1:1", "kazoo"),
    ("node --store hdfs://127.0.0.1:1/bmq --zookeeper 127.0.0.1:1 --workers 2", "bmq.server.workers"),
]


def interrupted(arguments: str, module: str, number: signal.Signals) -> tuple[int, str, str]:
    """Exit code and output of a command that gets the signal as it begins to import the module."""
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, arguments, module, str(int(number))],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return ran.returncode, ran.stdout, ran.stderr


@few_in_gate(("arguments", "module"), COMMANDS, every=5, others=in_campaign)
def test_a_command_that_is_interrupted_while_it_imports_says_nothing(arguments: str, module: str) -> None:
    code, said, errors = interrupted(arguments, module, signal.SIGINT)
    assert (code, errors) == (130, "")
    assert arguments == "--help" or not said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@few_in_gate(("arguments", "module"), SERVERS, every=7, others=in_campaign)
def test_a_server_that_is_asked_to_stop_while_it_imports_ends_well(
    arguments: str, module: str, number: signal.Signals, tmp_path: Path
) -> None:
    data = f" --data {tmp_path / 'data'}" if arguments.startswith("standalone") else ""
    code, said, errors = interrupted(arguments + data, module, number)
    assert (code, said) == (0, "")
    assert "Traceback" not in errors


INTERRUPTED_AT_THE_END = """
import atexit, os, signal, sys
if sys.argv[1] == "atexit":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
else:
    class AtTheEnd:
        def __del__(self, kill=os.kill, own_pid=os.getpid(), number=signal.SIGINT):
            kill(own_pid, number)
    kept = AtTheEnd()
sys.argv = ["bmq", "completion", "bash"]
from bmq.cli.main import main
main()
"""


@pytest.mark.parametrize("when", ["atexit", "shutdown"])
def test_ctrl_c_behind_a_command_changes_nothing(when: str) -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED_AT_THE_END, when], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"complete" in ran.stdout
