"""Processes that a server starts import the installed package, whatever lies in the directory that it was started in."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bmq.admin.drivers.settings import NodeCommand
from bmq.server.compaction_command import COMMAND

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("command", [COMMAND, NodeCommand(store="", zookeeper="").program])
def test_a_module_in_the_working_directory_is_not_imported(command: Sequence[str], tmp_path: Path) -> None:
    for name in ("bmq", "typing", "asyncio"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(99)\n")
    ran = subprocess.run([*command, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "usage" in ran.stdout.lower()
