"""The disk of the power losses loses what was not synced, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us
from tests.support.unsafe_disk import UnsafeDisk

pytestmark = pytest.mark.hurt


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


ELSEWHERE = """
from tests.support.unsafe_disk import own_mounts
own_mounts()
print("there", flush=True)
input()
"""


def test_another_process_with_mounts_of_its_own_does_not_keep_it(disk: UnsafeDisk) -> None:
    """It begins with a copy of all mounts: the file system would stay as it was when its power was cut."""
    command = dying_with_us([sys.executable, "-c", ELSEWHERE])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as other:
        assert other.stdout is not None and other.stdout.readline() == "there\n"
        disk.cut()
        disk.restore()
        (disk.directory / "later").write_bytes(b"e")
        disk.sync()
        assert (disk.directory / "later").read_bytes() == b"e"
        other.communicate("\n", timeout=Patience(30).limit_s)
    assert other.returncode == 0


def test_nothing_is_left_of_it(disk: UnsafeDisk, tmp_path: Path) -> None:
    disk.close()
    assert not disk.directory.is_mount()
    assert [path.name for path in tmp_path.iterdir()] == ["mounted"]
