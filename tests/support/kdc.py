"""A Kerberos server (MIT's KDC) of a test's own: a realm, principals and keytabs, on a free port of the loopback.

    with running_kdc(directory) as kdc:
        keytab = kdc.keytab("bmq", "nn/localhost")      # makes principals that are new
        kdc.krb5_conf                                   # for Java: -Djava.security.krb5.conf=
    with kdc.used_here(): …                             # KRB5_CONFIG of this process

The programs come from Debian's packages; `deploy/dev/install-tools.sh kdc` installs them where they are missing.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from bmq.dev.daemon import Daemon
from bmq.dev.ports import HOST, pick_ports
from tests.support.free_ports import started_on_free_ports
from tests.support.hdfs import outside_any_loop

REALM: Final = "BMQ.TEST"
TICKET_LIFE_S: Final = 24 * 3600
COMMAND_WAIT_S: Final = 60.0
_INSTALL: Final = Path(__file__).parents[2] / "deploy" / "dev" / "install-tools.sh"
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class Kdc:
    """`ticket_life_s`: how long tickets are valid."""

    def __init__(self, directory: Path, *, ticket_life_s: int = TICKET_LIFE_S, realm: str = REALM) -> None:
        self.realm = realm
        self.directory = directory
        self.krb5_conf = directory / "krb5.conf"
        self._ticket_life_s = ticket_life_s
        self._principals: set[str] = set()
        (self.port,) = pick_ports(HOST, 1, Random())
        # By its path: no shell looks along PATH for it.
        command = [_found("krb5kdc"), "-n", "-r", realm]
        self.daemon = Daemon("the KDC", command, directory / "kdc.log", self._probe, self.environment)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "PATH": _PATH,
        }

    async def start(self) -> None:
        """Make the realm, and serve it. Raises DaemonFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        self._run("kdb5_util", "create", "-s", "-P", "master", "-r", self.realm)
        await self.daemon.start()

    async def stop(self) -> None:
        await self.daemon.stop()

    def principal(self, name: str) -> str:
        """The full name of a principal, which is there afterwards."""
        full = f"{name}@{self.realm}"
        if full not in self._principals:
            self.admin(f"addprinc -randkey {full}")
            self._principals.add(full)
        return full

    def keytab(self, *names: str, file: str = "") -> Path:
        """A file with the present keys of these principals."""
        path = self.directory / f"{file or names[0].replace('/', '-')}.keytab"
        for name in names:
            self.admin(f"ktadd -norandkey -k {path} {self.principal(name)}")
        return path

    def admin(self, query: str) -> str:
        """One command of kadmin; what it says."""
        return self._run("kadmin.local", "-r", self.realm, "-q", query)

    def login(self, name: str, cache: Path) -> None:
        """Put a ticket of the principal into a ticket cache, as a user's kinit does."""
        self._run("kinit", "-k", "-t", str(self.keytab(name)), "-c", f"FILE:{cache}", self.principal(name))

    @contextmanager
    def used_here(self, **variables: str) -> Iterator[None]:
        """This process uses the realm. `variables`: of the environment, besides."""
        given = {"KRB5_CONFIG": str(self.krb5_conf), **variables}
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

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
        run = subprocess.run(
            [_found(program), *arguments],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_WAIT_S,
        )
        said = f"{run.stdout}{run.stderr}"
        # kadmin.local ends well whatever became of its query.
        if run.returncode or (program == "kadmin.local" and ": " in run.stderr):
            assert "WARNING: no policy" in run.stderr or "No policy specified" in run.stderr, f"{program}: {said}"
        return said


def _found(program: str) -> str:
    for directory in _PATH.split(":"):
        path = Path(directory, program)
        if directory and os.access(path, os.X_OK):
            return str(path)
    subprocess.run([str(_INSTALL), "kdc"], check=True)
    found = next((str(Path(one, program)) for one in _PATH.split(":") if os.access(Path(one, program), os.X_OK)), None)
    assert found is not None, f"{program} is not among the tools"
    return found


@contextmanager
def running_kdc(directory: Path, *, ticket_life_s: int = TICKET_LIFE_S) -> Iterator[Kdc]:
    """A realm of its own; each try to start it in a directory and on a port of its own."""
    names = iter(range(100))
    kdc = started_on_free_ports(
        lambda: Kdc(directory / f"kdc-{next(names)}", ticket_life_s=ticket_life_s), outside_any_loop
    )
    try:
        yield kdc
    finally:
        outside_any_loop(kdc.stop())
