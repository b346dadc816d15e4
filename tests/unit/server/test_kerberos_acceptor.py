"""What the library's errors mean, what the start says without a key, and how long a login waits for the library."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from bmq.security.kerberos_names import ShortNameRules
from bmq.security.listener_security import KerberosService
from bmq.security.sasl.gssapi import GssRefused, GssUnavailable
from bmq.security.sasl.steps import Accepted, Step, Unavailable
from bmq.server import login_threads
from bmq.server.kerberos_acceptor import KerberosAcceptor, NoKerberos, fault_of
from bmq.server.login_threads import LoginThreads

pytestmark = pytest.mark.unit

PRINCIPAL = "kafka/localhost@BMQ.TEST"


def acceptor(keytab: Path) -> KerberosAcceptor:
    return KerberosAcceptor(KerberosService(PRINCIPAL, str(keytab), ShortNameRules()))


@pytest.mark.parametrize(
    ("minor", "said"),
    [
        (2529638946, "Request is a replay"),
        (-1765328351, "Ticket not yet valid"),
        (-1765328363, "CLIENT NOT YET VALID"),
        (-1765328215, "Insufficient access to perform requested operation"),
        (-1765328212, "Insufficient system space is available"),
    ],
)
def test_what_passes_or_is_ours_is_not_final(minor: int, said: str) -> None:
    assert isinstance(fault_of(minor, said, "k"), GssUnavailable)


@pytest.mark.parametrize(
    ("minor", "said", "why"),
    [
        (-1765328347, "Clock skew too great", "set both right"),
        (-1765328339, "Cannot find key for kafka/localhost@BMQ.TEST kvno 2 in keytab", "not for a key of /etc/k"),
        (-1765328353, "Decrypt integrity check failed", "Decrypt integrity check failed"),
        (0, "A token was invalid", "A token was invalid"),
    ],
)
def test_what_is_final_says_what_to_change(minor: int, said: str, why: str) -> None:
    fault = fault_of(minor, said, "/etc/k")
    assert isinstance(fault, GssRefused) and why in str(fault)


def test_a_keytab_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.keytab"
    damaged.write_bytes(b"no keytab")
    for path, why in (
        (tmp_path / "none", "none cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (damaged, f"has no usable key of {PRINCIPAL}"),
    ):
        with pytest.raises(NoKerberos) as refused:
            acceptor(path).check()
        assert why in str(refused.value) and "\n" not in str(refused.value)
        with pytest.raises(GssUnavailable):
            acceptor(path).begin()


def test_without_the_extra_one_sentence_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(
        NoKerberos, match=r"GSSAPI needs Kerberos, and the package for it is missing .* -m pip install"
    ) as refused:
        acceptor(tmp_path / "k").check()
    assert "\n" not in str(refused.value)


async def test_a_library_that_hangs_ends_its_own_logins_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_threads, "KERBEROS_S_MAX", 0.01)
    threads, go = LoginThreads(), threading.Event()

    def hang() -> Step:
        go.wait()
        return Accepted("alice")

    try:
        for _ in range(login_threads.KERBEROS_THREADS_MAX + 1):
            step = await threads.run_kerberos(hang)
            assert isinstance(step, Unavailable) and "has not answered" in step.reason
        assert await threads.run(lambda: Accepted("bob")) == Accepted("bob")
    finally:
        go.set()
        threads.close()
