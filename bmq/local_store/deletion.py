"""Deleting what is in a directory, a few milliseconds at a time, so that a disk's other users hardly notice.

A topic has tens of thousands of files. Freeing them as fast as the disk can takes twice the time of all appends meanwhile:
they wait for the same journal.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bmq.aio.duty_pauses import pause_after

BUSY_SHARE: Final = 0.125
STEP_S: Final = 0.002
REST_MAX_S: Final = 0.2


def rest_s(took_s: float) -> float:
    """How long to rest behind a step, so that steps like it take BUSY_SHARE of the time."""
    return pause_after(took_s, BUSY_SHARE, REST_MAX_S)


class TreeDeletion:
    """Empties a directory. What is gone meanwhile is no error, what is written meanwhile may be left; links are removed, and
    what they point to stays.
    """

    def __init__(self, path: Path) -> None:
        self._removals = _removals(path)

    def step(self) -> float | None:
        """Remove entries for STEP_S or until none is left; the seconds it took, None when nothing was left to do.

        Raises FileNotFoundError, NotADirectoryError (the directory itself), OSError.
        """
        began_s = time.perf_counter()
        for _ in self._removals:
            took_s = time.perf_counter() - began_s
            if took_s >= STEP_S:
                return took_s
        return None


def _removals(top: Path) -> Iterator[None]:
    """One more entry is gone at each turn."""
    if top.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link")
    for name, below, names in os.walk(top, topdown=False, onerror=lambda error: _fail_at(top, error)):
        directory = Path(name)
        files = [directory / name for name in names]
        links = [path for name in below if (path := directory / name).is_symlink()]
        for path in (*files, *links):
            path.unlink(missing_ok=True)
            yield
        if directory != top:
            _remove_directory(directory)
            yield


def _remove_directory(path: Path) -> None:
    try:
        path.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def _fail_at(top: Path, error: OSError) -> None:
    """A directory below may be gone meanwhile, the one at the top may not."""
    if not isinstance(error, FileNotFoundError) or Path(error.filename) == top:
        raise error
