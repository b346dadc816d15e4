"""The listeners of the settings, and their certificates. Reads files, connects to nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from bmq.admin.rest.security_settings import RestProtocol
from bmq.cli.doctor.machine import Machine
from bmq.cli.doctor.verdicts.access import Listener
from bmq.cli.doctor.verdicts.certificates import ListenerCertificate
from bmq.security.listeners import REST, ListenerConfig, WrongListeners, listeners_of
from bmq.security.loopback import is_loopback_host
from bmq.server.internode_tls import INTERNAL, mode_of
from bmq.server.settings import Settings, split_address
from bmq.server.tls import TlsFiles, WrongTls, end_of, fault_of, make_context, tls_files

_DAY_S: Final = 86_400.0
_EXPIRED: Final = "expired"


def client_listeners(settings: Settings) -> tuple[ListenerConfig, ...]:
    """Those for Kafka clients; () if the settings cannot be right, which the check of settings tells."""
    try:
        return listeners_of(settings.kafka, split_address(settings.listen), None)
    except WrongListeners:
        return ()


def listeners(settings: Settings, *, is_node: bool) -> list[Listener]:
    """All listeners of a server with these settings. Raises WrongTls."""
    found = []
    for one in client_listeners(settings):
        protocol = one.security.protocol
        has_login = protocol.is_sasl or (
            protocol.is_tls and _asks_for_certificate(settings, one.name, protocol.is_sasl)
        )
        host, port = one.address
        found.append(
            Listener(one.name, f"{host}:{port}", "a client", has_login, protocol.is_tls, is_loopback_host(host))
        )
    is_https = settings.rest_security.protocol == RestProtocol.HTTPS
    asks = is_https and _asks_for_certificate(settings, REST, False)
    host = split_address(settings.rest)[0]
    has_login = bool(settings.rest_security.schemes()) or asks
    found.append(Listener(REST, settings.rest, "an operator", has_login, is_https, is_loopback_host(host)))
    if is_node:
        has_tls = mode_of(settings).has_tls
        host = split_address(settings.internal)[0]
        found.append(Listener(INTERNAL, settings.internal, "a node", has_tls, has_tls, is_loopback_host(host)))
    return found


def certificates(settings: Settings, machine: Machine, *, is_node: bool) -> list[ListenerCertificate]:
    """The certificate of each listener that speaks TLS."""
    wanted = [
        (one.name, _files_of(settings, one.name, one.security.protocol.is_sasl))
        for one in client_listeners(settings)
        if one.security.protocol.is_tls
    ]
    if settings.rest_security.protocol == RestProtocol.HTTPS:
        wanted.append((REST, _files_of(settings, REST, False)))
    if is_node and settings.internode_security.certificate_file:
        wanted.append((INTERNAL, lambda: _internode_files(settings)))
    return [_certificate(name, files, machine) for name, files in wanted]


def _files_of(settings: Settings, name: str, has_own_names: bool) -> Callable[[], TlsFiles]:
    return lambda: tls_files(settings.kafka, name, has_own_names=has_own_names)


def _internode_files(settings: Settings) -> TlsFiles:
    security = settings.internode_security
    trusted = Path(security.ca_file) if security.ca_file else None
    return TlsFiles(INTERNAL, Path(security.certificate_file), trusted, client_auth="required" if trusted else "none")


def _certificate(name: str, files: Callable[[], TlsFiles], machine: Machine) -> ListenerCertificate:
    try:
        found = files()
        context = make_context(found)
        fault = fault_of(found, context)
        end_s = end_of(found, make_context(found))
    except (WrongTls, OSError) as error:
        return ListenerCertificate(name, fault=str(error))
    if end_s is None or (fault and _EXPIRED not in fault):
        return ListenerCertificate(name, fault=fault or "no client could read it")
    return ListenerCertificate(name, (end_s - machine.now_ms() / 1000) / _DAY_S)


def _asks_for_certificate(settings: Settings, name: str, has_own_names: bool) -> bool:
    try:
        return tls_files(settings.kafka, name, has_own_names=has_own_names).client_auth == "required"
    except WrongTls:
        return False  # the check of certificates tells it
