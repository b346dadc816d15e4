"""How we prove who we are to ZooKeeper, how the connection is encrypted, and who may touch our nodes.

Passwords and keys are named by files, so that no setting holds a secret. TLS files are read at each connection: replaced
ones count from the next one on.
"""

from __future__ import annotations

import ssl
import stat
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bmq.dataclass import dataclass
from bmq.election.election import ElectionError
from bmq.extras import install_command

if TYPE_CHECKING:
    from bmq.election.zookeeper_kerberos import Wait, ZooKeeperKerberos

SECRET_BYTES_MAX: Final = 4096
DIGEST_MD5: Final = "DIGEST-MD5"
GSSAPI: Final = "GSSAPI"
SERVER_PRINCIPAL: Final = "zookeeper/_HOST"
# The host that every server of ZooKeeper goes by in DIGEST-MD5.
DIGEST_HOST: Final = "zk-sasl-md5"
_SASL_SERVICE: Final = "zookeeper"
_SERVED: Final = frozenset({"", DIGEST_MD5, GSSAPI})
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

    `sasl_mechanism`: empty; DIGEST-MD5 with `username` and the first line of `password_file`; or GSSAPI with `principal` and
    `keytab`, or the ticket cache. `tls`: with the system's certificate authorities, or those in `ca_file` alone;
    `certificate_file` and `key_file` (PEM, `key_password_file` if it is encrypted) where the server wants a client's
    certificate. `checks_host`: the server's certificate has to name it. `acl`: of our nodes; `auth` also closes those that
    were made open.
    """

    sasl_mechanism: str = ""
    """`DIGEST-MD5` (extra `zookeeper`) or `GSSAPI`, which is Kerberos (extra `kerberos`): log in to ZooKeeper."""
    username: str = ""
    """DIGEST-MD5: the user."""
    password_file: str = ""
    """DIGEST-MD5: a file with the password in its first line, closed to other users."""
    principal: str = ""
    """GSSAPI: who we are, `NAME@REALM`; empty: the ticket cache's user."""
    keytab: str = ""
    """GSSAPI: a file with the keys of `principal`, closed to other users; empty: log in by the ticket cache."""
    server_principal: str = SERVER_PRINCIPAL
    """GSSAPI: the servers' principal; `_HOST`: the name of each in `zookeeper`; `@REALM` behind it unless it is krb5.conf's."""
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
                f"zookeeper_security.sasl_mechanism = {self.sasl_mechanism[:40]!r} is not served: DIGEST-MD5 and GSSAPI are"
            )
        if self.sasl_mechanism != DIGEST_MD5 and (self.username or self.password_file):
            raise BadZooKeeperSecurity("zookeeper_security.username and password_file need sasl_mechanism = DIGEST-MD5")
        if self.sasl_mechanism != GSSAPI and (
            self.principal or self.keytab or self.server_principal != SERVER_PRINCIPAL
        ):
            raise BadZooKeeperSecurity(
                "zookeeper_security.principal, keytab and server_principal need sasl_mechanism = GSSAPI"
            )
        if self.acl == NodeAccess.AUTH and not self.sasl_mechanism:
            raise BadZooKeeperSecurity("zookeeper_security.acl = auth needs sasl_mechanism = DIGEST-MD5 or GSSAPI")
        if self.sasl_mechanism == GSSAPI:
            self._check_kerberos()
        else:
            self.sasl_options()
        if self.tls:
            self.tls_context()
        elif self.ca_file or self.certificate_file or self.key_file or self.key_password_file:
            raise BadZooKeeperSecurity("zookeeper_security names files for TLS, but zookeeper_security.tls is false")

    def _check_kerberos(self) -> None:
        if self.keytab:
            if not self.principal:
                raise BadZooKeeperSecurity(
                    "zookeeper_security.keytab is set: set zookeeper_security.principal to the principal in it, NAME@REALM"
                )
            _require_private(self.keytab, "keytab")
        name, _, realm = self.server_principal.partition("@")
        if not name.partition("/")[0] or self.server_principal.endswith("@") or "@" in realm:
            raise BadZooKeeperSecurity(
                f"zookeeper_security.server_principal = {self.server_principal[:100]!r} is no principal: NAME/HOST or"
                " NAME/HOST@REALM is, with _HOST for the host"
            )
        _require_puresasl("kerberos")
        # Most clusters do without these modules.
        from bmq.election.zookeeper_kerberos import ZOOKEEPER_LOGIN
        from bmq.security.kerberos.faults import KerberosFault
        from bmq.security.kerberos.library import NoGssapi, gssapi_module
        from bmq.security.kerberos.login import KerberosLogin

        try:
            gssapi_module()
            KerberosLogin(self.principal, self.keytab, ZOOKEEPER_LOGIN).check_keytab()
        except NoGssapi as error:
            raise BadZooKeeperSecurity(
                f"zookeeper_security.sasl_mechanism = GSSAPI needs Kerberos, and {error}"
            ) from None
        except KerberosFault as fault:
            raise BadZooKeeperSecurity(fault.sentence) from None

    def kerberos(self, wait: Wait, session_timeout_s: float) -> ZooKeeperKerberos | None:
        """The logins of one client, with tickets of its own; None: it does not log in by Kerberos."""
        if self.sasl_mechanism != GSSAPI:
            return None
        from bmq.election.zookeeper_kerberos import ZOOKEEPER_LOGIN, ZooKeeperKerberos
        from bmq.security.kerberos.login import KerberosLogin

        login = KerberosLogin(self.principal, self.keytab, ZOOKEEPER_LOGIN)
        return ZooKeeperKerberos(login, self.server_principal, wait, fault_age_max_s=session_timeout_s)

    def sasl_options(self, kerberos: ZooKeeperKerberos | None = None) -> dict[str, Any] | None:
        """As kazoo and pure-sasl take them; None: without SASL. Raises BadZooKeeperSecurity."""
        if not self.sasl_mechanism:
            return None
        _require_puresasl("zookeeper")
        if kerberos is not None:
            from bmq.election.zookeeper_kerberos import MECHANISM

            return {"mechanism": MECHANISM, "service": _SASL_SERVICE, "login": kerberos}
        if not self.username or not self.password_file:
            raise BadZooKeeperSecurity("zookeeper_security.sasl_mechanism needs username and password_file")
        password = _secret(self.password_file, "password_file")
        return {
            "mechanism": self.sasl_mechanism,
            "service": _SASL_SERVICE,
            "username": self.username,
            "password": password,
        }

    def login_at(self, host: str, wait: Wait) -> Any:
        """pure-sasl's side of one login at `host`, for one who has no kazoo; None: without SASL.

        Raises BadZooKeeperSecurity, and what ZooKeeperKerberos.begin does.
        """
        kerberos = self.kerberos(wait, 0.0)  # it begins one login, so no fault is late
        options = self.sasl_options(kerberos)
        if options is None:
            return None
        if kerberos is not None:
            kerberos.begin(host)
        from puresasl.client import SASLClient

        return SASLClient(host if kerberos is not None else DIGEST_HOST, **options)

    @property
    def login_advice(self) -> str:
        """What to look at when a server refuses our login."""
        if self.sasl_mechanism == GSSAPI:
            return (
                "its log says why; see that its clock and ours are right, that it has the present keys of"
                " zookeeper_security.server_principal, and that its rules (auth_to_local) know our principal"
            )
        return "see zookeeper_security.username and password_file"

    @property
    def owner_advice(self) -> str:
        """What to change when nodes of ours do not let us in."""
        if self.sasl_mechanism == GSSAPI:
            return (
                "all of the cluster's processes have to be one user to ZooKeeper: give them one principal, or set"
                " kerberos.removeHostFromPrincipal=true in its zoo.cfg if their principals differ in the host"
            )
        return "set zookeeper_security as those processes of the cluster have it that made them"

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


def _require_puresasl(extra: str) -> None:
    if find_spec("puresasl") is None:
        raise BadZooKeeperSecurity(f"zookeeper_security.sasl_mechanism needs another package: {install_command(extra)}")


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
