"""Connections to the cluster's servers that act for one user, for what librdkafka has no call: share groups by records."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Sequence
from typing import Any, Final

from bmq.gateway.credentials import Credentials
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.kafka_login import Exchange, login, mechanism_of
from bmq.gateway.settings import GatewaySettings
from bmq.gateway.status import kafka_failure
from bmq.internode_client.link import Link, LinkLost
from bmq.internode_client.link_tls import LinkTls
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import UnsupportedVersion
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

CONNECT_S: Final = 5.0
CALL_S: Final = 10.0
_PORT: Final = 9092


class KafkaLinks:
    """One connection to each server at most, logged in; a lost one is opened again when it is asked for."""

    def __init__(self, settings: GatewaySettings, credentials: Credentials) -> None:
        self._settings = settings
        self._credentials = credentials
        self._links: dict[tuple[str, int], Link] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}
        self._tls: LinkTls | None = None

    async def any(self) -> Link:
        """To the first server of the bootstrap that answers. Raises GatewayFailed."""
        failure: GatewayFailed | None = None
        for host, port in addresses(self._settings.bootstrap):
            try:
                return await self.to(host, port)
            except GatewayFailed as failed:
                failure = failed
        raise failure or GatewayFailed("UNAVAILABLE", "the setting bootstrap names no server")

    async def to(self, host: str, port: int) -> Link:
        """Raises GatewayFailed."""
        address = (host, port)
        async with self._opening.setdefault(address, asyncio.Lock()):
            link = self._links.get(address)
            if link is not None and link.is_open:
                return link
            try:
                link = await Link.open(
                    host, port, client_id="bmq-gateway", connect_timeout_s=CONNECT_S, tls=self._link_tls()
                )
                self._links[address] = link
                await self._log_in(link)
            except LinkLost as error:
                raise GatewayFailed("UNAVAILABLE", f"the cluster does not answer: {error}") from None
            except UnsupportedVersion as error:
                raise _too_old(error) from None
            except BaseException:
                if link is not None:
                    link.close()
                raise
            return link

    async def call(self, link: Link, api_key: ApiKey, request: Any, *, timeout_s: float = CALL_S) -> Any:
        """Raises GatewayFailed: UNAVAILABLE for a lost connection."""
        try:
            return await link.call(api_key, request, timeout_s=timeout_s)
        except LinkLost as error:
            raise GatewayFailed("UNAVAILABLE", f"the cluster does not answer: {error}") from None
        except UnsupportedVersion as error:
            raise _too_old(error) from None

    def version(self, link: Link, api_key: ApiKey) -> int:
        """The highest version that both sides speak. Raises GatewayFailed, UNIMPLEMENTED."""
        try:
            return link.version(api_key)
        except UnsupportedVersion as error:
            raise _too_old(error) from None

    def _link_tls(self) -> LinkTls | None:
        if not self._settings.security_protocol.endswith("SSL"):
            return None
        if self._tls is None:
            ca = self._settings.cluster_ca
            self._tls = LinkTls(ssl.create_default_context(cafile=None if ca is None else str(ca)), needs_node=False)
        return self._tls

    async def _log_in(self, link: Link) -> None:
        if self._credentials.is_anonymous:
            return
        mechanism = mechanism_of(self._credentials, self._settings.sasl_mechanism)
        shaken = await link.call(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=mechanism), timeout_s=CALL_S)
        if shaken.error_code:
            raise kafka_failure("the login", ErrorCode(shaken.error_code))
        exchange = login(self._credentials, mechanism, secrets.token_urlsafe(24))
        message: bytes | None = next(exchange)
        while message is not None:
            request = SaslAuthenticateRequest(auth_bytes=message)
            answer = await link.call(ApiKey.SASL_AUTHENTICATE, request, timeout_s=CALL_S)
            if answer.error_code:
                raise GatewayFailed("UNAUTHENTICATED", "the cluster refuses this login", "SASL_AUTHENTICATION_FAILED")
            # By a thread: the keys of a password take milliseconds.
            message = await asyncio.to_thread(_next_message, exchange, bytes(answer.auth_bytes))

    async def close(self) -> None:
        for link in self._links.values():
            link.close()
            await link.wait_gone()
        self._links.clear()


def _too_old(error: UnsupportedVersion) -> GatewayFailed:
    return GatewayFailed("UNIMPLEMENTED", f"the cluster is too old for this: {error}", "UNSUPPORTED_VERSION")


def _next_message(exchange: Exchange, answer: bytes) -> bytes | None:
    try:
        return exchange.send(answer)
    except StopIteration:
        return None


def addresses(bootstrap: str) -> Sequence[tuple[str, int]]:
    """(host, port) of each server."""
    found = []
    for server in filter(None, map(str.strip, bootstrap.split(","))):
        host, colon, port = server.rpartition(":")
        named = (host, int(port)) if colon and port.isdigit() else (server, _PORT)
        found.append((named[0].removeprefix("[").removesuffix("]"), named[1]))
    return found
