"""The disk of the power losses loses what was not synced, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.unsafe_disk import UnsafeDisk

pytestmark = pytest.mark.integration


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[UnsafeDisk]:
    disk = UnsafeDisk(tmp_path / "image", tmp_path / "mounted", size_mib=64)
    disk.make()
    yield disk
    disk.close()


def test_what_was_not_synced_is_gone(disk: UnsafeDisk) -> None:
    with (disk.directory / "half").open("wb", buffering=0) as half:
        half.write(b"a" * 100_000)
        os.fsync(half.fileno())
        half.write(b"b" * 100_000)
        (disk.directory / "unsynced").write_bytes(b"c" * 1_000)
        disk.cut()
        with pytest.raises(OSError, match="Input/output error"):
            half.write(b"d")
    disk.restore()
    assert (disk.directory / "half").read_bytes() == b"a" * 100_000
    assert not (disk.directory / "unsynced").exists()
    (disk.directory / "later").write_bytes(b"e")
    disk.sync()
    disk.cut()
    disk.restore()
    assert (disk.directory / "later").read_bytes() == b"e"


def test_nothing_is_left_of_it(disk: UnsafeDisk, tmp_path: Path) -> None:
    disk.close()
    assert not disk.directory.is_mount()
    assert [path.name for path in tmp_path.iterdir()] == ["mounted"]
