"""How we prove who we are to ZooKeeper, how the connection is encrypted, and who may touch our nodes.

Passwords and keys are named by files, so that no setting holds a secret. TLS files are read at each connection: replaced
ones count from the next one on.
"""

from __future__ import annotations

import ssl
import stat
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bmq.election.election import ElectionError
from bmq.extras import install_command

SECRET_BYTES_MAX: Final = 4096
DIGEST_MD5: Final = "DIGEST-MD5"
_SERVED: Final = frozenset({"", DIGEST_MD5})
_OTHERS: Final = stat.S_IRWXO


class BadZooKeeperSecurity(ElectionError):
    """Settings or files that cannot be used; one sentence."""


class NodeAccess(StrEnum):
    """`open`: anybody may change our nodes. `auth`: only clients that authenticate as we do."""

    OPEN = "open"
    AUTH = "auth"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSecurity:
    """What an operator may set.

    `sasl_mechanism`: empty, or DIGEST-MD5 with `username` and the first line of `password_file`. `tls`: with the system's
    certificate authorities, or those in `ca_file` alone; `certificate_file` and `key_file` (PEM, `key_password_file` if it
    is encrypted) where the server wants a client's certificate. `checks_host`: the server's certificate has to name it.
    `acl`: of our nodes; `auth` also closes those that were made open.
    """

    sasl_mechanism: str = ""
    """`DIGEST-MD5`: log in to ZooKeeper; needs the extra `zookeeper`."""
    username: str = ""
    """The user."""
    password_file: str = ""
    """A file with the password in its first line, closed to other users."""
    tls: bool = False
    """Encrypted connections to ZooKeeper, TLS 1.2 or 1.3."""
    ca_file: str = ""
    """PEM: the authorities that are trusted; empty: the system's."""
    certificate_file: str = ""
    """PEM: our certificate and its chain, where ZooKeeper wants one."""
    key_file: str = ""
    """PEM: its private key, closed to other users."""
    key_password_file: str = ""
    """A file with the password of that key."""
    checks_host: bool = True
    """ZooKeeper's certificate has to name the host of `zookeeper`."""
    acl: NodeAccess = NodeAccess.OPEN
    """`auth`: only clients that log in as this one may read and change our nodes."""

    def check(self) -> None:
        """Read everything once. Raises BadZooKeeperSecurity."""
        if self.sasl_mechanism not in _SERVED:
            raise BadZooKeeperSecurity(
                f"zookeeper_security.sasl_mechanism = {self.sasl_mechanism[:40]!r} is not served: DIGEST-MD5 is"
            )
        if self.sasl_mechanism:
            self.sasl_options()
        elif self.username or self.password_file:
            raise BadZooKeeperSecurity("zookeeper_security.username and password_file need sasl_mechanism = DIGEST-MD5")
        if self.acl == NodeAccess.AUTH and not self.sasl_mechanism:
            raise BadZooKeeperSecurity("zookeeper_security.acl = auth needs sasl_mechanism = DIGEST-MD5")
        if self.tls:
            self.tls_context()
        elif self.ca_file or self.certificate_file or self.key_file or self.key_password_file:
            raise BadZooKeeperSecurity("zookeeper_security names files for TLS, but zookeeper_security.tls is false")

    def sasl_options(self) -> dict[str, Any] | None:
        """As kazoo takes them; None: without SASL. Raises BadZooKeeperSecurity."""
        if not self.sasl_mechanism:
            return None
        if find_spec("puresasl") is None:
            command = install_command("zookeeper")
            raise BadZooKeeperSecurity(f"zookeeper_security.sasl_mechanism needs another package: {command}")
        if not self.username or not self.password_file:
            raise BadZooKeeperSecurity("zookeeper_security.sasl_mechanism needs username and password_file")
        password = _secret(self.password_file, "password_file")
        return {"mechanism": self.sasl_mechanism, "username": self.username, "password": password}

    def tls_context(self) -> ssl.SSLContext:
        """Made anew from the files. Raises BadZooKeeperSecurity."""
        if bool(self.certificate_file) != bool(self.key_file):
            raise BadZooKeeperSecurity("zookeeper_security.certificate_file and key_file need each other")
        password = _secret(self.key_password_file, "key_password_file") if self.key_password_file else ""
        if self.key_file:
            _require_private(self.key_file, "key_file")
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except (OSError, ValueError) as error:
            raise BadZooKeeperSecurity(
                f"zookeeper_security.ca_file {self.ca_file} cannot be used: {_reason(error)}"
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.checks_host
        if self.certificate_file:
            try:
                # The function keeps OpenSSL from asking on the terminal.
                context.load_cert_chain(self.certificate_file, self.key_file, lambda: password)
            except (OSError, ValueError) as error:
                raise BadZooKeeperSecurity(
                    f"zookeeper_security.certificate_file {self.certificate_file} and key_file {self.key_file} "
                    f"cannot be used together: {_reason(error)}"
                ) from None
        return context


OPEN: Final = ZooKeeperSecurity()


def _secret(path: str, setting: str) -> str:
    """The first line."""
    _require_private(path, setting)
    try:
        with Path(path).open("rb") as file:
            line = file.read(SECRET_BYTES_MAX).partition(b"\n")[0].rstrip(b"\r").decode()
    except OSError as error:
        raise BadZooKeeperSecurity(f"zookeeper_security.{setting} {path} cannot be read: {_reason(error)}") from None
    except UnicodeDecodeError:
        raise BadZooKeeperSecurity(f"zookeeper_security.{setting} {path} is not UTF-8") from None
    if not line:
        raise BadZooKeeperSecurity(f"zookeeper_security.{setting} {path} begins with an empty line")
    return line


def _require_private(path: str, setting: str) -> None:
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise BadZooKeeperSecurity(f"zookeeper_security.{setting} {path} cannot be read: {_reason(error)}") from None
    if mode & _OTHERS:
        raise BadZooKeeperSecurity(
            f"zookeeper_security.{setting} {path} is open to every user of this machine: chmod o= {path}"
        )


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "it is no PEM file"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
