"""Logins to ZooKeeper by Kerberos: the mechanism that kazoo, or a bare socket, takes SASL's messages from.

What has to ask the KDC happens before a connection is opened. So a KDC that is away costs no session: the connection fails
as if the server were away, and is tried again in the same session. pure-sasl's own GSSAPI needs another library of
Kerberos, so ours stands beside it in its registry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from puresasl.mechanisms import Mechanism, mechanisms

from bmq.security.kerberos.faults import KerberosFault, LoginSettings
from bmq.security.kerberos.library import in_kerberos_thread
from bmq.security.kerberos.login import GssInitiator, KerberosLogin
from bmq.security.kerberos.principals import NoHostName, server_principal

MECHANISM: Final = "BMQ-GSSAPI"
ZOOKEEPER_LOGIN: Final = LoginSettings(
    service="ZooKeeper",
    principal="zookeeper_security.principal",
    keytab="zookeeper_security.keytab",
    server_name="the host name in zookeeper, or zookeeper_security.server_principal",
    server_realm="zookeeper_security.server_principal",
)
_AUTHENTICATION_ALONE: Final = 1
_OFFER_BYTES: Final = 4

# Waits for what the library does in its thread; raises what that raises, TimeoutError, or another OSError.
Wait = Callable[["Future[bytes]"], bytes]


class ZooKeeperKerberos:
    """The logins of one client's connections, one after the other: `begin` before each, then `step` until `is_complete`.

    `principal`: the servers', with `_HOST` for their host. `fault_age_max_s`: how long ago a login may have been given up whose fault is
    told late; for an older one the KDC is asked anew. `fault`: why the last login failed, a sentence; empty if it did not.
    """

    def __init__(
        self,
        login: KerberosLogin,
        principal: str,
        wait: Wait,
        *,
        fault_age_max_s: float,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fault = ""
        self._login = login
        self._principal = principal
        self._wait = wait
        self._fault_age_max_s = fault_age_max_s
        self._now_s = now_s
        self._initiator: GssInitiator | None = None
        self._first = b""
        self._server_principal = ""
        # By principal: what was given up for another server, and when, and goes on. The next try waits for it, and hears what is wrong.
        self._late: dict[str, tuple[GssInitiator, Future[bytes], float]] = {}

    @property
    def is_complete(self) -> bool:
        return self._initiator is not None and self._initiator.is_complete

    def begin(self, host: str) -> None:
        """Make the first message for the server at `host`, as our settings name it. Raises KerberosFault, OSError."""
        self.fault, self._initiator = "", None
        try:
            principal = server_principal(self._principal, host)
        except NoHostName:
            raise KerberosFault(
                f"{self._principal} needs the server's host name: name it in zookeeper instead of the address {host}, or"
                " set zookeeper_security.server_principal"
            ) from None
        self._server_principal = principal
        late = self._late_login(principal)
        if late is None:
            initiator = GssInitiator(self._login, principal, f"ZooKeeper at {host}", authentication_alone)
            late = initiator, self._submitted(initiator, b"")
        initiator, work = late
        try:
            self._first = self._wait(work)
        finally:
            if not work.cancel() and not work.done():
                self._late[principal] = (initiator, work, self._now_s())
        self._initiator = initiator

    def _late_login(self, principal: str) -> tuple[GssInitiator, Future[bytes]] | None:
        """A login that is still worth waiting for, or whose fault is still worth hearing."""
        late = self._late.pop(principal, None)
        if late is None:
            return None
        initiator, work, given_up_s = late
        if work.done():
            # A message is of an earlier try: by now the server may count it as too old. A fault may be mended by now.
            is_old = self._now_s() - given_up_s > self._fault_age_max_s
            if is_old or work.exception() is None:
                return None
        return initiator, work

    def step(self, challenge: bytes | None) -> bytes:
        """Our answer to the server's message; None: ours is the first. Raises KerberosFault, OSError."""
        if self._initiator is None:
            raise KerberosFault("the login to ZooKeeper was not begun")
        first, self._first = self._first, b""
        if first and challenge is None:
            return first
        try:
            work = self._submitted(self._initiator, challenge or b"")
            try:
                return self._wait(work)
            finally:
                work.cancel()
        except KerberosFault as fault:
            self.fault = fault.sentence
            raise

    def _submitted(self, initiator: GssInitiator, challenge: bytes) -> Future[bytes]:
        return in_kerberos_thread(ZOOKEEPER_LOGIN.service, self._server_principal, lambda: initiator.step(challenge))


def authentication_alone(offer: bytes) -> bytes:
    """The answer to a server's offer of protections: none. TLS encrypts, and ZooKeeper wraps nothing. Raises KerberosFault."""
    if len(offer) != _OFFER_BYTES or not offer[0] & _AUTHENTICATION_ALONE:
        raise KerberosFault(
            "ZooKeeper does not offer a login without protection by SASL: set javax.security.sasl.qop=auth there"
        )
    return bytes((_AUTHENTICATION_ALONE, 0, 0, 0))


class _KerberosMechanism(Mechanism):  # type: ignore[misc]
    """As pure-sasl and kazoo want it. `login`: of the client whose connection it is."""

    name = MECHANISM
    uses_plaintext = False

    def __init__(self, sasl: Any, login: ZooKeeperKerberos, **properties: Any) -> None:
        super().__init__(sasl, **properties)
        self._login = login

    def process(self, challenge: bytes | None = None) -> bytes:
        answer = self._login.step(challenge)
        self.complete = self._login.is_complete
        return answer


mechanisms[MECHANISM] = _KerberosMechanism
