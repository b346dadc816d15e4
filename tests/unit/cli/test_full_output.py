"""Standard output that takes no more is told in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

MAIN = "import sys; sys.argv = ['bmq', 'completion', 'bash']; from bmq.cli.main import main; main()"


def test_a_full_disk_is_told_without_a_traceback() -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([sys.executable, "-c", MAIN], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (ran.returncode, ran.stderr) == (1, b"bmq: standard output takes no more: No space left on device\n")


def test_a_reader_that_is_gone_is_told_nothing() -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as reader:
        reader.wait()
        ran = subprocess.run([sys.executable, "-c", MAIN], stdout=reader.stdin, stderr=subprocess.PIPE, check=False)
    assert (ran.returncode, ran.stderr) == (1, b"")
