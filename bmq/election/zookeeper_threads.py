"""kazoo's threads and sockets, with a way to interrupt them while a server does not answer."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from kazoo.exceptions import SessionClosedRequireSaslError
from kazoo.handlers.threading import SequentialThreadingHandler

from bmq.election.election import ElectionError
from bmq.security.kerberos.faults import KerberosFault

if TYPE_CHECKING:
    from bmq.election.zookeeper_kerberos import ZooKeeperKerberos

T = TypeVar("T")

_log = structlog.get_logger("bmq.election")


class ZooKeeperThreads(SequentialThreadingHandler):  # type: ignore[misc]
    """A handler for one kazoo client; `release` it when that is closed.

    Apart from name servers and short sleeps, kazoo's connection thread waits only in `select`, `create_connection` and
    `wait`.
    `connect_wait_s`: time for a KDC to give a ticket for one server, again for that one to accept a connection, for its TLS handshake, and
    to give a session. So one server may take it up to four times. `trouble`: why the last try failed. `tls`:
    makes the context of a connection; None: without TLS. `kerberos`: begins the login of a connection before it is opened;
    None: not by Kerberos. `login_advice`: what to look at if a server refuses a login; empty: there is none.
    """

    def __init__(
        self,
        connect_wait_s: float,
        tls: Callable[[], ssl.SSLContext] | None = None,
        kerberos: ZooKeeperKerberos | None = None,
        login_advice: str = "",
    ) -> None:
        super().__init__()
        self.trouble = ""
        self._connect_wait_s = connect_wait_s
        self._tls = tls
        self._kerberos = kerberos
        self._or_refused = f", or does not accept our login: {login_advice}" if login_advice else ""
        self._is_greeted = True
        self._interrupt, self._interrupted = socket.socketpair()

    def interrupt(self) -> None:
        """Make all waits for a socket fail, now and later. Callable from any thread."""
        with suppress(OSError):  # already released: nobody waits any more
            self._interrupt.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Call it when all threads have ended."""
        self._interrupt.close()
        self._interrupted.close()

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], others: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As kazoo's. Raises ConnectionAbortedError once interrupted."""
        if pending := [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]:
            return pending, [], []  # decrypted already, so the descriptor need not be readable
        is_greeting = bool(readers) and not self._is_greeted
        if is_greeting:
            timeout = self._connect_wait_s
        readable, writable, rest = self._selected(readers, writers, others, timeout)
        self._is_greeted = self._is_greeted or (is_greeting and bool(readable))
        return readable, writable, rest

    def wait(self, work: Future[T]) -> T:
        """The result of what Kerberos does in its thread; it may have to ask the KDC. Raises what that raises, and OSError.

        While a KDC is slow the next server is tried, for which a ticket may be at hand. The answer is not lost: the next try at
        this server finds the ticket.
        """
        done, finished = socket.socketpair()
        with done, finished:
            work.add_done_callback(lambda _: _tell(finished))
            if not self._selected([done], [], [], self._connect_wait_s)[0]:
                raise TimeoutError(errno.ETIMEDOUT, f"no KDC has answered within {self._connect_wait_s:.2g} s")
        return work.result()

    def _selected(
        self, readers: Sequence[Any], writers: Sequence[Any], others: Sequence[Any], timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Raises ConnectionAbortedError once interrupted."""
        readable, writable, rest = super().select([*readers, self._interrupted], writers, others, timeout)
        if self._interrupted in readable:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the session is being closed")
        return readable, writable, rest

    def create_connection(
        self, address: tuple[str, int], timeout: float | None = None, hostname: str | None = None, **options: Any
    ) -> socket.socket:
        """`hostname`: as the server is named in our settings, for its certificate and principal. Raises OSError."""
        where = f"{address[0]}:{address[1]}"
        try:
            if self._kerberos is not None:
                self._kerberos.begin(hostname or address[0])
            connection = self._connect(address)
            if self._tls is not None:
                connection = self._encrypted(self._tls(), connection, hostname or address[0])
        except (ElectionError, KerberosFault) as error:
            self.trouble = str(error)
            raise OSError(str(error)) from None
        except ssl.SSLCertVerificationError as error:
            self.trouble = f"{where}: its certificate is not accepted: {error.verify_message}"
            raise OSError(self.trouble) from None  # kazoo would take an SSLError for one of its own making
        except ssl.SSLError as error:
            self.trouble = f"{where}: no TLS connection: {error.reason or error}"
            raise OSError(self.trouble) from None
        except OSError as error:
            self.trouble = f"{where}: {error.strerror or error}"
            raise
        self.trouble = f"{where} accepts connections and gives no session{self._or_refused}"
        self._is_greeted = False
        return connection

    def _connect(self, address: tuple[str, int]) -> socket.socket:
        connection = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            code = connection.connect_ex(address)
            if code == errno.EINPROGRESS:
                if not self.select([], [connection], [], self._connect_wait_s)[1]:
                    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
        except BaseException:
            connection.close()
            raise
        return connection

    def _encrypted(self, context: ssl.SSLContext, connection: socket.socket, host: str) -> socket.socket:
        """Raises OSError."""
        try:
            name = host.strip("[]")
            encrypted = context.wrap_socket(connection, server_hostname=name, do_handshake_on_connect=False)
        except BaseException:
            connection.close()
            raise
        try:
            until_s = time.monotonic() + self._connect_wait_s
            while True:
                left_s = max(0.0, until_s - time.monotonic())
                try:
                    encrypted.do_handshake()
                    return encrypted
                except ssl.SSLWantReadError:
                    is_ready = bool(self.select([encrypted], [], [], left_s)[0])
                except ssl.SSLWantWriteError:
                    is_ready = bool(self.select([], [encrypted], [], left_s)[1])
                if not is_ready:
                    raise TimeoutError(errno.ETIMEDOUT, "the TLS handshake does not end")
        except BaseException:
            encrypted.close()
            raise

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """As kazoo's, but logs the exception that ends a thread in one line."""

        def run() -> None:
            try:
                func(*args, **kwargs)
            except SessionClosedRequireSaslError:
                pass  # a server that demands logins refused ours: the session is lost, and says so
            except Exception as error:  # noqa: BLE001 any bug is answered or logged
                _log.error("zookeeper_client_failed", reason=repr(error))

        return super().spawn(run)


def _tell(finished: socket.socket) -> None:
    with suppress(OSError):  # nobody waits any more
        finished.send(b"\0")
