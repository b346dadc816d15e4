"""The directories of drivers' tokens: those of the dead are removed, and no other."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bmq.spark.source.driver_directory import LOCK, PREFIX, DriverDirectory, machine, remove_abandoned

pytestmark = pytest.mark.unit

WAIT_S: Final = 20.0
DRIVER: Final = """
import sys
from pathlib import Path
from bmq.spark.source.driver_directory import DriverDirectory
own = DriverDirectory(Path(sys.argv[1]))
(own.path / "ab.token").write_text("secret")
print(own.path, flush=True)
sys.stdin.read()
"""
BOOT_ID, HOST_NAME = machine().split()
LEFT_LOCKS: Final = {
    "another user's": machine(),
    "another name": machine(),
    "of an older release": b"",
    "another machine's": b"6b0d7e3a-0000-4000-8000-000000000000 " + HOST_NAME,
    "another container's": BOOT_ID + b" other",
    "longer": machine() + b"r",
}
"""What the locks of directories say that are not to be removed, by why."""


@contextmanager
def driver(parent: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another driver's process, and its directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate(timeout=WAIT_S)


def test_a_directory_is_its_user_s_alone_and_goes_with_its_driver(tmp_path: Path) -> None:
    own = DriverDirectory(tmp_path)
    assert own.path.parent == tmp_path and own.path.name.startswith(PREFIX)
    assert stat.S_IMODE(own.path.stat().st_mode) == 0o700
    assert [path.name for path in own.path.iterdir()] == [LOCK]
    assert (own.path / LOCK).read_bytes() == machine() and len(machine().split()) == 2
    remove_abandoned(tmp_path)
    assert own.path.is_dir(), "this process lives"
    own.remove()
    assert not list(tmp_path.iterdir())


def test_the_next_driver_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    with driver(tmp_path) as (process, path):
        assert (path / "ab.token").read_text() == "secret"
        remove_abandoned(tmp_path)
        assert (path / "ab.token").exists(), "its driver lives"
        process.kill()
        process.wait(WAIT_S)
        assert (path / "ab.token").exists()
        remove_abandoned(tmp_path)
        assert not path.exists()


def test_a_process_that_a_driver_starts_does_not_keep_its_directory(tmp_path: Path) -> None:
    own = DriverDirectory(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        assert own._lock is not None
        os.close(own._lock)  # as the end of this process does
        remove_abandoned(tmp_path)
        assert not own.path.exists()
    finally:
        child.kill()
        child.communicate(timeout=WAIT_S)


@pytest.mark.parametrize("kind", ["link", "file", "unlocked", "linked lock", *LEFT_LOCKS])
def test_what_may_be_no_dead_driver_s_stays(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / f"{PREFIX}x"
    elsewhere.mkdir()
    (elsewhere / LOCK).write_bytes(machine())
    (elsewhere / "kept").touch()
    if kind == "link":
        path.symlink_to(elsewhere)
    elif kind == "file":
        path.touch()
    else:
        path = tmp_path / "bmq-other-x" if kind == "another name" else path
        path.mkdir()
        (path / "ab.token").touch()
    if kind == "linked lock":
        (path / LOCK).symlink_to(elsewhere / LOCK)
    elif kind in LEFT_LOCKS:
        (path / LOCK).write_bytes(LEFT_LOCKS[kind])
    if kind == "another user's":
        uid = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    remove_abandoned(tmp_path)
    assert path.exists() and (elsewhere / "kept").exists()


def test_a_directory_that_cannot_be_read_is_no_trouble(tmp_path: Path) -> None:
    remove_abandoned(tmp_path / "nowhere")


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_locks_a_driver_has_a_directory_that_nobody_removes(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_lock(descriptor: int, how: int) -> None:
        raise OSError(code, os.strerror(code))

    def open_descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", no_lock)
        own = DriverDirectory(tmp_path)
        assert open_descriptors() == before
    assert list(own.path.iterdir()) == [], "there is no lock that another driver could take"
    remove_abandoned(tmp_path)
    assert own.path.is_dir()
    own.remove()
    assert not list(tmp_path.iterdir()) and open_descriptors() == before
