"""Every drill of docs/OPERATIONS.md has commands that a shell understands, and a test that runs them."""

from __future__ import annotations

import re
import subprocess
from typing import Final

import pytest

from tests.support.page_commands import PAGE, commands_of
from tests.unit.docs.pages import REPOSITORY

pytestmark = pytest.mark.unit

DRILLS: Final = re.findall(r"^### (Drill: .+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
TESTS: Final = (
    "tests/integration/hdfs/test_drills.py",
    "tests/integration/hdfs/test_full_hdfs_drill.py",
    "tests/integration/hdfs/test_lost_disks_drill.py",
    "tests/integration/hdfs/test_older_checkpoint_drill.py",
    "tests/e2e/cluster/test_drills.py",
    "tests/e2e/cluster/test_upgrade_drill.py",
)


def test_there_are_drills() -> None:
    assert len(DRILLS) >= 3


@pytest.mark.parametrize("drill", DRILLS)
def test_a_drill_is_run_by_a_test(drill: str) -> None:
    run = [text for path in TESTS if f'"{drill}"' in (text := (REPOSITORY / path).read_text(encoding="utf-8"))]
    assert len(run) == 1


@pytest.mark.parametrize("drill", DRILLS)
def test_its_commands_are_a_script(drill: str) -> None:
    checked = subprocess.run(["bash", "-n"], input="".join(commands_of(drill)), text=True, capture_output=True)
    assert checked.returncode == 0, checked.stderr


def test_commands_end_with_their_section() -> None:
    page = "### One\ntext\n```\na\n```\n```\nb $X\n```\n### Two\n```\nc\n```\n"
    assert commands_of("One", page) == ["a\n", "b $X\n"]
    assert commands_of("Two", page) == ["c\n"]
    with pytest.raises(AssertionError, match="no commands"):
        commands_of("None", "### None\nwords\n### Two\n```\nc\n```\n")
