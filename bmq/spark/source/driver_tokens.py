"""The delegation tokens of a driver. Its processes share them in a directory, and its main process has them renewed.

A process that plans takes the newest token from there, or gets one from the NameNode and stores it there. It may end once it
has planned, but the main process lives as long as the job, so the main process has every token renewed. A token of an early
plan must stay valid until the last of its tasks begins, up to dfs.namenode.delegation.token.max-lifetime. Only this user can
read the directory and its files.
"""

from __future__ import annotations

import json
import os
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Final

import structlog

from bmq.hdfs.delegation_token import DelegationToken

DIRECTORY_VARIABLE: Final = "BMQ_SPARK_TOKENS"
"""Names the directory to the processes that Spark starts beside the driver."""
NEW_SHARE: Final = 0.25
"""Of its interval: for how long plans take a token that is there. A job without the main process's renewals has the rest."""
DUE_SHARE: Final = 0.5
"""Of its interval: what is left of it when it is renewed."""
RENEW_INTERVAL_S: Final = 5.0
WARN_AGAIN_S: Final = 60.0
_FILES: Final = "*.token"

_log = structlog.get_logger("bmq.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverToken:
    """`root`: the store. `principal`, `keytab`: the login that got it and may renew it, as in HdfsSettings. `made_s`,
    `ends_s`: wall time. `interval_s`: what a renewal adds. `is_last`: renewals add nothing any more.
    """

    root: str
    principal: str
    keytab: str
    token: DelegationToken
    made_s: float
    ends_s: float
    interval_s: float
    is_last: bool = False

    def is_new(self, now_s: float) -> bool:
        """Whether the token may be used in another plan."""
        return self.made_s <= now_s < self.made_s + self.interval_s * NEW_SHARE and now_s < self.ends_s

    def is_due(self, now_s: float) -> bool:
        """Whether the token has to be renewed now."""
        return not self.is_last and now_s >= self.ends_s - self.interval_s * DUE_SHARE

    def renewed(self, now_s: float, ends_s: float) -> DriverToken:
        """The token after a renewal. `ends_s`: its new end."""
        is_last = ends_s <= self.ends_s or ends_s < now_s + self.interval_s * 0.9
        return replace(self, ends_s=max(ends_s, self.ends_s), is_last=is_last)


class TokenDirectory:
    """`path`: an existing directory. Several processes use it at once: each file is written whole, under a unique name."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def shared(cls) -> TokenDirectory | None:
        """The directory of this process's driver; None without one."""
        path = Path(os.environ.get(DIRECTORY_VARIABLE) or "/nowhere")
        return cls(path) if path.is_dir() else None

    def newest(self, root: str, *, principal: str, keytab: str, now_s: float) -> DelegationToken | None:
        """The token for another plan; None if a new one is needed."""
        fitting = [
            one
            for _, one in self.all()
            if (one.root, one.principal, one.keytab) == (root, principal, keytab) and one.is_new(now_s)
        ]
        return max(fitting, key=lambda one: one.made_s).token if fitting else None

    def put(self, one: DriverToken, path: Path | None = None) -> None:
        """Store a token. `path`: the token's file, if it is stored already. Raises OSError."""
        secrets = {name: b64encode(getattr(one.token, name)).decode() for name in ("identifier", "password")}
        text = json.dumps({**asdict(replace(one, token=DelegationToken(b"", b""))), "token": secrets})
        unfinished = self._path / f"{token_hex(8)}.new"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        unfinished.replace(path or unfinished.with_suffix(".token"))

    def all(self) -> list[tuple[Path, DriverToken]]:
        """All stored tokens with their files. Empty once the directory is gone."""
        found = []
        for path in self._path.glob(_FILES):
            with suppress(OSError, ValueError, KeyError, TypeError):  # it was dropped meanwhile
                fields = json.loads(path.read_text())
                secrets = {name: b64decode(text, validate=True) for name, text in fields.pop("token").items()}
                found.append((path, DriverToken(token=DelegationToken(**secrets), **fields)))
        return found

    def drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)


class TokenRenewer:
    """`renew`: has the NameNode renew a token, and returns the token's new end in wall time."""

    def __init__(
        self, directory: TokenDirectory, renew: Callable[[DriverToken], float], clock_s: Callable[[], float] = time.time
    ) -> None:
        self._directory = directory
        self._renew = renew
        self._clock_s = clock_s
        self._warned_s = float("-inf")

    def start(self) -> None:
        """Renew tokens, in a thread, as long as this process lives."""
        threading.Thread(target=self._run, name="bmq-tokens", daemon=True).start()

    def renew_due(self) -> None:
        """Renew what is due, and drop what has ended. A token that cannot be renewed now is tried again at the next call."""
        for path, one in self._directory.all():
            now_s = self._clock_s()
            if now_s >= one.ends_s:
                self._directory.drop(path)
            elif one.is_due(now_s):
                try:
                    self._directory.put(one.renewed(now_s, self._renew(one)), path)
                except Exception as error:  # noqa: BLE001 the job goes on, and so do the other tokens
                    self._warn(now_s, f"{error}" or type(error).__name__)

    def _warn(self, now_s: float, reason: str) -> None:
        if now_s - self._warned_s >= WARN_AGAIN_S:
            self._warned_s = now_s
            _log.warning("token_not_renewed", reason=reason)

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(RENEW_INTERVAL_S):
            try:
                self.renew_due()
            except Exception as error:  # noqa: BLE001 the next round may do better: without it all tokens end
                self._warn(self._clock_s(), f"{error}" or type(error).__name__)
