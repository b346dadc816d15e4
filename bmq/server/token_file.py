"""The file of bearer tokens. Servers read it and check for changes every few seconds; `bmq token` writes it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import structlog

from bmq.log.clock import Clock
from bmq.security.bearer import BearerRefused, BearerVerifier
from bmq.security.bearer_tokens import (
    FILE_BYTES_MAX,
    PREFIX,
    BadTokenFile,
    KeptToken,
    decode_tokens,
    encode_tokens,
    verified_user,
)

_log = structlog.get_logger("bmq.server")
_MODE: Final = 0o600
_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def read_tokens(path: Path) -> dict[str, KeptToken]:
    """The tokens, by id. Raises BadTokenFile: the file is missing, others may write it, or its content is damaged."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadTokenFile(f"{path} is not a file")
            if status.st_mode & _BY_OTHERS:
                raise BadTokenFile(f"{path} decides who may log in and may be written by others: chmod go-w {path}")
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise BadTokenFile(f"{path} has more than {FILE_BYTES_MAX} bytes")
        return decode_tokens(data.decode())
    except OSError as error:
        raise BadTokenFile(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadTokenFile(f"{path} is not UTF-8") from None
    except BadTokenFile as error:
        if str(error).startswith(str(path)):
            raise
        raise BadTokenFile(f"{path} cannot be used: {error}") from None


@contextlib.contextmanager
def changing(path: Path) -> Iterator[dict[str, KeptToken]]:
    """Yields the tokens, none without a file, and writes them back at the end. One process at a time. Raises BadTokenFile."""
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise BadTokenFile(f"{path.parent} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        tokens = read_tokens(path) if path.exists() else {}
        yield tokens
        try:
            write_tokens(path, tokens.values())
        except OSError as error:
            raise BadTokenFile(f"{path} cannot be written: {error.strerror}") from None
    finally:
        os.close(directory)


def write_tokens(path: Path, tokens: Iterable[KeptToken]) -> None:
    """Replace the file as a whole. Owner and mode of the old file are kept. Raises OSError."""
    try:
        before: os.stat_result | None = path.stat()
    except FileNotFoundError:
        before = None
    made, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(made, "w", encoding="utf-8") as file:
            file.write(encode_tokens(tokens))
            os.fchmod(file.fileno(), _MODE if before is None else stat.S_IMODE(before.st_mode))
            if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink()
        raise


class TokenFile:
    """Implements BearerVerifier. `others`: the check of tokens that bmq did not make; None: they are refused.

    Raises BadTokenFile when it is made. Later a bad file leaves the old tokens in force.
    """

    def __init__(self, path: Path, clock: Clock, others: BearerVerifier | None = None) -> None:
        self._path = path
        self._clock = clock
        self._others = others
        self._seen = self._mark()
        self._tokens = read_tokens(path)

    async def verify(self, token: str) -> str:
        """Implements BearerVerifier.verify."""
        if token.startswith(PREFIX):
            return verified_user(self._tokens, token, self._clock.now_ms())
        if self._others is None:
            raise BearerRefused("a bearer token of another form")
        return await self._others.verify(token)

    def reload_if_changed(self) -> None:
        """Read the file again if it has changed."""
        mark = self._mark()
        if mark == self._seen:
            return
        self._seen = mark
        try:
            self._tokens = read_tokens(self._path)
        except BadTokenFile as error:
            _log.warning("tokens_not_renewed", reason=str(error))
        else:
            _log.info("tokens_renewed", tokens=len(self._tokens))

    def _mark(self) -> tuple[int, ...]:
        try:
            status = self._path.stat()
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode
