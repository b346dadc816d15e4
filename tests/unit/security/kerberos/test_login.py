"""One login by Kerberos from the side of a client, without a KDC: which credentials, which messages, and its end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bmq.security.kerberos.faults import KerberosFault, LoginParties, LoginSettings, kerberos_fault
from bmq.security.kerberos.library import NoGssapi, gssapi_module
from bmq.security.kerberos.login import GssInitiator, KerberosLogin
from bmq.security.kerberos.principals import NoHostName, server_principal
from tests.fakes.gssapi import AP_REP, AUTHENTICATION_ALONE, FakeAcceptor, FakeGssapi

pytestmark = pytest.mark.unit

SETTINGS = LoginSettings(
    service="Files", principal="files.principal", keytab="files.keytab", server_name="files.host", server_realm="files.realm"
)  # fmt: skip


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeGssapi:
    fake = FakeGssapi()
    monkeypatch.setitem(sys.modules, "gssapi", fake)
    return fake


@pytest.fixture
def keytab(tmp_path: Path) -> str:
    (tmp_path / "keytab").write_bytes(b"\x05\x02")
    return str(tmp_path / "keytab")


def initiator(login: KerberosLogin) -> GssInitiator:
    return GssInitiator(login, "files/node1@R", "Files at node1", lambda offer: offer)


def test_a_login_from_its_first_message_to_its_end(library: FakeGssapi, keytab: str) -> None:
    login, server = initiator(KerberosLogin("bmq@R", keytab, SETTINGS)), FakeAcceptor()
    message = b""
    while not login.is_complete:
        message = server.answer(login.step(message))
    assert server.heard == [b"ap-req files/node1@R 1", b"", b"<" + AUTHENTICATION_ALONE + b">"] and server.is_content
    assert len(library.credentials) == 1
    with pytest.raises(KerberosFault, match="Files at node1 went on with the login after its end"):
        login.step(b"<\x01\0\0\0>")


def test_each_login_has_fresh_credentials_from_one_cache(library: FakeGssapi, keytab: str) -> None:
    """Used again, they would still count as expired after the library has fetched a new ticket."""
    login = KerberosLogin("bmq@R", keytab, SETTINGS)
    for _ in range(2):
        initiator(login).step(b"")
    one, two = library.credentials
    assert one == two and one["name"] == "bmq@R" and one["store"]["client_keytab"] == keytab
    assert one["store"]["ccache"].startswith("MEMORY:")
    other = KerberosLogin("bmq@R", keytab, SETTINGS)
    initiator(other).step(b"")
    # The library empties a cache when it renews the ticket in it, and each server has a thread of its own.
    GssInitiator(login, "files/node2@R", "Files at node2", lambda offer: offer).step(b"")
    caches = [asked["store"]["ccache"] for asked in library.credentials[1:]]
    assert len(set(caches)) == 3


def test_a_ticket_cache_is_the_environments(library: FakeGssapi) -> None:
    initiator(KerberosLogin("", "", SETTINGS)).step(b"")
    assert library.credentials == [{"name": None, "usage": "initiate", "store": None}]


def test_a_server_that_does_not_prove_itself(library: FakeGssapi, keytab: str) -> None:
    login = initiator(KerberosLogin("bmq@R", keytab, SETTINGS))
    login.step(b"")
    with pytest.raises(KerberosFault, match="or Files at node1 runs with old ones") as refused:
        login.step(b"forged")
    assert not refused.value.is_passing and not login.is_complete


def test_a_message_that_is_not_the_servers(library: FakeGssapi, keytab: str) -> None:
    login = initiator(KerberosLogin("bmq@R", keytab, SETTINGS))
    login.step(b"")
    login.step(AP_REP)
    with pytest.raises(KerberosFault, match="cannot log in by Kerberos"):
        login.step(b"in clear")
    assert not login.is_complete


def test_a_kdc_that_is_away_may_come_back(library: FakeGssapi, keytab: str) -> None:
    library.kdc = "Cannot contact any KDC for realm 'R'"
    login = initiator(KerberosLogin("bmq@R", keytab, SETTINGS))
    with pytest.raises(KerberosFault, match="no KDC answers for the login of bmq@R") as away:
        login.step(b"")
    assert away.value.is_passing
    library.kdc = ""
    assert login.step(b"") == b"ap-req files/node1@R 1"


def test_an_expired_ticket_of_a_keytab_may_be_replaced(library: FakeGssapi, keytab: str) -> None:
    """The library says no more than that when the KDC is away, and would have got another one else."""
    library.kdc = "Ticket expired"
    with pytest.raises(
        KerberosFault, match=r"no KDC answers for the login of bmq@R, whose ticket has expired"
    ) as fault:
        initiator(KerberosLogin("bmq@R", keytab, SETTINGS)).step(b"")
    assert fault.value.is_passing
    with pytest.raises(KerberosFault, match=r"has expired: log in by kinit, or set files\.keytab") as fault:
        initiator(KerberosLogin("bmq@R", "", SETTINGS)).step(b"")
    assert not fault.value.is_passing


def test_what_the_mechanism_does_not_explain_is_said_by_the_library() -> None:
    parties = LoginParties(who="bmq@R", where="the keytab /k", server="Files at node1")
    fault = kerberos_fault("Major (589824): Invalid token was supplied, Minor (0): Success", parties, SETTINGS)
    assert fault.sentence == "Files at node1: bmq@R cannot log in by Kerberos: Invalid token was supplied"


def test_sentences_name_the_settings_of_the_service(library: FakeGssapi, keytab: str) -> None:
    for text, named in (
        ("Client 'bmq@R' not found in Kerberos database", "correct files.principal, or have it added"),
        ("Server files/node1@R not found in Kerberos database", "the principal of Files at node1: correct files.host"),
        ("Cannot determine realm for host", "or name the realm in files.realm"),
        ("Preauthentication failed", f"the keytab {keytab} holds old keys of bmq@R"),
        ("No Kerberos credentials available", f"the keytab {keytab} has no usable key of bmq@R"),
    ):
        library.kdc = text
        with pytest.raises(KerberosFault) as fault:
            initiator(KerberosLogin("bmq@R", keytab, SETTINGS)).step(b"")
        assert named in fault.value.sentence and "\n" not in fault.value.sentence


@pytest.mark.parametrize(("content", "advice"), [(None, "is not there: correct files.keytab"), (b"x", "is no keytab")])
def test_a_keytab_that_is_none(library: FakeGssapi, tmp_path: Path, content: bytes | None, advice: str) -> None:
    if content is not None:
        (tmp_path / "k").write_bytes(content)
    with pytest.raises(KerberosFault, match=f"^Files: the keytab {tmp_path}/k {advice}"):
        KerberosLogin("bmq@R", str(tmp_path / "k"), SETTINGS).check_keytab()
    assert not library.credentials


def test_without_the_package_a_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(NoGssapi, match=r"^the package for it is missing .* -m pip install .*gssapi") as missing:
        gssapi_module()
    assert "\n" not in str(missing.value)


def test_the_host_in_a_servers_principal() -> None:
    assert server_principal("zookeeper/_HOST", "Node1.Example.com") == "zookeeper/node1.example.com"
    assert server_principal("zookeeper/_HOST@R", "node1") == "zookeeper/node1@R"
    assert server_principal("zk/fixed@R", "10.0.0.1") == "zk/fixed@R"
    assert server_principal("zk@R", "node1") == "zk@R"
    for address in ("10.0.0.1", "::1", "fe80::1"):
        with pytest.raises(NoHostName, match=f"instead of the address {address}"):
            server_principal("zookeeper/_HOST", address)
