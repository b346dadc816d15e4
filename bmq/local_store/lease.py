"""Leases of the embedded store: only the holder of the lock on an open epoch directory may write below it (rule 19).

The lock sits on the directory itself, so it moves with a rename and ends with its process. All methods block and may be
called from any thread.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from bmq.log.store import FileMissing, LeaseHeld

OPEN_SUFFIX: Final = ".open"


class Lease:
    """A held lock. `users`: writers whose files lie in the directory."""

    __slots__ = ("descriptor", "path", "users")

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.users = 0


class Leases:
    """The locks of one process, by the directory's absolute path, which follows renames."""

    def __init__(self) -> None:
        self._held: dict[str, Lease] = {}
        self._borrowed: dict[str, tuple[int, int]] = {}  # descriptor (-1: held as a lease), number of borrowers
        self._mutex = Lock()

    def hold(self, path: str) -> Lease | None:
        """The lease on an open epoch directory, for one more user; None for any other directory.

        Raises LeaseHeld, FileMissing.
        """
        if not path.endswith(OPEN_SUFFIX):
            return None
        with self._mutex:
            lease = self._held.get(path)
            if lease is None:
                lease = self._held[path] = Lease(_lock(path), path)
            lease.users += 1
            return lease

    def release(self, lease: Lease | None) -> None:
        """One user less. The lock is kept while the directory is open: its owner will make more files there."""
        if lease is None:
            return
        with self._mutex:
            lease.users -= 1
            if lease.users == 0 and not lease.path.endswith(OPEN_SUFFIX):
                self._drop(lease)

    @contextmanager
    def borrowed(self, path: str) -> Iterator[None]:
        """Take the lock for a rename or takeover, unless this process holds it. Raises LeaseHeld, FileMissing."""
        with self._mutex:
            # Two files of one directory may be taken over at once, and a second lock by this process would be refused.
            descriptor, users = self._borrowed.get(path, (-1, 0))
            if not users and path not in self._held:
                descriptor = _lock(path)
            self._borrowed[path] = descriptor, users + 1
        try:
            yield
        finally:
            with self._mutex:
                descriptor, users = self._borrowed.pop(path)
                if users > 1:
                    self._borrowed[path] = descriptor, users - 1
                elif descriptor >= 0:
                    os.close(descriptor)

    def moved(self, source: str, target: str) -> None:
        """The directory `source` was renamed to `target`. Its lock is kept while somebody writes there."""
        with self._mutex:
            lease = self._held.pop(source, None)
            if lease is None:
                return
            lease.path = target
            self._held[target] = lease
            if lease.users == 0 and not target.endswith(OPEN_SUFFIX):
                self._drop(lease)

    def deleted(self, path: str) -> None:
        with self._mutex:
            below = path + "/"
            for lease in [lease for key, lease in self._held.items() if key == path or key.startswith(below)]:
                self._drop(lease)

    def close(self) -> None:
        with self._mutex:
            for lease in tuple(self._held.values()):
                self._drop(lease)

    def _drop(self, lease: Lease) -> None:
        if self._held.get(lease.path) is lease:
            del self._held[lease.path]
            os.close(lease.descriptor)
            lease.descriptor = -1


def _lock(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(path) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise LeaseHeld(f"{path} is held by another living process") from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
