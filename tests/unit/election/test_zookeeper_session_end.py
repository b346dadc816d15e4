"""How a dead process's session is ended, at servers that say what they are told to, and at what is none."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bmq.election.election import ElectionUnavailable
from bmq.election.zookeeper_security import DIGEST_MD5, ZooKeeperSecurity
from bmq.election.zookeeper_session_end import Limit, _end_at, _NotLoggedIn, end_session
from bmq.election.zookeeper_wire import SessionKey, close_request, connect_request
from tests.fakes.gssapi import FakeAcceptor
from tests.fakes.zookeeper_server import FakeZooKeeperServer

pytestmark = pytest.mark.unit

KEY = SessionKey(0x1000A, bytes(range(16)))
SESSION = struct.pack(">iiqi16s?", 0, 4000, KEY.id, 16, KEY.password, False)
REFUSAL = struct.pack(">iiqi16s?", 0, 0, 0, 16, bytes(16), False)
CLOSED = struct.pack(">iqi", 1, 77, 0)
WAIT_S = 20.0
HANG = b""


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class ScriptedServer:
    """Each connection gets one line of the script; each request on it the next answer of that line, `HANG` none at all.

    It hangs up behind the last answer. `heard`: the requests, by connection.
    """

    def __init__(self, script: Sequence[Sequence[bytes]]) -> None:
        self.heard: list[list[bytes]] = []
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT_S)
        for connection in (self._listener, *self._connections):
            connection.close()

    def _serve(self) -> None:
        for answers in self._script:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            connection.settimeout(WAIT_S)
            self.heard.append([])
            with suppress(OSError):  # it may have left with an answer unread
                self._answer(connection, answers)

    def _answer(self, connection: socket.socket, answers: Sequence[bytes]) -> None:
        for answer in answers:
            self.heard[-1].append(connection.recv(1000))
            if answer == HANG:
                return
            connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        self.heard[-1] += [rest for rest in [connection.recv(1000)] if rest]
        connection.close()


class ClockOfPauses:
    """Goes on by pauses, which take no time, and by nothing else: the machine's pace decides nothing."""

    def __init__(self) -> None:
        self._paused_s = 0.0

    def now_s(self) -> float:
        return self._paused_s

    def pause(self, seconds: float) -> None:
        self._paused_s += seconds


@contextmanager
def scripted(*script: Sequence[bytes]) -> Iterator[ScriptedServer]:
    server = ScriptedServer(script)
    try:
        yield server
    finally:
        server.close()


def test_a_session_is_taken_on_and_closed() -> None:
    with scripted([framed(SESSION), framed(CLOSED)]) as server:
        assert end_session([server.address], KEY, WAIT_S)
    assert server.heard == [[connect_request(KEY, 1), close_request()]]


def test_a_session_that_is_over_is_left_at_that() -> None:
    with scripted([framed(REFUSAL)]) as server:
        assert not end_session([server.address], KEY, WAIT_S)
    assert server.heard == [[connect_request(KEY, 1)]]


def test_an_end_whose_answer_was_lost_is_tried_again_and_found_done() -> None:
    with scripted([framed(SESSION), b"\0"], [framed(REFUSAL)]) as server:
        assert not end_session([server.address], KEY, WAIT_S)
    assert server.heard[1] == [connect_request(KEY, 1)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks another protocol"),
        (struct.pack(">i", -1), "it speaks another protocol"),
        (framed(b"\0\0"), "it speaks another protocol"),
        (framed(SESSION)[:20], "it closed the connection"),
        (HANG, "it does not answer|timed out"),
    ],
)
def test_a_server_that_is_none(answer: bytes, reason: str) -> None:
    wait_s = 0.3 if answer == HANG else 2.0  # a hang takes real time
    clock = ClockOfPauses()
    with scripted(*[[answer]] * 40) as server:
        with pytest.raises(ElectionUnavailable, match=rf"within {wait_s:g} s \({server.address}: ({reason})\)"):
            end_session([server.address], KEY, wait_s, now_s=clock.now_s, pause=clock.pause)
        assert server.heard


def test_the_next_server_is_asked_where_one_is_away_or_hangs() -> None:
    clock = ClockOfPauses()
    with (
        scripted([HANG]) as hung,
        scripted([framed(SESSION), framed(CLOSED)]) as server,
        socket.create_server(("127.0.0.1", 0)) as port,
    ):
        away = f"127.0.0.1:{port.getsockname()[1]}"
        port.close()
        assert end_session([away, hung.address, server.address], KEY, 2.0, now_s=clock.now_s, pause=clock.pause)


def test_a_server_that_comes_back_is_asked_again() -> None:
    with scripted([b"\0"], [framed(SESSION), framed(CLOSED)]) as server:
        assert end_session([server.address], KEY, WAIT_S)


def test_the_password_is_in_no_sentence() -> None:
    key = SessionKey(7, b"secret-of-16-by-")
    with pytest.raises(ElectionUnavailable) as unavailable:
        end_session(["127.0.0.1:1"], key, 0.01)
    assert "secret" not in str(unavailable.value) and str(unavailable.value.__context__).find("secret") < 0


@pytest.mark.parametrize(
    "challenge", [b"", b"garbage", b'nonce="1"', b"rspauth=0", b"\xff=\xff", b'realm="r",nonce="n",qop="x"']
)
def test_a_server_whose_login_is_none(tmp_path: Path, challenge: bytes) -> None:
    """By DIGEST-MD5: what pure-sasl makes of a strange challenge is one sentence, and no password stands in it."""
    file = tmp_path / "password"
    file.touch(mode=0o600)
    file.write_text("hunter2")
    security = ZooKeeperSecurity(sasl_mechanism=DIGEST_MD5, username="bmq", password_file=str(file))

    class Strange(FakeAcceptor):
        def answer(self, token: bytes) -> bytes:
            self.heard.append(token)
            return challenge

    with FakeZooKeeperServer(Strange) as server:
        with pytest.raises(_NotLoggedIn, match=r"does not prove that it knows|does not come to an end") as error:
            _end_at(server.address, KEY, Limit(time.monotonic() + WAIT_S), security)
        assert server.closed == []
    assert "hunter2" not in str(error.value) and "\n" not in str(error.value)
