"""Logins to ZooKeeper by Kerberos, with a library and a server in memory: the order of a login, its faults, and sessions."""

from __future__ import annotations

import asyncio
import builtins
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bmq.election.election import ElectionUnavailable
from bmq.election.zookeeper_kerberos import ZOOKEEPER_LOGIN, ZooKeeperKerberos, authentication_alone
from bmq.election.zookeeper_security import GSSAPI, BadZooKeeperSecurity, NodeAccess, ZooKeeperSecurity
from bmq.election.zookeeper_session import ZooKeeperSession
from bmq.election.zookeeper_session_end import Limit, _end_at, end_session
from bmq.election.zookeeper_threads import ZooKeeperThreads
from bmq.election.zookeeper_wire import SessionKey
from bmq.security.kerberos.faults import KerberosFault
from bmq.security.kerberos.login import KerberosLogin
from tests.fakes.gssapi import AP_REP, AUTHENTICATION_ALONE, FakeAcceptor, FakeGssapi
from tests.fakes.zookeeper_server import PASSWORD, FakeZooKeeperServer
from tests.unit.election.election_contract import until

pytestmark = pytest.mark.unit

AWAY = "Cannot contact any KDC for realm 'R'"
WAIT_S = 20.0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeGssapi:
    fake = FakeGssapi()
    monkeypatch.setitem(sys.modules, "gssapi", fake)
    return fake


@pytest.fixture
def keytab(tmp_path: Path) -> str:
    path = tmp_path / "keytab"
    path.write_bytes(b"\x05\x02")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def security(library: FakeGssapi, keytab: str) -> ZooKeeperSecurity:
    return ZooKeeperSecurity(sasl_mechanism=GSSAPI, principal="bmq@R", keytab=keytab, server_principal="zk/_HOST@R")


def logins(principal: str = "zookeeper/_HOST") -> ZooKeeperKerberos:
    def wait(work: Future[bytes]) -> bytes:
        return work.result(WAIT_S)

    return ZooKeeperKerberos(KerberosLogin("", "", ZOOKEEPER_LOGIN), principal, wait, fault_age_max_s=WAIT_S)


# -- One login -----------------------------------------------------------------------------------------------------------


def test_a_login_is_begun_before_its_first_message_is_asked_for(library: FakeGssapi) -> None:
    login, server = logins(), FakeAcceptor()
    login.begin("Node1")
    library.kdc = AWAY  # from here on nothing asks the KDC
    message = None
    while not login.is_complete:
        message = server.answer(login.step(message))
    assert server.heard == [b"ap-req zookeeper/node1 1", b"", b"<" + AUTHENTICATION_ALONE + b">"]
    library.kdc = ""
    login.begin("node2")
    assert not login.is_complete and login.step(None) == b"ap-req zookeeper/node2 2"


def test_a_server_that_says_nothing_in_the_middle_of_a_login(library: FakeGssapi) -> None:
    """kazoo hands that over as None, as it does before our first message."""
    login = logins()
    login.begin("node1")
    assert login.step(None) == b"ap-req zookeeper/node1 1"
    with pytest.raises(KerberosFault):
        login.step(None)
    assert "ZooKeeper at node1" in login.fault
    login.begin("node1")
    assert login.fault == ""


def test_a_login_that_was_not_begun(library: FakeGssapi) -> None:
    library.kdc = AWAY
    login = logins()
    with pytest.raises(KerberosFault, match="no KDC answers"):
        login.begin("node1")
    with pytest.raises(KerberosFault, match="was not begun"):
        login.step(None)


def test_an_address_has_no_principal(library: FakeGssapi) -> None:
    with pytest.raises(KerberosFault, match=r"name it in zookeeper instead of the address 10\.0\.0\.1"):
        logins().begin("10.0.0.1")
    logins("zookeeper/fixed@R").begin("10.0.0.1")


@pytest.mark.parametrize("offer", [b"", b"\x01\0\0", b"\x06\0\0\0", b"\x01\0\0\0\0"])
def test_only_a_login_without_protection_is_agreed_to(library: FakeGssapi, offer: bytes) -> None:
    with pytest.raises(KerberosFault, match="qop=auth"):
        authentication_alone(offer)
    login = logins()
    login.begin("node1")
    login.step(None)
    login.step(AP_REP)
    with pytest.raises(KerberosFault):
        login.step(b"<" + offer + b">")
    assert not login.is_complete and "qop=auth" in login.fault


def test_other_protections_on_offer_are_left() -> None:
    assert authentication_alone(b"\x07\x01\0\0") == AUTHENTICATION_ALONE


