"""The file of a Unix socket: a left one is replaced, one in use is not, and its mode and owner are as set."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import stat
from pathlib import Path
from typing import Final

from bmq.protocol.errors import BmqError

BACKLOG: Final = 4_096
_PATH_BYTES_MAX: Final = 107


class SocketUnusable(BmqError):
    """The socket cannot be opened; one sentence that says what to do."""


class UnixPath:
    """Where a socket is to be, with its mode and owner. Every method raises SocketUnusable."""

    def __init__(self, path: Path, mode: int, owner: str = "", group: str = "") -> None:
        if len(os.fsencode(path)) > _PATH_BYTES_MAX:
            raise SocketUnusable(
                f"the path {path} is longer than the {_PATH_BYTES_MAX} bytes that a Unix socket allows"
            )
        self.path = path
        self._mode = mode
        self._user_id, self._group_id = _ids(owner, group)

    def prepare(self) -> None:
        """Remove a left socket, make the directory."""
        _remove_left(self.path)
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise SocketUnusable(f"the directory {self.path.parent} cannot be made: {error.strerror}") from None

    def take(self, made: Path) -> None:
        """A socket that another one bound: give it mode and owner, and move it to the path."""
        try:
            self.open_to_others(made)
            made.rename(self.path)
        except OSError as error:
            raise self.unusable(error) from None

    def open_to_others(self, made: Path) -> None:
        """The mode comes after the owner. Raises OSError."""
        os.chown(made, self._user_id, self._group_id)
        made.chmod(self._mode)

    def unusable(self, error: OSError) -> SocketUnusable:
        return SocketUnusable(f"the socket {self.path} cannot be opened: {error.strerror}")


def listening_socket(path: Path, *, mode: int, owner: str = "", group: str = "") -> socket.socket:
    """Bound and listening. Raises SocketUnusable."""
    target = UnixPath(path, mode, owner, group)
    target.prepare()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    # Made closed to all others.
    former = os.umask(0o177)
    try:
        listener.bind(str(path))
        target.open_to_others(path)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise target.unusable(error) from None
    finally:
        os.umask(former)
    return listener


def _ids(owner: str, group: str) -> tuple[int, int]:
    """-1: as it is. Raises SocketUnusable."""
    try:
        user_id = pwd.getpwnam(owner).pw_uid if owner else -1
    except KeyError:
        raise SocketUnusable(f"the socket is to be owned by {owner}, and there is no such user") from None
    try:
        return user_id, grp.getgrnam(group).gr_gid if group else -1
    except KeyError:
        raise SocketUnusable(f"there is no group {group}, which was to own the socket") from None


def _remove_left(path: Path) -> None:
    """Of an agent that was killed. Raises SocketUnusable: it is no socket, or a process listens on it."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise SocketUnusable(f"{path} is there and is no socket: name another path")
    except FileNotFoundError:
        return
    except OSError as error:
        raise SocketUnusable(f"the socket {path} cannot be opened: {error.strerror}") from None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise SocketUnusable(f"another process listens on {path}: stop it, or name another path")
