"""A Kerberos server (MIT's KDC) on this machine: a realm of its own, on a port of the loopback.

    kdc = Kdc(directory, port=8888)
    await kdc.start()
    keytab = kdc.keytab("bmq", "nn/localhost")      # makes principals that are new
    kdc.krb5_conf                                   # for KRB5_CONFIG, and Java's -Djava.security.krb5.conf=

Everything it writes is in its directory, and a realm that was made once is served again by the next start. The programs
are those of Debian's packages krb5-kdc, krb5-admin-server and krb5-user.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bmq.dev.daemon import Daemon
from bmq.dev.ports import HOST
from bmq.protocol.errors import BmqError

NAME: Final = "kdc"
REALM: Final = "BMQ.DEV"
TICKET_LIFE_S: Final = 24 * 3600
COMMAND_WAIT_S: Final = 60.0
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
# They are in /usr/sbin, where a user's PATH may not lead.
PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class KdcMissing(BmqError):
    """There is no Kerberos server to run."""


class KdcFailed(BmqError):
    """A tool of the Kerberos server failed; the message has its words."""


class Kdc:
    """`ticket_life_s`: how long tickets are valid. `log`: a file; None: in the directory. Raises KdcMissing."""

    def __init__(
        self,
        directory: Path,
        *,
        port: int,
        ticket_life_s: int = TICKET_LIFE_S,
        realm: str = REALM,
        log: Path | None = None,
    ) -> None:
        self.realm = realm
        self.directory = directory.resolve()
        self.port = port
        self.krb5_conf = self.directory / "krb5.conf"
        self._ticket_life_s = ticket_life_s
        self._principals: set[str] | None = None
        # By its path: no shell looks along PATH for it.
        command = [found_program("krb5kdc"), "-n", "-r", realm]
        self.daemon = Daemon(NAME, command, log or self.directory / f"{NAME}.log", self._probe, self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """For MIT's programs, those of the server included."""
        return {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "PATH": PATH,
        }

    async def start(self) -> None:
        """Make the realm where there is none, and serve it. Raises DaemonFailed, KdcFailed."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write_configuration()
        if not (self.directory / "stash").exists():
            # The stash is written last: a realm without it was never whole.
            for left in self.directory.glob("principal*"):
                left.unlink()
            self._run("kdb5_util", "create", "-s", "-P", "master", "-r", self.realm)
        await self.daemon.start()

    async def stop(self) -> None:
        await self.daemon.stop()

    def full(self, name: str) -> str:
        """The principal's name with its realm, whether it exists or not."""
        return f"{name}@{self.realm}"

    def principal(self, name: str) -> str:
        """The full name of a principal, which is there afterwards. Raises KdcFailed."""
        if self._principals is None:
            self._principals = set(self.admin("listprincs").split())
        full = self.full(name)
        if full not in self._principals:
            self.admin(f"addprinc -randkey {full}")
            self._principals.add(full)
        return full

    def keytab(self, *names: str, file: str = "") -> Path:
        """A file with the present keys of these principals. Raises KdcFailed."""
        path = self.keytab_path(file or names[0])
        for name in names:
            self.admin(f"ktadd -norandkey -k {path} {self.principal(name)}")
        return path

    def keytab_path(self, file: str) -> Path:
        """Where `keytab` writes it."""
        return self.directory / f"{file.replace('/', '-')}.keytab"

    def admin(self, query: str) -> str:
        """One command of kadmin; what it says. Raises KdcFailed."""
        return self._run("kadmin.local", "-r", self.realm, "-q", query)

    def login(self, name: str, cache: Path) -> None:
        """Put a ticket of the principal into a ticket cache, as a user's kinit does. Raises KdcFailed."""
        self._run("kinit", "-k", "-t", str(self.keytab(name)), "-c", f"FILE:{cache}", self.principal(name))

    async def _probe(self) -> str | None:
        try:
            _, writer = await asyncio.open_connection(HOST, self.port)
        except OSError as error:
            return str(error)
        writer.transport.abort()
        return None

    def _write_configuration(self) -> None:
        self.krb5_conf.write_text(
            f"""[libdefaults]
  default_realm = {self.realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  ticket_lifetime = {self._ticket_life_s}
[realms]
  {self.realm} = {{
    kdc = {HOST}:{self.port}
  }}
[domain_realm]
  localhost = {self.realm}
"""
        )
        (self.directory / "kdc.conf").write_text(
            f"""[kdcdefaults]
  kdc_listen = {HOST}:{self.port}
  kdc_tcp_listen = {HOST}:{self.port}
[realms]
  {self.realm} = {{
    database_name = {self.directory}/principal
    key_stash_file = {self.directory}/stash
    acl_file = {self.directory}/kadm5.acl
    max_life = {self._ticket_life_s}s
    max_renewable_life = 7d
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}
"""
        )

    def _run(self, program: str, *arguments: str) -> str:
        try:
            run = subprocess.run(
                [found_program(program), *arguments],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_WAIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise KdcFailed(f"{program} has not ended within {COMMAND_WAIT_S:g} s") from None
        said = f"{run.stdout}{run.stderr}"
        # kadmin.local ends well whatever became of its query.
        is_refused = program == "kadmin.local" and ": " in _without_notices(run.stderr)
        if run.returncode or is_refused:
            raise KdcFailed(f"{program} failed: {' '.join(said.split())}")
        return run.stdout


def missing_programs() -> Sequence[str]:
    return [program for program in PROGRAMS if _find(program) is None]


def found_program(program: str) -> str:
    """Its path. Raises KdcMissing."""
    found = _find(program)
    if found is None:
        raise KdcMissing(
            f"there is no {program}: install MIT's Kerberos server and its tools (Debian: apt-get install krb5-kdc"
            " krb5-admin-server krb5-user)"
        )
    return found


def _find(program: str) -> str | None:
    for directory in PATH.split(":"):
        path = Path(directory, program)
        if directory and os.access(path, os.X_OK):
            return str(path)
    return None


def _without_notices(told: str) -> str:
    """What kadmin.local says without an error: that a new principal has no policy."""
    return "\n".join(line for line in told.splitlines() if "olicy specified" not in line and "no policy" not in line)
