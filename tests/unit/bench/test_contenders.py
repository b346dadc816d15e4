"""A server of another tree runs that tree's source, wherever the benchmark was started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.core.contenders import ServerOfTree
from testing.patience import Patience
from testing.processes import REPOSITORY

pytestmark = pytest.mark.campaign("unit")


def test_a_server_is_what_its_tree_has(tmp_path: Path) -> None:
    (tmp_path / "bmq" / "cli").mkdir(parents=True)
    (tmp_path / "bmq" / "cli" / "main.py").write_text("def main(): print('from the tree')\n")
    server = ServerOfTree(tmp_path / "data", tmp_path)
    done = subprocess.run(
        server._arguments(),
        cwd=REPOSITORY,
        env={**os.environ, **server._environment},
        capture_output=True,
        text=True,
        timeout=Patience(60).limit_s,
        check=False,
    )
    assert done.stdout == "from the tree\n", done.stderr
