"""kazoo on an event loop: one session with ZooKeeper, renewed when it is lost, and ended within a time limit.

kazoo works in threads of its own. Requests go to it from the loop and its answers come back through
`call_soon_threadsafe`, in ZooKeeper's order (and so do watches among themselves); the loop never waits for a thread.
While ZooKeeper is away no request is queued: callers wait for `connected`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from bmq.aio.loops import call_soon_unless_closed
from bmq.election.zookeeper_security import OPEN, NodeAccess, ZooKeeperSecurity
from bmq.election.zookeeper_threads import ZooKeeperThreads
from bmq.election.zookeeper_wire import SessionKey

# Between tries to reach a server. Short enough to keep a session over a short outage of its server.
RETRY_FIRST_S: Final = 0.05
RETRY_LONGEST_S: Final = 0.5
# A healthy server ends a session in milliseconds; otherwise the session ends by its timeout.
CLOSE_WAIT_S: Final = 1.0
# Only a hanging name server keeps a thread longer than that: the lookup cannot be interrupted.
THREADS_WAIT_S: Final = 5.0
# kazoo's thread is woken through a socket for each request, which would fill up if many were made at once.
REQUESTS_MAX: Final = 64

_GONE: Final = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, SessionExpiredError)

_log = structlog.get_logger("bmq.election")


class Interrupted(Exception):
    """The connection or the session was lost before the answer: check whether ZooKeeper carried the request out."""


class SessionClosed(Exception):
    """`close` was called."""


class ZooKeeperSession:
    """`changed` is called on the loop after each change of `is_connected` or `number`. `established`: with each session, before
    anything is done in it.
    """

    def __init__(
        self,
        servers: Sequence[str],
        timeout_s: float,
        changed: Callable[[], None],
        established: Callable[[SessionKey], None] | None = None,
        security: ZooKeeperSecurity = OPEN,
    ) -> None:
        self.is_connected = False
        # The session's id in ZooKeeper, as shown by its ephemeral nodes; None before the first session.
        self.id: int | None = None
        # Counts lost sessions: ephemeral nodes of an earlier one are gone.
        self.number = 0
        # Counts connections: after each new one, earlier reads may be out of date and all watches are gone.
        self.connection_number = 0
        self._servers = servers
        self._timeout_s = timeout_s
        self._changed = changed
        self._established = established
        self._security = security
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._is_closing = False
        self._slots = asyncio.Semaphore(REQUESTS_MAX)
        self._waiting: set[asyncio.Future[Any]] = set()
        self._threads: ZooKeeperThreads | None = None
        self._kerberos = security.kerberos(self._wait_for_kerberos, timeout_s)
        self._client: Any = None
        self._reviving: asyncio.Task[None] | None = None

    @property
    def trouble(self) -> str:
        """Why the last try to reach a server failed; empty if none failed."""
        return self.login_fault or ("" if self._threads is None else self._threads.trouble)

    @property
    def login_fault(self) -> str:
        """Why the last login by Kerberos failed behind its first message; empty if none did."""
        return "" if self._kerberos is None else self._kerberos.fault

    def open(self) -> None:
        """Begin to connect; retried until `close`."""
        tls = self._security.tls_context if self._security.tls else None
        advice = self._security.login_advice if self._security.sasl_mechanism else ""
        before = "" if self._threads is None else self._threads.trouble
        self._threads = ZooKeeperThreads(self._timeout_s / (len(self._servers) + 1), tls, self._kerberos, advice)
        self._threads.trouble = before  # until there is another
        self._client = self._new_client(self._threads)
        self._client.start_async()

    async def connected(self) -> None:
        """Wait until there is a connection. Raises SessionClosed."""
        while not self._is_closing:
            if self.is_connected:
                return
            await self._connected.wait()
        raise SessionClosed

    async def ask(self, order: Callable[[Any], Any], *, number: int | None = None) -> Any:
        """The answer of an asynchronous call of kazoo's: `ask(lambda zookeeper: zookeeper.get_async(path))`.

        Waits for a connection first. `number`: only in this session, since in the next one the root may be another
        cluster's. Raises Interrupted (outcome unknown), SessionClosed, and kazoo's ZookeeperError when ZooKeeper
        refuses (NoNodeError, NodeExistsError, BadVersionError, …).
        """
        async with self._slots:
            await self.connected()
            if number is not None and number != self.number:
                raise Interrupted("the session was lost")
            answer: asyncio.Future[Any] = self._loop.create_future()
            self._waiting.add(answer)
            answer.add_done_callback(self._waiting.discard)
            order(self._client).rawlink(lambda result: self._on_loop(_settle, answer, result))
            try:
                return await answer
            except _GONE as error:
                if self._is_closing:
                    raise SessionClosed from None
                raise Interrupted(str(error) or type(error).__name__) from None

    def watch(self, seen: Callable[[str | None], None]) -> Callable[[Any], None]:
        """Makes a `watch` argument. `seen` is called on the loop with the changed path, or None at a lost connection.

        Make one and keep it: kazoo holds each one it was given until there is a change.
        """
        return lambda event: self._on_loop(seen, event.path)

    async def close(self) -> None:
        """End the session, at once if ZooKeeper answers, and all threads. Callers in `ask` get SessionClosed."""
        if self._is_closing:
            return
        self._is_closing = True
        was_connected, self.is_connected = self.is_connected, False
        self._connected.set()
        for answer in tuple(self._waiting):
            if not answer.done():
                answer.set_exception(SessionClosed())
        if self._reviving is not None:
            await asyncio.wait({self._reviving})
        await self._end_client(patience_s=CLOSE_WAIT_S if was_connected else 0.0)

    # -- kazoo's client ----------------------------------------------------------------------------------------------

    def _new_client(self, threads: ZooKeeperThreads) -> Any:
        client = KazooClient(
            hosts=",".join(self._servers),
            timeout=self._timeout_s,
            handler=threads,
            connection_retry=KazooRetry(
                max_tries=-1, delay=RETRY_FIRST_S, max_delay=RETRY_LONGEST_S, sleep_func=threads.sleep_func
            ),
            logger=_silent_logger(),
            sasl_options=self._security.sasl_options(self._kerberos),
            default_acl=CREATOR_ALL_ACL if self._security.acl == NodeAccess.AUTH else None,
        )

        def heard(state: Any) -> None:
            # In kazoo's connection thread, before it does anything else.
            if state == KazooState.CONNECTED:
                self._on_loop(self._on_connected, SessionKey(*client.client_id))
                return
            # A server that lost its data would reject us for ever, because we have seen a higher zxid than it has. That
            # check prevents reading an older state than before; a `sync` after each connection does that here.
            client.last_zxid = 0
            self._on_loop(self._on_lost, client, state == KazooState.LOST)

        client.add_listener(heard)
        return client

    async def _end_client(self, patience_s: float) -> None:
        """In a thread of its own, because it waits for kazoo's."""
        client, threads = self._client, self._threads
        if threads is None:
            return

        def end() -> None:
            client.stop()
            client.close()
            threads.release()

        interrupt = self._loop.call_later(patience_s, threads.interrupt)
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zookeeper-end")
        ended = self._loop.run_in_executor(executor, end)
        try:
            await asyncio.wait({ended}, timeout=patience_s + THREADS_WAIT_S)
            if ended.done():
                ended.result()
            else:
                _log.warning("zookeeper_thread_leaked", reason="a name server does not answer")
                ended.add_done_callback(lambda late: late.cancelled() or late.exception())
        finally:
            interrupt.cancel()
            executor.shutdown(wait=ended.done())

    async def _revive(self) -> None:
        """kazoo's connection thread ended, for example as our login was refused: start again with new threads."""
        await self._end_client(patience_s=0.0)
        await asyncio.sleep(RETRY_LONGEST_S)
        if not self._is_closing:
            self.open()

    # -- Calls from kazoo's threads ----------------------------------------------------------------------------------

    def _wait_for_kerberos(self, work: Future[bytes]) -> bytes:
        assert self._threads is not None
        return self._threads.wait(work)

    def _on_connected(self, key: SessionKey) -> None:
        if self._is_closing:
            return
        if self.connection_number:
            _log.info("zookeeper_available", servers=",".join(self._servers), is_same_session=key.id == self.id)
        if self._established is not None and key.id != self.id:
            self._established(key)
        self.id = key.id
        self.connection_number += 1
        self.is_connected = True
        self._connected.set()
        self._changed()

    def _on_lost(self, client: Any, is_session_lost: bool) -> None:
        if self._is_closing:
            return
        if is_session_lost:
            self.number += 1
            _log.warning("zookeeper_session_lost", servers=",".join(self._servers))
        elif self.is_connected:
            _log.warning("zookeeper_unavailable", servers=",".join(self._servers))
        self.is_connected = False
        self._connected.clear()
        self._changed()
        if client.client_state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED):
            self._reviving = self._loop.create_task(self._revive(), name="zookeeper-revival")

    def _on_loop(self, callback: Callable[..., None], *arguments: Any) -> None:
        """From any thread."""
        call_soon_unless_closed(self._loop, callback, *arguments)


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if result.successful():
        answer.set_result(result.value)
    else:
        answer.set_exception(result.exception)


def _silent_logger() -> logging.Logger:
    """kazoo logs every failed try, so silence it; we log what an operator should know, once."""
    logger = logging.Logger("kazoo")
    logger.disabled = True
    return logger