# -- Settings ------------------------------------------------------------------------------------------------------------


def test_what_is_right(security: ZooKeeperSecurity) -> None:
    security.check()
    ZooKeeperSecurity(sasl_mechanism=GSSAPI, acl=NodeAccess.AUTH).check()  # by the ticket cache


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"principal": ""}, "set zookeeper_security.principal to the principal in it"),
        ({"keytab": "/nowhere/keytab"}, "keytab /nowhere/keytab cannot be read: No such file"),
        ({"keytab": "none"}, "is no keytab: have it written by ktadd of kadmin, or correct zookeeper_security.keytab"),
        ({"keytab": "open"}, "is open to every user of this machine: chmod"),
        ({"username": "bmq"}, "need sasl_mechanism = DIGEST-MD5"),
        ({"password_file": "/etc/p"}, "need sasl_mechanism = DIGEST-MD5"),
        ({"server_principal": ""}, "is no principal: NAME/HOST"),
        ({"server_principal": "/_HOST"}, "is no principal"),
        ({"server_principal": "zookeeper/_HOST@"}, "is no principal"),
        ({"server_principal": "a@b@c"}, "is no principal"),
    ],
)  # fmt: skip
def test_what_is_wrong(library: FakeGssapi, keytab: str, changes: dict[str, str], why: str) -> None:
    directory = Path(keytab).parent
    for name, data, mode in (("none", b"x", 0o600), ("open", b"\x05", 0o644)):
        (directory / name).write_bytes(data)
        (directory / name).chmod(mode)
    paths = {name: str(directory / text) if text in ("none", "open") else text for name, text in changes.items()}
    values = {"sasl_mechanism": GSSAPI, "principal": "bmq@R", "keytab": keytab, **paths}
    with pytest.raises(BadZooKeeperSecurity, match=why) as error:
        ZooKeeperSecurity(**values).check()  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["principal", "keytab", "server_principal"])
def test_settings_of_kerberos_without_it(name: str) -> None:
    for mechanism in ("", "DIGEST-MD5"):
        with pytest.raises(BadZooKeeperSecurity, match="need sasl_mechanism = GSSAPI"):
            ZooKeeperSecurity(sasl_mechanism=mechanism, **{name: "x"}).check()  # type: ignore[arg-type]


def test_without_the_extra_one_sentence_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(BadZooKeeperSecurity, match=r"GSSAPI needs Kerberos, and .* -m pip install .*gssapi") as error:
        ZooKeeperSecurity(sasl_mechanism=GSSAPI).check()
    assert "\n" not in str(error.value)


