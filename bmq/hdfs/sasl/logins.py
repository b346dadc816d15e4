"""Logins to Hadoop RPC servers by SASL: with Kerberos (NameNodes, DataNodes), or with a block's token (DataNodes)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from secrets import token_urlsafe
from typing import Protocol

from bmq.hdfs.authentication import SASL_NEGOTIATION, MessageLayer, Negotiation
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.rpc_pb2 import UserInformation
from bmq.hdfs.sasl.digest_md5 import DigestMd5
from bmq.hdfs.sasl.gss import GssMechanism
from bmq.hdfs.sasl.negotiation import KERBEROS, TOKEN, RpcNegotiation
from bmq.hdfs.security import HadoopSecurity, Protection, check_service, service_principal
from bmq.security.kerberos.login import KerberosLogin

CNONCE_BYTES: int = 24


class _Mechanism(Protocol):
    @property
    def is_complete(self) -> bool: ...

    @property
    def layer(self) -> MessageLayer | None: ...

    async def step(self, challenge: bytes) -> bytes: ...


class KerberosAuthentication:
    """Implements bmq.hdfs.authentication.Authentication by Kerberos. The ticket names the user, so we send no user name."""

    def __init__(self, security: HadoopSecurity, login: KerberosLogin, *, datanode_host: str = "") -> None:
        """`datanode_host`: the DataNode's host name; empty if the server is a NameNode."""
        self._security = security
        self._login = login
        self._datanode_host = datanode_host

    @property
    def first_byte(self) -> int:
        return SASL_NEGOTIATION

    @property
    def user_information(self) -> UserInformation:
        return UserInformation()

    async def negotiate(self, negotiation: Negotiation) -> MessageLayer | None:
        server = self._datanode_host or negotiation.host
        agreement = RpcNegotiation(server, KERBEROS)
        challenge = agreement.take(await negotiation.exchange(agreement.first()))
        offered = f"{agreement.protocol}/{agreement.server_id}"
        if self._datanode_host:
            principal = service_principal(self._security.datanode_principal, self._datanode_host)
        else:
            check_service(self._security, offered, negotiation.host)
            realm = self._security.realm
            principal = f"{offered}@{realm}" if realm else offered
        mechanism = GssMechanism(self._login, principal, wanted=self._security.rpc, server=server)
        return await _login(negotiation, agreement, mechanism, challenge)


class TokenAuthentication:
    """Implements bmq.hdfs.authentication.Authentication by DIGEST-MD5 with a token.

    `wanted`: protections, in order of preference.
    """

    def __init__(self, token: Token, wanted: Sequence[Protection]) -> None:
        self._token = token
        self._wanted = tuple(wanted)

    @property
    def first_byte(self) -> int:
        return SASL_NEGOTIATION

    @property
    def user_information(self) -> UserInformation:
        return UserInformation()

    async def negotiate(self, negotiation: Negotiation) -> MessageLayer | None:
        agreement = RpcNegotiation(negotiation.host, TOKEN)
        challenge = agreement.take(await negotiation.exchange(agreement.first()))
        digest = DigestMd5(
            b64encode(self._token.identifier).decode(),
            b64encode(self._token.password).decode(),
            service=agreement.protocol,
            host=agreement.server_id,
            wanted=self._wanted,
            cnonce=token_urlsafe(CNONCE_BYTES),
        )
        return await _login(negotiation, agreement, _Digest(digest), challenge)


class _Digest:
    """DigestMd5 with an asynchronous `step`, as _login calls it; it never waits."""

    def __init__(self, digest: DigestMd5) -> None:
        self._digest = digest

    @property
    def is_complete(self) -> bool:
        return self._digest.is_complete

    @property
    def layer(self) -> MessageLayer | None:
        return self._digest.layer

    async def step(self, challenge: bytes) -> bytes:
        return self._digest.step(challenge)


async def _login(
    negotiation: Negotiation, agreement: RpcNegotiation, mechanism: _Mechanism, challenge: bytes
) -> MessageLayer | None:
    """Exchange messages until the login is complete; returns the layer for later messages. `challenge`: in the server's offer."""
    while not agreement.is_content:
        reply = agreement.reply(await mechanism.step(challenge))
        challenge = agreement.take(await negotiation.exchange(reply))
    if challenge and not mechanism.is_complete:
        await mechanism.step(challenge)
    agreement.check_end(is_mechanism_complete=mechanism.is_complete)
    return mechanism.layer
