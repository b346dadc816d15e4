"""The directory of an agent: one process has it, and the numbers of a start are above all earlier ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bmq.databus.spool.errors import SpoolUnusable
from bmq.databus.spool.identity import FILE, SpoolDirectory

pytestmark = pytest.mark.unit


def test_each_start_has_higher_numbers_and_the_same_group(tmp_path: Path) -> None:
    first = SpoolDirectory(tmp_path / "s", "host-1", "abc")
    first.close()
    second = SpoolDirectory(tmp_path / "s", "renamed", "xyz")
    second.close()
    assert first.identity.group == second.identity.group == "bmq-databus-host-1-abc"
    assert second.identity.first_number > first.identity.first_number > 0
    assert second.identity.spool_id == "abc"


def test_a_second_agent_is_refused(tmp_path: Path) -> None:
    first = SpoolDirectory(tmp_path / "s", "a", "1")
    with pytest.raises(SpoolUnusable, match="another agent uses"):
        SpoolDirectory(tmp_path / "s", "a", "2")
    first.close()
    SpoolDirectory(tmp_path / "s", "a", "3").close()


def test_a_directory_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(SpoolUnusable, match=r"'holiday\.jpg'.*name an empty directory"):
        SpoolDirectory(tmp_path, "a", "1")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b"x" * 20_000, b'{"format": 2, "start": 1}'])
def test_a_damaged_identity_is_refused_with_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(SpoolUnusable):
        SpoolDirectory(tmp_path, "a", "1")


def test_a_file_in_place_of_the_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("")
    with pytest.raises(SpoolUnusable, match="cannot be used"):
        SpoolDirectory(tmp_path / "s", "a", "1")


def test_the_file_is_private(tmp_path: Path) -> None:
    SpoolDirectory(tmp_path / "s", "a", "1").close()
    assert (tmp_path / "s" / FILE).stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "s" / FILE).read_text())["start"] == 1
