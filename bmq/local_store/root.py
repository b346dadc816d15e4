"""Locks the directory of the embedded store: one server at a time, and never a foreign directory."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
from pathlib import Path
from typing import Final

from bmq.log.root import ROOT_FILE, RootForeign, RootInUse, RootUnusable

LOCK_FILE: Final = "lock"
ID_ATTRIBUTE: Final = "user.bmq.id"
LOST_IDS: Final = (
    "was copied without its extended attributes, which tell files apart; copy it again with them (cp -a, rsync -aX, "
    "tar --xattrs)"
)
_NOT_OURS_BUT_FINE: Final = frozenset({LOCK_FILE, "lost+found"})


def lock_data_directory(root: Path) -> int:
    """Make the directory if need be and lock it for this process; the descriptor that holds the lock.

    The kernel frees the lock when the process ends, however it ends. Raises RootInUse, RootForeign, RootUnusable.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in root.iterdir()} - _NOT_OURS_BUT_FINE
        names -= {
            name for name in names if name.startswith(f"{ROOT_FILE}.")
        }  # of servers that died in their first start
        has_lost_ids = ROOT_FILE in names and not id_of(root / ROOT_FILE)
    except (FileExistsError, NotADirectoryError) as error:
        raise RootUnusable(f"{root} is not a directory") from error
    except OSError as error:
        raise RootUnusable(f"the data directory {root} cannot be used: {error.strerror}") from error
    if names and ROOT_FILE not in names:
        raise RootForeign(f"{root} holds something else ({min(names)}) and no {ROOT_FILE}; give an empty directory")
    if has_lost_ids:
        raise RootUnusable(f"the data directory {root} {LOST_IDS}")
    try:
        descriptor = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RootUnusable(f"the data directory {root} cannot be written: {error.strerror}") from error
    try:
        _take(descriptor, root)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def id_of(file: int | str | Path) -> int:
    """0 for a file that this store did not make, or is still making, or that lost its id: none of our files has that id."""
    try:
        return int(os.getxattr(file, ID_ATTRIBUTE))
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.EOPNOTSUPP):
            return 0
        raise


def _take(descriptor: int, root: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        raise RootInUse(f"the data directory {root} is in use by another server (process {owner})") from error
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        # The process id serves only the message above: a full disk must not keep a server from starting and reading.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise RootUnusable(f"the data directory {root} cannot be written: {error.strerror}") from error
    try:
        os.setxattr(descriptor, ID_ATTRIBUTE, b"0")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise RootUnusable(
                f"the file system of {root} keeps no user.* extended attributes, which the embedded store needs"
            ) from error


def raise_open_files_limit() -> int:
    """Let this process have as many descriptors as its hard limit allows (two for each written partition); the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
