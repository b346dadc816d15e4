"""The directory of a driver's token files: whose it is, and the removal of those whose drivers were killed.

A driver that ends removes its own. One that is killed cannot, so the next driver of the same user does. It knows the dead by a lock
that a driver holds for as long as its process lives: a pid may be another process's by now, or be of another container.

A lock counts on its own machine alone, as some file systems keep locks from other machines. So a driver writes into its lock on which
machine it runs, and what other machines' drivers left stays, as does what was left before the machine was started.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "bmq-tokens-"
LOCK: Final = "driver.lock"
_UNLOCKED: Final = "driver.new"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MACHINE_BYTES_MAX: Final = 512


class DriverDirectory:
    """One driver's, for its user alone. `remove` it at the end; a process that is killed leaves it to the next driver."""

    def __init__(self, parent: Path) -> None:
        """Make one in `parent`. Raises OSError. Where no lock can be had, the directory of a process that is killed stays."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock: int | None = None
        with suppress(OSError):  # such as NFS without its lock service, and FUSE
            self._lock = _made_lock(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def machine() -> bytes:
    """Where this process runs: the boot's id, and the name of the host or container. Raises OSError."""
    return f"{_BOOT_ID.read_text().strip()} {socket.gethostname()}".encode()


def _made_lock(directory: Path) -> int:
    """The descriptor that holds a new lock. Raises OSError, and then leaves no file."""
    # It is locked before it has its name: another driver that finds the name finds it locked.
    unlocked = directory / _UNLOCKED
    lock = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(lock, machine())
        unlocked.rename(directory / LOCK)
    except OSError:
        os.close(lock)
        unlocked.unlink(missing_ok=True)
        raise
    return lock


def remove_abandoned(parent: Path) -> None:
    """Remove directories in `parent` that are this user's and whose drivers are gone."""
    with suppress(OSError):  # another user may have made the directory of directories unreadable
        for path in parent.glob(f"{PREFIX}*"):
            with suppress(OSError):  # another driver was quicker
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    """Raises OSError, also if its driver lives, or if nobody knows: it has no lock."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.read(lock, _MACHINE_BYTES_MAX) == machine():
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
