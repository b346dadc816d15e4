"""The gate of a connection whose listener demands a login: it passes only login requests before the login and after its end.

It is made with the connection. After a login whose session has no end it is removed, so that requests cost nothing more. Logins
are processed one message at a time: earlier requests are answered first, and no request is begun until the login's is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

import structlog

from bmq.protocol.apis import ApiKey
from bmq.proxy.reply import Reply
from bmq.proxy.sasl_logins import SaslLogins
from bmq.proxy.stats import ProxyStats
from bmq.security.listener_security import ListenerSecurity
from bmq.security.sasl.authenticator import Answer, Authenticated, Failed, Outcome, PassOn, Waiting, Work
from bmq.security.sasl.steps import Step

log = structlog.get_logger("bmq.proxy")

FRAME_BYTES_MAX: Final = 64 * 1024
"""Longest frame before the login is done. Kafka's sasl.server.max.receive.size is eight times that (CVE-2022-34917)."""
FRAME_BYTES_AT_FIRST_MAX: Final = 2 * 1024
"""Buffer that is allocated for an announced frame before the login is done."""
LOGIN_S_MAX: Final = 15.0
"""Longest time from the connection's beginning to the end of its login."""
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")


class Guarded(Protocol):
    """The connection that the gate guards: bmq.proxy.connection.Connection."""

    host: str

    def open_slot(self, api_key: ApiKey, size_bytes: int) -> Reply: ...

    def hold(self, slot: Reply) -> None:
        """Begin no more frames until `release`."""

    def release(self, slot: Reply) -> None: ...

    def begin(self, work: Coroutine[Any, Any, None], ended: Callable[[], None] | None = None) -> None: ...

    def let_in(self, principal: str, *, is_token: bool, is_for_ever: bool) -> None: ...

    def end_with(self, slot: Reply, frame: bytes, reason: str) -> None:
        """Send this answer, and then close the connection."""

    def close(self, reason: str) -> None: ...

    def abort(self) -> None: ...


class SaslGate:
    """The gate of one connection. Call `close` when the connection is lost."""

    def __init__(
        self,
        connection: Guarded,
        logins: SaslLogins,
        security: ListenerSecurity,
        stats: ProxyStats,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._logins = logins
        self._stats = stats
        self._loop = loop
        self._authenticator = logins.authenticator(security, loop)
        self._ends_s: float | None = None
        self._timer: asyncio.TimerHandle | None = loop.call_later(LOGIN_S_MAX, self._took_too_long)

    def close(self) -> None:
        """Cancel all timers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def takes(self, frame: bytearray) -> bool:
        """Process a frame of a login, or refuse one that may not pass. Returns False for an ordinary request that may pass."""
        if self._authenticator.is_done and frame[:2] != _HANDSHAKE:
            if self._ends_s is None or self._loop.time() < self._ends_s:
                return False
            self._stats.sessions_expired += 1
            self._connection.abort()  # without an answer, as Kafka does: the client knew when its session ends
            return True
        outcome = self._authenticator.receive(frame)
        if isinstance(outcome, PassOn):
            return False
        api_key = ApiKey.SASL_HANDSHAKE if frame[:2] == _HANDSHAKE else ApiKey.SASL_AUTHENTICATE
        self._follow(outcome, self._connection.open_slot(api_key, len(frame)))
        return True

    def _follow(self, outcome: Outcome, slot: Reply) -> None:
        match outcome:
            case Answer(frame):
                slot((frame,))
            case Work(work):
                self._connection.hold(slot)
                self._connection.begin(self._work(lambda: self._logins.run(work), slot))
            case Waiting(waiting):
                self._connection.hold(slot)
                self._connection.begin(self._work(lambda: self._logins.wait(waiting), slot))
            case Authenticated():
                self._let_in(outcome, slot)
            case Failed():
                self._fail(outcome, slot)

    async def _work(self, work: Callable[[], Awaitable[Step]], slot: Reply) -> None:
        try:
            outcome = self._authenticator.resume(await work())
        except Exception as error:  # noqa: BLE001 a bug must not leave the client waiting
            log.error("login_failed", client=self._connection.host, error=type(error).__name__)
            self._connection.close("its login could not be checked")
            return
        self._follow(outcome, slot)
        if not isinstance(outcome, Failed):
            self._connection.release(slot)

    def _let_in(self, outcome: Authenticated, slot: Reply) -> None:
        self.close()
        self._stats.authentications += 1
        session_s = outcome.session_s
        self._ends_s = None if session_s is None else self._loop.time() + session_s
        self._connection.let_in(outcome.principal, is_token=outcome.is_token, is_for_ever=session_s is None)
        log.debug(
            "client_authenticated",
            principal=outcome.principal,
            mechanism=outcome.mechanism,
            client=self._connection.host,
        )
        slot((outcome.frame,))

    def _fail(self, outcome: Failed, slot: Reply) -> None:
        self.close()
        if not outcome.is_wrong:
            self._refuse(outcome, slot)
            return
        self._stats.authentications_failed += 1
        self._connection.hold(slot)
        self._timer = self._loop.call_later(self._logins.failure_delay_s, self._refuse, outcome, slot)

    def _refuse(self, outcome: Failed, slot: Reply) -> None:
        if outcome.frame is None:
            self._connection.close(outcome.reason)
            return
        self._connection.end_with(slot, outcome.frame, outcome.reason)

    def _took_too_long(self) -> None:
        self._connection.close(f"its login was not done within {LOGIN_S_MAX:g} s")
