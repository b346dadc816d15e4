"""`bmq man`: each command has a page that roff reads, and no text of help is a command of roff."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.cli.man_page import escaped
from testing.patience import Patience

pytestmark = pytest.mark.unit


def test_a_page_of_a_group_has_its_commands_and_their_options() -> None:
    result = CliRunner().invoke(app, ["man", "topic"])
    assert result.exit_code == 0, result.exception
    lines = result.stdout.splitlines()
    assert lines[0].startswith('.TH "BMQ-TOPIC" "1"')
    assert [line for line in lines if line.startswith(".SH ")] == [
        ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH COMMANDS", ".SH EXIT STATUS", ".SH SEE ALSO",
    ]  # fmt: skip
    assert '.SS "bmq topic create"' in lines
    assert any(line.startswith("\\fB\\-\\-bootstrap\\fR \\fI") for line in lines)
    assert any("variable BMQ_BOOTSTRAP" in line for line in lines)


def test_all_pages_are_written_and_read_without_a_warning(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["man", "--out", str(tmp_path / "man1")])
    assert result.exit_code == 0, result.exception
    pages = sorted(path.name for path in (tmp_path / "man1").iterdir())
    assert {"bmq.1", "bmq-topic.1", "bmq-doctor.1", "bmq-plan.1", "bmq-profile.1", "bmq-node.1"} <= set(pages)
    assert result.stdout == f"{len(pages)} pages are in {tmp_path / 'man1'}\n"
    known = re.compile(r"\.(TH|SH|SS|TP|PP|B)\b")
    for page in (tmp_path / "man1").iterdir():
        lines = page.read_text().splitlines()
        assert [line for line in lines if line.startswith((".", "'")) and known.match(line) is None] == []
        assert all(lines)
    if (groff := shutil.which("groff")) is not None:
        shown = subprocess.run(
            [groff, "-man", "-Tutf8", "-Kutf8", "-ww", "-P-cbou", str(tmp_path / "man1" / "bmq-profile.1")],
            capture_output=True, text=True, check=True, timeout=Patience(60).limit_s,
        )  # fmt: skip
        assert "bmq profile add" in shown.stdout
        assert shown.stderr == ""


def test_texts_are_no_commands_of_roff() -> None:
    assert escaped(".so /etc/passwd") == "\\&.so /etc/passwd"
    assert escaped("'x --y\\z\n") == "\\&'x \\-\\-y\\ez"


def test_an_unknown_command_is_named() -> None:
    result = CliRunner().invoke(app, ["man", "nothing"])
    assert result.exit_code == 2
    assert "there is no command 'nothing'" in result.output
