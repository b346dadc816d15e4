"""Whether the REST address carries out Kafka requests for clients without a login."""

from __future__ import annotations

from typing import Final

from bmq.admin.rest.security_settings import RestProtocol
from bmq.security.listeners import REST, config_of, listeners_of
from bmq.server.settings import Settings, split_address

NO_LOGIN: Final = (
    "clients log in at this cluster's listeners, and this address asks for no login: set rest_security.logins (docs/CONFIG.md), "
    "or an authorizer, which decides for User:ANONYMOUS"
)


def why_no_requests(settings: Settings, *, has_authorizer: bool) -> str:
    """Why records, topics and groups are neither shown nor changed here for clients; empty where they are.

    Without this, an address without logins would be a way around the logins of all listeners.
    """
    rest = settings.rest_security
    shows_certificate = (
        rest.protocol == RestProtocol.HTTPS and (config_of(settings.kafka, REST, "ssl.client.auth") or "") == "required"
    )
    if has_authorizer or shows_certificate or rest.schemes():
        return ""
    advertised = split_address(settings.advertised) if settings.advertised else None
    listeners = listeners_of(settings.kafka, split_address(settings.listen), advertised)
    return NO_LOGIN if all(each.security.protocol.is_sasl for each in listeners) else ""
