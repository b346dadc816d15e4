"""The directory of a driver's token files: whose it is, and the removal of those whose drivers were killed.

A driver that ends removes its own. One that is killed cannot, so the next driver of the same user does. It knows the dead by a lock
that a driver holds for as long as its process lives: a pid may be another process's by now, or be of another container.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "bmq-tokens-"
LOCK: Final = "driver.lock"
_UNLOCKED: Final = "driver.new"


class DriverDirectory:
    """One driver's, for its user alone. `remove` it at the end; a process that is killed leaves it to the next driver."""

    def __init__(self, parent: Path) -> None:
        """Make one in `parent`. Raises OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        # It is locked before it has its name: another driver that finds the name finds it locked.
        unlocked = self.path / _UNLOCKED
        self._lock = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(self.path / LOCK)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(parent: Path) -> None:
    """Remove directories in `parent` that are this user's and whose drivers are gone."""
    with suppress(OSError):  # another user may have made the directory of directories unreadable
        for path in parent.glob(f"{PREFIX}*"):
            with suppress(OSError):  # another driver was quicker
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    """Raises OSError, also if its driver lives, or if nobody knows: it has no lock yet."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
