"""The threads that check passwords: PBKDF2 takes milliseconds, which the event loop must not wait for."""

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
from bmq.security.listener_security import ListenerSecurity
from bmq.security.oauth.jwks_verifier import JwksVerifier
from bmq.security.sasl.steps import Step
from bmq.server.bearer_keys import bearer_verifier

THREADS_MAX: Final = 2
"""hashlib gives up the interpreter's lock meanwhile, so two of them use two processors."""

_log = structlog.get_logger("bmq.cli")


class LoginThreads:
    """Threads begin with the first login that needs one. `bearer`: what checks tokens of OAUTHBEARER, ended with them."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self.bearer: JwksVerifier | None = None

    async def run(self, work: Callable[[], Step]) -> Step:
        """What the work returns."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS_MAX, "bmq-logins")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Take no more work; what is under way ends by itself."""
        if self.bearer is not None:
            self.bearer.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def sasl_logins(
    threads: LoginThreads, image: Callable[[], MetadataImage], clock: Clock, configs: BrokerConfigs
) -> SaslLogins:
    """What a listener with SASL needs; it costs nothing where there is none. Raises InvalidConfig for OAUTHBEARER's."""
    delay_ms = configs.number("connection.failed.authentication.delay.ms")
    macs = macs_of(configs.value_of(SECRET_KEY))
    threads.bearer = bearer = bearer_verifier(configs, clock)
    if bearer is not None:
        bearer.start()
    return SaslLogins(image, clock, threads.run, failure_delay_ms=delay_ms, token_macs=macs, bearer=bearer)


def warn_of_clear_passwords(security: ListenerSecurity) -> None:
    """A line about logins on a listener without TLS: who sees the network sees what is sent."""
    if security.protocol.is_sasl and not security.protocol.is_tls:
        _log.warning(
            "logins_without_tls",
            listener=security.name,
            mechanisms=",".join(sorted(security.mechanisms)),
            see="docs/CONFIG.md",
        )
