"""Each failure of Kerberos is one sentence that names what to change."""

from __future__ import annotations

import builtins
import errno
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bmq.hdfs.authentication import FATAL_UNAUTHORIZED, refusal
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.errors import AuthenticationRequired, RemoteError
from bmq.hdfs.sasl.gss import hdfs_login
from bmq.hdfs.sasl.kerberos_errors import HDFS_LOGIN, kerberos_error
from bmq.hdfs.security import BadSecurity, HadoopSecurity
from bmq.hdfs.server_logins import namenode_authentication
from bmq.log.store import StorageUnavailable, StoreError
from bmq.security.kerberos.faults import KerberosFault, LoginParties, kerberos_fault

pytestmark = pytest.mark.unit


def sentence(minor: str) -> StoreError:
    text = f"Major (851968): Unspecified GSS failure.  Minor code may provide more information, Minor (2529): {minor}"
    parties = LoginParties(who="bmq@R", where="the keytab /k", server="nn1")
    return kerberos_error(kerberos_fault(text, parties, HDFS_LOGIN))


@pytest.mark.parametrize(
    ("minor", "advice"),
    [
        ("Clock skew too great", "the clock of this machine differs"),
        ("Ticket not yet valid", "the clock of this machine differs"),
        ("KDC has no support for encryption type", "allow aes256-cts-hmac-sha1-96 in all of them"),
        ("KDC policy rejects request", "does not allow bmq@R to log in at nn1: have its policy changed"),
        ("Credentials cache permissions incorrect", "the keytab /k is another user's: log in by kinit as the user"),
        ("Principal in credential cache does not match desired name", "has no ticket of bmq@R"),
        ("Permission denied", "the keytab /k cannot be read: allow it to the user that bmq runs as"),
        ("Cannot determine realm for host", r"name it in \[domain_realm\] of krb5\.conf"),
        ("Improper format of Kerberos configuration file", r"krb5\.conf is damaged"),
        ("Client 'bmq@R' not found in Kerberos database", r"the KDC does not know bmq@R: correct hdfs\.principal"),
        ("Server nn/x@R not found in Kerberos database", "does not know the principal of nn1: correct the host name"),
        ("Client's entry in database has expired", "the principal bmq@R has expired"),
        ("Preauthentication failed", "the keytab /k holds old keys of bmq@R"),
        ("No key table entry found for bmq@R", "the keytab /k has no usable key of bmq@R"),
        ("Keytab contains no suitable keys for bmq@R", "has no usable key of bmq@R"),
        ("Key table file '/k' not found", "the keytab /k is not there"),
        ("No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0)", "log in by kinit, or set hdfs.keytab"),
        ("Ticket expired", "has expired: log in by kinit"),
        ("Cannot find KDC for realm \"R\"", r"name it in krb5\.conf"),
        ("Can't open/find Kerberos configuration file", r"krb5\.conf is not there"),
        ("Something new", "bmq@R cannot log in by Kerberos: Something new"),
    ],
)  # fmt: skip
def test_what_stays_wrong_is_not_tried_again(minor: str, advice: str) -> None:
    error = sentence(minor)
    assert isinstance(error, AuthenticationRequired)
    assert error.args[0].startswith("nn1: ")
    with pytest.raises(AuthenticationRequired, match=advice):
        raise error


@pytest.mark.parametrize(
    "minor",
    [
        "Cannot contact any KDC for realm 'R'",
        'Cannot resolve servers for KDC in realm "R"',
        "Cannot resolve network address for KDC in requested realm",
        "Connection refused",
    ],
)
def test_a_kdc_that_is_away_may_come_back(minor: str) -> None:
    with pytest.raises(StorageUnavailable, match="nn1: no KDC answers for the login of bmq@R"):
        raise sentence(minor)


def test_a_keytab_without_our_key() -> None:
    """The library then looks for tickets, and says that there are none."""
    text = "Major (1): x, Minor (2): No credentials cache found"
    parties = LoginParties(who="bmq@R", where="the keytab /k", server="nn1", is_keytab=True)
    error = kerberos_error(kerberos_fault(text, parties, HDFS_LOGIN))
    with pytest.raises(AuthenticationRequired, match="the keytab /k has no usable key of bmq@R"):
        raise error


@pytest.mark.parametrize(
    ("content", "advice"), [(None, "is not there: correct"), (b"", "is no keytab"), (b"x", "is no keytab")]
)
def test_a_keytab_that_is_none(content: bytes | None, advice: str, tmp_path: Path) -> None:
    """The library says of all of them that they have no key of ours."""
    if content is not None:
        (tmp_path / "k").write_bytes(content)
    with pytest.raises(KerberosFault, match=f"^HDFS: the keytab {tmp_path}/k {advice}"):
        hdfs_login("bmq@R", str(tmp_path / "k")).check_keytab()


def test_a_directory_for_a_keytab(tmp_path: Path) -> None:
    with pytest.raises(KerberosFault, match="is no keytab: have it written by ktadd"):
        hdfs_login("bmq@R", str(tmp_path)).check_keytab()


def test_a_keytab_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(KerberosFault, match="cannot be read: allow it to the user that bmq runs as"):
        hdfs_login("bmq@R", str(tmp_path / "k")).check_keytab()


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("GSS initiate failed", "does not accept the login, and its log says why: set its clock and .* right"),
        (
            "Illegal principal name bmq@R: No rules applied to bmq@R",
            r"add a rule .* to hadoop\.security\.auth_to_local",
        ),
        (
            "token (HDFS_DELEGATION_TOKEN token 7 for bmq with renewer bmq) is expired, current time: 2026-11-29",
            "the delegation token that this job was given has ended: begin the work anew",
        ),
        ("Something new", "does not accept the login: Something new"),
    ],
)
def test_a_server_that_refuses_a_ticket(message: str, advice: str) -> None:
    error = refusal("nn1", RemoteError("javax.security.sasl.SaslException", message), 0, is_sasl=True)
    assert isinstance(error, AuthenticationRequired)
    with pytest.raises(AuthenticationRequired, match=f"nn1 .*{advice}"):
        raise error


def test_without_the_package_a_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> object:
        if name == "gssapi":
            raise ModuleNotFoundError("No module named 'gssapi'")
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without)
    security = HadoopSecurity(namenode_principal="nn/_HOST@R")
    config = HdfsConfig(namenodes=(Address("nn", 1),), root="/r", security=security)
    with pytest.raises(BadSecurity, match=r"demands Kerberos, .* is missing .* -m pip install .*gssapi"):
        namenode_authentication(config)


@pytest.mark.parametrize("name", ["org.apache.hadoop.ipc.StandbyException", "org.apache.hadoop.ipc.RetriableException"])
def test_a_namenode_that_cannot_look_a_token_up_now_refuses_nobody(name: str) -> None:
    error = RemoteError(name, "Operation category READ is not supported in state standby.")
    assert refusal("nn1", error, FATAL_UNAUTHORIZED, is_sasl=True) is None
