"""The older release can be unpacked and found with every Python that is supported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.older_release import package_of, unpack_older_release

pytestmark = pytest.mark.campaign("unit")


def test_it_is_found_in_its_directory(tmp_path: Path) -> None:
    directory = unpack_older_release(tmp_path / "older")
    assert (directory / "bmq" / "cli" / "standalone.py").is_file()
    assert package_of({"PYTHONPATH": str(directory)}) == directory / "bmq"
