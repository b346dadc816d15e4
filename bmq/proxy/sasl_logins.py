"""The objects that all logins at this process share: users, secrets, and the thread that checks passwords."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from bmq.log.clock import Clock
from bmq.metadata.image import MetadataImage
from bmq.security.delegation_tokens import TokenMacs
from bmq.security.listener_security import GSSAPI, OAUTHBEARER, PLAIN, SERVED, KerberosService, ListenerSecurity
from bmq.security.oauth.verifier import SessionVerifier
from bmq.security.sasl.authenticator import SaslAuthenticator
from bmq.security.sasl.oauthbearer import OauthBearer
from bmq.security.sasl.plain import Plain, RightPasswords
from bmq.security.sasl.scram import Scram, ScramSecret
from bmq.security.sasl.scram_keys import BY_NAME, ScramMechanism
from bmq.security.sasl.steps import Deferred, Mechanism, Step, Unavailable
from bmq.security.sasl.token_keys import TokenKeys

WAITING_MAX: Final = 1_000
"""Most logins that wait for the thread; connections of more are closed, and their clients retry."""
FAILURE_DELAY_MS: Final = 100
"""`connection.failed.authentication.delay.ms`: the delay of a failed login's answer, against clients that retry at once."""
_NONCE_BYTES: Final = 24
_WITHOUT_METADATA: Final = frozenset({OAUTHBEARER, GSSAPI})
"""What decides about a login by them is not in the metadata."""

RunBlocking = Callable[[Callable[[], Step]], Awaitable[Step]]


async def at_once(work: Callable[[], Step]) -> Step:
    """Run the work in the caller's thread, for tests and the simulation, which have no threads."""
    return work()


class SaslLogins:
    """Makes authenticators for logins.

    `image`: returns the newest metadata. `run_blocking`: runs work of some milliseconds in a thread of its own. `token_macs`:
    None if logins by delegation tokens are not possible. `bearer`: checks tokens of OAUTHBEARER. `gssapi`: makes an exchange by
    Kerberos as this service.
    """

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        clock: Clock,
        run_blocking: RunBlocking,
        *,
        failure_delay_ms: int = FAILURE_DELAY_MS,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        token_macs: TokenMacs | None = None,
        bearer: SessionVerifier | None = None,
        gssapi: Callable[[KerberosService], Mechanism] | None = None,
    ) -> None:
        self._image = image
        self._clock = clock
        self._run_blocking = run_blocking
        self._random_bytes = random_bytes
        self._secret = random_bytes(32)
        self._right_passwords = RightPasswords(random_bytes(32))
        self._token_keys = None if token_macs is None else TokenKeys(token_macs, random_bytes(32))
        self._bearer = bearer
        self._gssapi = gssapi
        self._waiting = 0
        # Listener -> (the security that its mechanisms were made of, the mechanisms). If that is replaced, they are made anew.
        self._offered: dict[str, tuple[ListenerSecurity, Mapping[str, Callable[[], Mechanism]]]] = {}
        self.failure_delay_s = failure_delay_ms / 1000
        self.is_current: Callable[[], bool] = lambda: True
        """Whether a controller has told this process lately what the metadata is."""

    def authenticator(self, security: ListenerSecurity, loop: asyncio.AbstractEventLoop) -> SaslAuthenticator:
        """A new connection's authenticator."""
        known = self._offered.get(security.name)
        if known is None or known[0] is not security:
            offered = {name: partial(self._mechanism, name, security) for name in sorted(security.mechanisms & SERVED)}
            known = self._offered[security.name] = (security, offered)
        return SaslAuthenticator(known[1], security.session_max_ms, self._clock.now_ms, loop.time, self._is_out_of_date)

    async def check_password(self, jaas_users: Mapping[str, str], user: str, password: str) -> Step:
        """Log in by PLAIN in one step, for protocols other than Kafka's."""
        plain = Plain(jaas_users, self._image().users, self._right_passwords, self._secret)
        step = plain.step(f"\0{user}\0{password}".encode())
        return await self.run(step.work) if isinstance(step, Deferred) else step

    async def run(self, work: Callable[[], Step]) -> Step:
        """Run blocking work in the thread. Returns its step, or Unavailable if WAITING_MAX logins wait."""
        if self._waiting >= WAITING_MAX:
            return Unavailable(f"{self._waiting} logins wait already")
        self._waiting += 1
        try:
            return await self._run_blocking(work)
        finally:
            self._waiting -= 1

    async def wait(self, work: Callable[[], Awaitable[Step]]) -> Step:
        """Await work that waits for other servers. Returns its step, or Unavailable if WAITING_MAX logins wait."""
        if self._waiting >= WAITING_MAX:
            return Unavailable(f"{self._waiting} logins wait already")
        self._waiting += 1
        try:
            return await work()
        finally:
            self._waiting -= 1

    def _is_out_of_date(self, mechanism: str) -> bool:
        return mechanism not in _WITHOUT_METADATA and not self.is_current()

    def _mechanism(self, name: str, security: ListenerSecurity) -> Mechanism:
        if name == PLAIN:
            return Plain(security.jaas_users, self._image().users, self._right_passwords, self._secret)
        if name == OAUTHBEARER:
            assert self._bearer is not None  # a listener with OAUTHBEARER does not start without keys
            return OauthBearer(self._bearer)
        if name == GSSAPI:
            assert self._gssapi is not None and security.kerberos is not None
            return self._gssapi(security.kerberos)
        mechanism = BY_NAME[name]
        nonce = self._random_bytes(_NONCE_BYTES).hex()
        return Scram(mechanism, partial(self._keys, mechanism), nonce, self._secret)

    def _keys(
        self, mechanism: ScramMechanism, name: str, is_token: bool
    ) -> ScramSecret | Callable[[], ScramSecret] | None:
        if is_token:
            token = self._image().delegation_tokens.get(name)
            if token is None or self._token_keys is None:
                return None
            return self._token_keys.secret_of(token, mechanism, self._clock.now_ms())
        one = self._image().users.get(name, {}).get(mechanism.number)
        if one is None:
            return None
        return ScramSecret(one.name, one.salt, one.stored_key, one.server_key, one.iterations)
