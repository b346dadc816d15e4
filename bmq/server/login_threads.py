"""Threads for logins, so that no event loop waits: PBKDF2 takes milliseconds, and Kerberos's library reads files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from bmq.log.clock import Clock
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.proxy.sasl_logins import SaslLogins
from bmq.security.delegation_tokens import SECRET_KEY, macs_of
from bmq.security.listener_security import KerberosService, ListenerSecurity
from bmq.security.oauth.jwks_verifier import JwksVerifier
from bmq.security.sasl.gssapi import Gssapi
from bmq.security.sasl.steps import Step, Unavailable
from bmq.server.bearer_keys import bearer_verifier
from bmq.server.kerberos_acceptor import KerberosAcceptor

THREADS_MAX: Final = 2
"""hashlib gives up the interpreter's lock meanwhile, so two of them use two processors."""

KERBEROS_THREADS_MAX: Final = 2
KERBEROS_S_MAX: Final = 10.0
"""For one message of a login by Kerberos, with its turn; a login in all has 15 s."""

_log = structlog.get_logger("bmq.cli")


class LoginThreads:
    """Threads start with the first login that needs one. `bearer`: the check of OAUTHBEARER tokens, closed with the threads."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._kerberos: ThreadPoolExecutor | None = None
        self.bearer: JwksVerifier | None = None

    async def run(self, work: Callable[[], Step]) -> Step:
        """Run `work` in a thread. Returns its result."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS_MAX, "bmq-logins")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def run_kerberos(self, work: Callable[[], Step]) -> Step:
        """Run `work` in a thread for Kerberos. Returns its result, or Unavailable after KERBEROS_S_MAX. Other logins do not
        wait for these threads.
        """
        if self._kerberos is None:
            self._kerberos = ThreadPoolExecutor(KERBEROS_THREADS_MAX, "bmq-kerberos-logins")
        try:
            async with asyncio.timeout(KERBEROS_S_MAX):
                return await asyncio.get_running_loop().run_in_executor(self._kerberos, work)
        except TimeoutError:
            return Unavailable(f"Kerberos's library has not answered within {KERBEROS_S_MAX:g} s")

    def close(self) -> None:
        """Accept no more work. Work under way ends by itself."""
        if self.bearer is not None:
            self.bearer.close()
        for threads in (self._threads, self._kerberos):
            if threads is not None:
                threads.shutdown(wait=False, cancel_futures=True)


def sasl_logins(
    threads: LoginThreads, image: Callable[[], MetadataImage], clock: Clock, configs: BrokerConfigs
) -> SaslLogins:
    """The logins that listeners with SASL need; no thread runs without such a listener. Raises InvalidConfig for
    OAUTHBEARER's configs.
    """
    delay_ms = configs.number("connection.failed.authentication.delay.ms")
    macs = macs_of(configs.value_of(SECRET_KEY))
    threads.bearer = bearer = bearer_verifier(configs, clock)
    if bearer is not None:
        bearer.start()

    def gssapi(service: KerberosService) -> Gssapi:
        return Gssapi(KerberosAcceptor(service).begin, service.rules, threads.run_kerberos)

    return SaslLogins(
        image, clock, threads.run, failure_delay_ms=delay_ms, token_macs=macs, bearer=bearer, gssapi=gssapi
    )


def warn_of_clear_passwords(security: ListenerSecurity) -> None:
    """Warn about logins on a listener without TLS: the network sees the passwords."""
    if security.protocol.is_sasl and not security.protocol.is_tls:
        _log.warning(
            "logins_without_tls",
            listener=security.name,
            mechanisms=",".join(sorted(security.mechanisms)),
            see="docs/CONFIG.md",
        )
