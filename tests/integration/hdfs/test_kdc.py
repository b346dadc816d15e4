"""The KDC of the tests gives tickets, for keytabs and to ticket caches."""

from __future__ import annotations

from pathlib import Path

import gssapi
import pytest

from testing.kdc import running_kdc, used_here

pytestmark = pytest.mark.contract


def test_a_keytab_and_a_ticket_cache_log_in(tmp_path: Path) -> None:
    with running_kdc(tmp_path) as kdc:
        keytab = kdc.keytab("bmq")
        with used_here(kdc):
            credentials = gssapi.Credentials(
                usage="initiate",
                name=gssapi.Name(kdc.principal("bmq"), gssapi.NameType.kerberos_principal),
                store={"client_keytab": str(keytab), "ccache": "MEMORY:test"},
            )
            assert str(credentials.name) == "bmq@BMQ.TEST"
            assert credentials.lifetime > 3600
        cache = tmp_path / "cache"
        kdc.login("ann", cache)
        with used_here(kdc, KRB5CCNAME=f"FILE:{cache}"):
            assert str(gssapi.Credentials(usage="initiate").name) == "ann@BMQ.TEST"
