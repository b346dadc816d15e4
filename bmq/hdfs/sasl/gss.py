"""Logins to HDFS by Kerberos: one login to a server, and the protection of messages after it (see also
bmq.security.kerberos).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bmq.hdfs.authentication import MessageLayer
from bmq.hdfs.errors import AuthenticationRequired
from bmq.hdfs.sasl.kerberos_errors import HDFS_LOGIN, kerberos_error
from bmq.hdfs.sasl.security_layer import chosen_layer, layer_answer
from bmq.hdfs.security import BadSecurity, Protection
from bmq.log.store import StorageUnavailable
from bmq.security.kerberos.faults import KerberosFault
from bmq.security.kerberos.library import KDC_ANSWER_MAX_S, NoGssapi, gssapi_module, in_kerberos_thread
from bmq.security.kerberos.login import GssInitiator, KerberosLogin

T = TypeVar("T")


def hdfs_login(principal: str, keytab: str) -> KerberosLogin:
    """The Kerberos login of this process. `principal`, `keytab`: of HadoopSecurity."""
    return KerberosLogin(principal, keytab, HDFS_LOGIN)


def require_gssapi() -> None:
    """Raises BadSecurity with the command that installs the package."""
    try:
        gssapi_module()
    except NoGssapi as error:
        raise BadSecurity(f"this HDFS demands Kerberos, and {error}") from error


class GssMechanism:
    """One login to the service `server_principal`. `server`: its name in error messages."""

    def __init__(
        self, login: KerberosLogin, server_principal: str, *, wanted: Sequence[Protection], server: str
    ) -> None:
        self._login = login
        self._initiator = GssInitiator(login, server_principal, server, self._agree)
        self._server_principal = server_principal
        self._wanted = tuple(wanted)
        self._server = server
        self._agreed = Protection.AUTHENTICATION
        self._peer_bytes_max = 0
        self.layer: MessageLayer | None = None

    @property
    def is_complete(self) -> bool:
        return self._initiator.is_complete

    async def step(self, challenge: bytes) -> bytes:
        """The answer to the server's message. Raises AuthenticationRequired, StorageUnavailable (no KDC answers)."""
        try:
            return await _in_thread(lambda: self._step(challenge), self._server_principal, self._server)
        except KerberosFault as fault:
            raise kerberos_error(fault) from fault

    def _step(self, challenge: bytes) -> bytes:
        answer = self._initiator.step(challenge)
        if self._initiator.is_complete and self._agreed is not Protection.AUTHENTICATION:
            context, is_sealed = self._initiator.context, self._agreed is Protection.PRIVACY
            try:
                bytes_max = context.get_wrap_size_limit(self._peer_bytes_max, is_sealed)
            except gssapi_module().exceptions.GSSError as error:
                raise self._login.fault(error, self._server) from error
            self.layer = GssLayer(context, is_sealed=is_sealed, bytes_max=bytes_max)
        return answer

    def _agree(self, offer: bytes) -> bytes:
        self._agreed, self._peer_bytes_max = chosen_layer(offer, self._wanted, self._server)
        return layer_answer(self._agreed)


class GssLayer:
    """Protects messages after the login. It needs no KDC, and keeps working after the ticket has expired."""

    def __init__(self, context: Any, *, is_sealed: bool, bytes_max: int) -> None:
        self._context = context
        self._is_sealed = is_sealed
        self._error = gssapi_module().exceptions.GSSError
        self.bytes_max = max(1, bytes_max)

    def wrap(self, data: bytes | bytearray | memoryview) -> bytes:
        wrapped: bytes = self._context.wrap(bytes(data), self._is_sealed).message
        return wrapped

    def unwrap(self, message: bytes | bytearray | memoryview) -> bytes:
        try:
            unwrapped = self._context.unwrap(bytes(message))
        except self._error as error:
            raise AuthenticationRequired("a message was changed in transit, or is out of order") from error
        if self._is_sealed and not unwrapped.encrypted:
            raise AuthenticationRequired("a message was not encrypted")
        data: bytes = unwrapped.message
        return data


async def login_name(login: KerberosLogin, server: str) -> str:
    """Our principal with its realm, as the keytab or the ticket cache has it. Raises as a login to `server` does."""

    def found() -> str:
        try:
            return str(login.credentials(server).name)
        except gssapi_module().exceptions.GSSError as error:
            raise login.fault(error, server) from error

    try:
        return await _in_thread(found, server, server)
    except KerberosFault as fault:
        raise kerberos_error(fault) from fault


async def _in_thread(work: Callable[[], T], server_principal: str, server: str) -> T:
    try:
        async with asyncio.timeout(KDC_ANSWER_MAX_S):
            return await asyncio.wrap_future(in_kerberos_thread(HDFS_LOGIN.service, server_principal, work))
    except TimeoutError:
        raise StorageUnavailable(f"{server}: no KDC has answered within {KDC_ANSWER_MAX_S:g} s") from None
