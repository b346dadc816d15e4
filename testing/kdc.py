"""A Kerberos server (MIT's KDC) of a test's own: a realm, principals and keytabs, on a free port of the loopback.

    with running_kdc(directory) as kdc:
        keytab = kdc.keytab("bmq", "nn/localhost")      # makes principals that are new
        kdc.krb5_conf                                   # for Java: -Djava.security.krb5.conf=
    with used_here(kdc): …                              # KRB5_CONFIG of this process

The programs come from Debian's packages; `deploy/dev/install-tools.sh kdc` installs them where they are missing.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from bmq.dev.kdc import TICKET_LIFE_S, Kdc, missing_programs
from bmq.dev.ports import HOST, pick_ports
from testing.free_ports import started_on_free_ports
from testing.hdfs import outside_any_loop

REALM: Final = "BMQ.TEST"
_INSTALL: Final = Path(__file__).parents[1] / "deploy" / "dev" / "install-tools.sh"


def install_kdc() -> None:
    """Debian's packages, where they are missing."""
    if missing_programs():
        subprocess.run([str(_INSTALL), "kdc"], check=True)


@contextmanager
def used_here(kdc: Kdc, **variables: str) -> Iterator[None]:
    """This process uses the realm. `variables`: of the environment, besides."""
    given = {**variables, "KRB5_CONFIG": str(kdc.krb5_conf)}
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


@contextmanager
def running_kdc(directory: Path, *, ticket_life_s: int = TICKET_LIFE_S) -> Iterator[Kdc]:
    """A realm of its own; each try to start it in a directory and on a port of its own."""
    install_kdc()
    names = iter(range(100))

    def new() -> Kdc:
        (port,) = pick_ports(HOST, 1, Random())
        return Kdc(directory / f"kdc-{next(names)}", port=port, ticket_life_s=ticket_life_s, realm=REALM)

    kdc = started_on_free_ports(new, outside_any_loop)
    try:
        yield kdc
    finally:
        outside_any_loop(kdc.stop())
