"""Commands that read a setting under the name of the last release say so, on standard error alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.server.renamed_settings import RENAMED

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_the_old_name_works_and_the_new_one_is_named(old: str, new: str, tmp_path: Path) -> None:
    file = tmp_path / "bmq.toml"
    file.write_text(f"{old} = 77\n")
    result = CliRunner().invoke(app, ["config", "show", "--config", str(file)])
    assert result.exit_code == 0
    assert result.stderr == f"setting {old} is called {new} now; the old name works for this release only\n"
    assert new in result.stdout and old not in result.stdout