def test_open_clusters_do_without_the_modules_of_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        assert "gssapi" not in name and "zookeeper_kerberos" not in name
        return real(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    open_ = ZooKeeperSecurity()
    open_.check()
    assert open_.sasl_options() is None and open_.kerberos(lambda work: work.result(), WAIT_S) is None
    assert open_.login_at("node1", lambda work: work.result()) is None


# -- Sessions ------------------------------------------------------------------------------------------------------------


def with_session(
    server: FakeZooKeeperServer, security: ZooKeeperSecurity, story: Callable[[ZooKeeperSession], Awaitable[None]]
) -> None:
    async def run() -> None:
        session = ZooKeeperSession([server.address], 4.0, lambda: None, security=security)
        session.open()
        try:
            await story(session)
        finally:
            await session.close()

    asyncio.run(run())


async def synced(session: ZooKeeperSession) -> None:
    await session.ask(lambda zookeeper: zookeeper.sync_async("/"))


def test_each_connection_of_a_session_logs_in_anew(library: FakeGssapi, security: ZooKeeperSecurity) -> None:
    async def story(session: ZooKeeperSession) -> None:
        await synced(session)
        server.hang_up()
        await until(lambda: session.connection_number == 2, "it is back")
        await synced(session)

    with FakeZooKeeperServer() as server:
        with_session(server, security, story)
        assert [acceptor.heard[0] for acceptor in server.acceptors] == [
            b"ap-req zk/localhost@R 1",
            b"ap-req zk/localhost@R 2",
        ]
        assert all(acceptor.is_content for acceptor in server.acceptors)
        assert len(set(server.sessions)) == 1 and server.closed == server.sessions[:1]
    assert len(library.credentials) == 2
    assert len({str(one["store"]) for one in library.credentials}) == 1


def test_a_kdc_that_is_away_costs_no_session(library: FakeGssapi, security: ZooKeeperSecurity) -> None:
    """The connection is not opened, so the server hears nothing of it; then the same session goes on."""

    async def story(session: ZooKeeperSession) -> None:
        await synced(session)
        library.kdc = AWAY
        server.hang_up()
        await until(lambda: "no KDC answers for the login of bmq@R" in session.trouble, "it says why")
        assert not session.is_connected and len(server.sessions) == 1
        library.kdc = ""
        await until(lambda: session.is_connected, "it is back")
        await synced(session)
        assert session.number == 0

    with FakeZooKeeperServer() as server:
        with_session(server, security, story)
        assert len(set(server.sessions)) == 1


def test_a_server_that_refuses_a_login_is_asked_again(library: FakeGssapi, security: ZooKeeperSecurity) -> None:
    """In another session: kazoo takes it for final."""

    class Refusing(FakeAcceptor):
        def answer(self, token: bytes) -> bytes:
            super().answer(token)
            raise ValueError

    async def story(session: ZooKeeperSession) -> None:
        with capture_logs() as logs:
            await until(lambda: session.number >= 1, "it is refused")
            await until(lambda: "does not accept our login: its log says why" in session.trouble, "it says why")
            kinds[0] = FakeAcceptor
            await until(lambda: any(acceptor.is_content for acceptor in server.acceptors), "it is let in")
            await synced(session)
        assert all(line["event"] == "zookeeper_session_lost" for line in logs if line["log_level"] != "info")

    kinds: list[type[FakeAcceptor]] = [Refusing]
    with FakeZooKeeperServer(lambda: kinds[0]()) as server:
        with_session(server, security, story)
        assert server.acceptors[0].heard == [b"ap-req zk/localhost@R 1"]


def test_a_server_that_does_not_prove_itself_is_named(library: FakeGssapi, security: ZooKeeperSecurity) -> None:
    class Forged(FakeAcceptor):
        def answer(self, token: bytes) -> bytes:
            super().answer(token)
            return b"forged"

    async def story(session: ZooKeeperSession) -> None:
        await until(lambda: "ZooKeeper at localhost runs with old ones" in session.trouble, "it says why")

    with FakeZooKeeperServer(Forged) as server:
        with_session(server, security, story)
        assert all(len(acceptor.heard) == 1 for acceptor in server.acceptors)


def test_a_session_ends_while_the_library_hangs(
    library: FakeGssapi, security: ZooKeeperSecurity, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging: list[Future[bytes]] = []

    def hang(service: str, server: str, work: Callable[[], bytes]) -> Future[bytes]:
        hanging.append(Future())
        return hanging[-1]

    monkeypatch.setattr("bmq.election.zookeeper_kerberos.in_kerberos_thread", hang)

    async def story(session: ZooKeeperSession) -> None:
        await until(lambda: len(hanging) == 1, "it waits")

    with capture_logs() as logs, FakeZooKeeperServer() as server:
        with_session(server, security, story)
        assert server.sessions == [] and all(work.cancelled() for work in hanging)
    assert not [line for line in logs if line["event"] == "zookeeper_thread_leaked"]


def test_a_kdc_that_is_slow_for_one_server_holds_up_no_login_to_another(
    library: FakeGssapi, security: ZooKeeperSecurity
) -> None:
    """A ticket for the other one is at hand. When the KDC has answered at last, the next try finds that ticket, too."""
    slow, answers = threading.Event(), threading.Event()
    asked: list[str] = []

    def context_of(*, name: str, **asked_for: object) -> object:
        asked.append(name)
        if name == "zk/slow@R":
            slow.set()
            assert answers.wait(WAIT_S)
        return FakeGssapi.SecurityContext(library, name=name, **asked_for)  # type: ignore[arg-type]

    library.SecurityContext = context_of  # type: ignore[method-assign,assignment]
    hasty, patient = waiting_threads(security, 0.2), waiting_threads(security, WAIT_S)
    with FakeZooKeeperServer() as server:
        host, _, port = server.address.rpartition(":")
        address = (socket.gethostbyname(host), int(port))
        for _ in range(3):
            with pytest.raises(TimeoutError, match=r"no KDC has answered within 0\.2 s"):
                hasty.create_connection(address, hostname="slow")
            assert slow.wait(WAIT_S)
            patient.create_connection(address, hostname="quick").close()
        assert asked.count("zk/slow@R") == 1, "what waits behind the first question is given up with its try"
        answers.set()
        patient.create_connection(address, hostname="slow").close()
    for one in (hasty, patient):
        one.interrupt()
        one.release()


def test_a_fault_that_is_told_late_is_heard_by_the_next_try(library: FakeGssapi, security: ZooKeeperSecurity) -> None:
    """A name server that does not answer may hold up what the KDC has said already."""
    asked, answers = threading.Event(), threading.Event()

    def context_of(**asked_for: object) -> object:
        asked.set()
        assert answers.wait(WAIT_S)
        raise library.exceptions.GSSError("Server zk/slow@R not found in Kerberos database")

    library.SecurityContext = context_of  # type: ignore[method-assign,assignment]
    hasty = waiting_threads(security, 0.2)
    with pytest.raises(TimeoutError):
        hasty.create_connection(("127.0.0.1", 1), hostname="slow")
    assert asked.wait(WAIT_S) and "no KDC has answered within 0.2 s" in hasty.trouble
    assert hasty._kerberos is not None
    ((_, late, _),) = hasty._kerberos._late.values()
    answers.set()
    assert late.exception(WAIT_S) is not None
    with pytest.raises(OSError, match="the KDC does not know the principal of ZooKeeper at slow"):
        hasty.create_connection(("127.0.0.1", 1), hostname="slow")
    assert "the KDC does not know the principal of ZooKeeper at slow" in hasty.trouble
    hasty.interrupt()
    hasty.release()


def test_a_late_fault_older_than_a_session_is_asked_for_anew(library: FakeGssapi) -> None:
    """What was wrong when the KDC was asked may be mended: an operator is told of what is wrong now."""
    now_s, waits, is_known = 100.0, True, False

    def wait(work: Future[bytes]) -> bytes:
        if waits:
            return work.result(WAIT_S)
        assert asked.wait(WAIT_S)
        raise TimeoutError

    asked, answers = threading.Event(), threading.Event()

    def context_of(*, name: str, **asked_for: object) -> object:
        asked.set()
        assert answers.wait(WAIT_S)
        if not is_known:
            raise library.exceptions.GSSError(f"Server {name} not found in Kerberos database")
        return FakeGssapi.SecurityContext(library, name=name, **asked_for)  # type: ignore[arg-type]

    library.SecurityContext = context_of  # type: ignore[method-assign,assignment]
    login = ZooKeeperKerberos(
        KerberosLogin("", "", ZOOKEEPER_LOGIN), "zookeeper/_HOST", wait, fault_age_max_s=6.0, now_s=lambda: now_s
    )
    for age_s, is_mended in ((6.0, False), (6.1, True)):
        asked.clear()
        answers.clear()
        waits = False
        with pytest.raises(TimeoutError):
            login.begin("node1")
        answers.set()
        ((_, late, _),) = login._late.values()
        assert late.exception(WAIT_S) is not None
        waits, is_known, now_s = True, True, now_s + age_s
        if is_mended:
            login.begin("node1")
        else:
            with pytest.raises(KerberosFault, match="the KDC does not know the principal"):
                login.begin("node1")
        is_known = False
        assert not login._late


def waiting_threads(security: ZooKeeperSecurity, connect_wait_s: float) -> ZooKeeperThreads:
    """As a session makes them."""
    made: list[ZooKeeperThreads] = []
    made.append(ZooKeeperThreads(connect_wait_s, None, security.kerberos(lambda work: made[0].wait(work), WAIT_S)))
    return made[0]


# -- A dead process's session --------------------------------------------------------------------------------------------


def test_the_session_of_a_dead_process_is_ended_behind_a_login(
    library: FakeGssapi, security: ZooKeeperSecurity
) -> None:
    with FakeZooKeeperServer() as server:
        assert end_session([server.address], SessionKey(7, PASSWORD), WAIT_S, security)
        assert server.closed == [7] and server.acceptors[0].is_content


def test_a_login_that_fails_leaves_the_session_to_its_timeout(library: FakeGssapi, security: ZooKeeperSecurity) -> None:
    """It is as short as the server allows by then: the session was taken on before the login."""

    class Refusing(FakeAcceptor):
        def answer(self, token: bytes) -> bytes:
            super().answer(token)
            raise ValueError

    with FakeZooKeeperServer(Refusing) as server:
        with pytest.raises(ElectionUnavailable, match=r"the session ends by itself: .*it does not accept our login"):
            end_session([server.address], SessionKey(7, PASSWORD), WAIT_S, security)
        assert server.sessions == [7], "resumed again, it would live longer"
        library.kdc = AWAY
        with pytest.raises(KerberosFault, match="no KDC answers"):
            _end_at(server.address, SessionKey(7, PASSWORD), Limit(time.monotonic() + WAIT_S), security)
        with pytest.raises(ElectionUnavailable, match=r"no server of ZooKeeper answered within 0\.1 s"):
            end_session([server.address], SessionKey(7, PASSWORD), 0.1, security)
        assert server.sessions == [7], "a KDC that is away costs the session no longer life"
        assert server.closed == []
