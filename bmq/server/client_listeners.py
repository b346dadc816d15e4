"""The listeners for clients of one process: bound, given their certificates, and kept up to date with their files."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import structlog

from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError
from bmq.proxy.listener_socket import ListenerSocket
from bmq.proxy.listener_view import services_at
from bmq.proxy.server import KafkaServer
from bmq.proxy.services import Services
from bmq.security.listeners import (
    ADVERTISED,
    LISTENERS,
    PLAINTEXT,
    Address,
    ListenerConfig,
    WrongListeners,
    listeners_of,
)
from bmq.server.kerberos_acceptor import KerberosAcceptor, NoKerberos
from bmq.server.login_threads import KERBEROS_S_MAX, warn_of_clear_passwords
from bmq.server.served_certificate import ServedCertificate, watch
from bmq.server.setting_checks import is_any_address, is_loopback
from bmq.server.settings import Settings, split_address
from bmq.server.tls import TlsFiles, principal_by, tls_files

_log = structlog.get_logger("bmq.server")


class WrongListenerSettings(BmqError):
    """Listeners cannot be opened with these settings; the message is one sentence."""


@dataclass(slots=True)
class _Bound:
    config: ListenerConfig
    address: Address
    certificate: ServedCertificate | None

    @property
    def reached_at(self) -> Address:
        return self.config.advertised or self.address


def configured(settings: Settings) -> tuple[ListenerConfig, ...]:
    """The listeners of these settings. Raises WrongListenerSettings."""
    advertised = split_address(settings.advertised) if settings.advertised else None
    try:
        found = listeners_of(settings.kafka, split_address(settings.listen), advertised)
    except WrongListeners as error:
        raise WrongListenerSettings(str(error)) from None
    for one in found:
        where = f"{one.address[0]}:{one.address[1]}"
        if settings.kafka.get(LISTENERS, "").strip() and one.advertised is None and is_any_address(where):
            raise WrongListenerSettings(
                f"listener {one.name} is on all addresses of this machine, to which other machines cannot connect: give it one in "
                f"{ADVERTISED}"
            )
    return found


class ClientListeners:
    """Call `bind`, then `serve`; `watch` until cancelled. Raises WrongListenerSettings."""

    def __init__(self, proxy: KafkaServer, settings: Settings) -> None:
        self._proxy = proxy
        self._settings = settings
        self._configs = configured(settings)
        self._bound: list[_Bound] = []

    async def bind(self) -> Address:
        """Bind all addresses. Returns (host, port) of the listener PLAINTEXT, or of the first if there is no PLAINTEXT.
        Raises OSError, WrongTls.
        """
        for config in self._configs:
            await _require_kerberos(config)
            certificate = None
            listener_socket = ListenerSocket(config.security)
            if config.security.protocol.is_tls:
                files = tls_files(self._settings.kafka, config.name, has_own_names=config.security.protocol.is_sasl)
                certificate = ServedCertificate(files, partial(setattr, listener_socket, "context"))
                certificate.first()
                listener_socket.principal_of = principal_by(files.rules)
            address = await self._proxy.bind(*config.address, listener_socket)
            self._bound.append(_Bound(config, address, certificate))
            _warn_if_open(config, address, None if certificate is None else certificate.files)
            warn_of_clear_passwords(config.security)
        plain = [one for one in self._bound if one.config.name == PLAINTEXT]
        return (plain or self._bound)[0].reached_at

    @property
    def others(self) -> tuple[tuple[str, str, int], ...]:
        """(name, host, port) of all listeners but PLAINTEXT."""
        return tuple((one.config.name, *one.reached_at) for one in self._bound if one.config.name != PLAINTEXT)

    async def serve(self, services: Services) -> None:
        """Accept connections. Raises OSError."""
        for one in self._bound:
            security = one.config.security
            if one.config.name == PLAINTEXT:
                services = replace(services, security=security)
            else:
                self._proxy.listener_sockets[one.config.name].services = services_at(services, security)
        await self._proxy.serve(services)

    async def watch(self) -> None:
        """Reload certificates and trust when their files change, until cancelled. If they are unusable, the old ones stay in
        force.
        """
        await watch([one.certificate for one in self._bound if one.certificate is not None])


async def _require_kerberos(config: ListenerConfig) -> None:
    """Check that clients can log in by GSSAPI. Raises WrongListenerSettings."""
    if config.security.kerberos is None:
        return
    try:
        async with asyncio.timeout(KERBEROS_S_MAX):
            await asyncio.to_thread(KerberosAcceptor(config.security.kerberos).check)
    except NoKerberos as error:
        raise WrongListenerSettings(f"listener {config.name}: {error}") from None
    except TimeoutError:
        raise WrongListenerSettings(
            f"listener {config.name}: the keytab was not read within {KERBEROS_S_MAX:g} s"
        ) from None


def _warn_if_open(config: ListenerConfig, address: Address, files: TlsFiles | None) -> None:
    """Warn about a listener that a network reaches without TLS or logins."""
    if (
        is_loopback(address[0])
        or config.security.protocol.is_sasl
        or (files is not None and files.client_auth == "required")
    ):
        return
    if files is None:
        why = "every client is User:ANONYMOUS; clients are not authenticated and nothing is encrypted"
    else:
        why = "every client without a certificate is User:ANONYMOUS; see ssl.client.auth, or use SASL_SSL"
    _log.warning("listener_is_open", listener=config.name, address=f"{address[0]}:{address[1]}", why=why)
