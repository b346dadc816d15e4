"""Ends the session of a dead process, so that its ephemeral nodes go at once instead of after the timeout.

ZooKeeper lets anybody with a session's id and password act as its holder. kazoo does not fit: it works in threads, and
makes a new session when it hears that the old one is over. Blocking, for a process that does nothing else.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.election.election import ElectionUnavailable
from bmq.election.zookeeper_security import OPEN, BadZooKeeperSecurity, ZooKeeperSecurity
from bmq.election.zookeeper_wire import (
    LENGTH,
    NoZooKeeper,
    SessionKey,
    answer_bytes,
    close_request,
    connect_request,
    is_closed,
    is_session_given,
    sasl_message,
    sasl_request,
)
from bmq.security.kerberos.faults import KerberosFault

RETRY_PAUSE_S: Final = 0.1
# As short as the server allows: if this fails half-way, the session soon expires by itself.
_ASKED_TIMEOUT_MS: Final = 1
_LOGIN_TURNS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Limit:
    """Until when an attempt may take, by the clock `now_s`."""

    until_s: float
    now_s: Callable[[], float] = time.monotonic

    def left_s(self) -> float:
        """Above 0. Raises TimeoutError."""
        left_s = self.until_s - self.now_s()
        if left_s <= 0:
            raise TimeoutError("it does not answer")
        return left_s


def end_session(
    servers: Sequence[str],
    key: SessionKey,
    wait_s: float,
    security: ZooKeeperSecurity = OPEN,
    now_s: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> bool:
    """End the session; False if it did not exist or the password is wrong. Leaves no other session behind.

    `servers`: each `HOST:PORT`; the first that answers is enough. Raises ElectionUnavailable when none did for `wait_s`, or
    when one lets us resume the session and not log in: a session that is resumed lives longer, so it is resumed once.
    """
    until_s = now_s() + wait_s
    while True:
        for server in servers:
            limit = Limit(min(until_s, now_s() + wait_s / (len(servers) + 1)), now_s)
            try:
                return _end_at(server, key, limit, security)
            except _NotLoggedIn as error:
                raise ElectionUnavailable(f"the session ends by itself: {server}: {error}") from error
            except (OSError, NoZooKeeper, BadZooKeeperSecurity, KerberosFault) as error:
                trouble = f"{server}: {error}"
        if now_s() + RETRY_PAUSE_S >= until_s:
            raise ElectionUnavailable(f"no server of ZooKeeper answered within {wait_s:g} s ({trouble})")
        pause(RETRY_PAUSE_S)


class _NotLoggedIn(Exception):
    """The session was resumed, and not ended."""


def _end_at(server: str, key: SessionKey, limit: Limit, security: ZooKeeperSecurity) -> bool:
    """Raises OSError, NoZooKeeper, BadZooKeeperSecurity, KerberosFault, _NotLoggedIn."""
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    login = security.login_at(
        host, lambda work: work.result(limit.left_s())
    )  # may ask the KDC, before anything is resumed
    with _encrypted(socket.create_connection((host, int(port)), limit.left_s()), host, security) as connection:
        connection.sendall(connect_request(key, _ASKED_TIMEOUT_MS))
        if not is_session_given(_answer(connection, limit)):
            return False
        try:
            if login is not None:
                _log_in(connection, login, limit)
        except (OSError, NoZooKeeper, KerberosFault) as error:
            with suppress(OSError, NoZooKeeper):  # a server that enforces no logins ends it all the same
                if _close(connection, limit):
                    return True
            raise _NotLoggedIn(str(error)) from error
        if not _close(connection, limit):
            raise NoZooKeeper("it does not end the session")
        return True


def _close(connection: socket.socket, limit: Limit) -> bool:
    """Raises OSError, NoZooKeeper."""
    connection.sendall(close_request())
    return is_closed(_answer(connection, limit))


def _log_in(connection: socket.socket, login: Any, limit: Limit) -> None:
    """A server that enforces logins lets no other client end a session. Raises OSError, NoZooKeeper, KerberosFault."""
    message = None
    for _ in range(_LOGIN_TURNS_MAX):
        answer = _answered(login, message)
        if answer or not login.complete:
            connection.sendall(sasl_request(answer))
            message = sasl_message(_answer(connection, limit))
        if login.complete:
            return
    raise NoZooKeeper("it does not come to an end with the login")


def _answered(login: Any, message: bytes | None) -> bytes:
    try:
        return login.process(message) or b""
    except (OSError, KerberosFault):
        raise
    except Exception as error:  # noqa: BLE001 pure-sasl raises many kinds at messages that are none
        raise NoZooKeeper(f"it does not prove that it knows our password: {error!r}") from None


def _encrypted(connection: socket.socket, host: str, security: ZooKeeperSecurity) -> socket.socket:
    """Raises OSError, BadZooKeeperSecurity."""
    if not security.tls:
        return connection
    try:
        return security.tls_context().wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise


def _answer(connection: socket.socket, limit: Limit) -> bytes:
    return _read(connection, answer_bytes(_read(connection, LENGTH.size, limit)), limit)


def _read(connection: socket.socket, count: int, limit: Limit) -> bytes:
    read = b""
    while len(read) < count:
        connection.settimeout(limit.left_s())
        more = connection.recv(count - len(read))
        if not more:
            raise ConnectionResetError("it closed the connection")
        read += more
    return read
