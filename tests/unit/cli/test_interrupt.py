"""Ctrl-C in a command's first moments, while its modules are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from testing.patience import Patience
from tests.support.gate_share import few_in_gate

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

MAIN = """
import signal, sys
import bmq.cli.main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["bmq", "topic", "list", "--bootstrap", "127.0.0.1:1"]
bmq.cli.main.main()
"""


@few_in_gate("name", ["bmq.cli.commands", "typer", "bmq.cli.topic", "confluent_kafka"], every=3, others=in_campaign)
def test_an_interrupt_while_modules_are_imported_is_no_traceback(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MAIN.format(name=name)],
        capture_output=True,
        text=True,
        timeout=Patience(60).limit_s,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (130, "")
