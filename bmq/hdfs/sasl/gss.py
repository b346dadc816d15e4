"""Kerberos by MIT's libkrb5 (the package gssapi, extra `kerberos`): tickets, contexts, protected messages.

A context may need a ticket from the KDC, and libkrb5 blocks meanwhile. So all such calls run in one thread, one at a time. (Also,
the first messages of two contexts made in the same microsecond would look like a replay to the server.)
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from bmq.extras import install_command
from bmq.hdfs.authentication import MessageLayer
from bmq.hdfs.errors import AuthenticationRequired
from bmq.hdfs.sasl.kerberos_errors import NO_KEYTAB, kerberos_error
from bmq.hdfs.sasl.security_layer import chosen_layer, layer_answer
from bmq.hdfs.security import BadSecurity, Protection
from bmq.log.store import StorageUnavailable

KDC_ANSWER_MAX_S: Final = 30.0
KEYTAB_FIRST_BYTE: Final = b"\x05"

T = TypeVar("T")
_cache_numbers = itertools.count()


def gssapi_module() -> Any:
    """Import the package gssapi. Raises BadSecurity, which names the command that installs it."""
    try:
        import gssapi
    except ImportError as error:
        raise BadSecurity(
            f"this HDFS demands Kerberos, and the package for it is missing ({error}): install libkrb5 with its headers and"
            f" a C compiler (Debian: libkrb5-dev gcc), then: {install_command('kerberos')}"
        ) from error
    return gssapi


class KerberosLogin:
    """Our identity: `principal` and `keytab` as in HadoopSecurity; without a keytab, the ticket cache.

    Tickets that were obtained with the keytab are kept in memory. `who`, `where`: words for error messages.
    """

    def __init__(self, principal: str, keytab: str) -> None:
        self.who = principal or "the ticket cache's user"
        self.where = (
            f"the keytab {keytab}" if keytab else f"the ticket cache {os.environ.get('KRB5CCNAME', '')}".strip()
        )
        self.is_keytab = bool(keytab)
        self._principal = principal
        self._keytab = keytab
        self._store: dict[str, str] | None = None
        if keytab:
            self._store = {"client_keytab": keytab, "ccache": f"MEMORY:bmq-{next(_cache_numbers)}"}

    def credentials(self) -> Any:
        """New gssapi.Credentials, one for each login: old ones stay expired even after libkrb5 has fetched a new ticket."""
        gssapi = gssapi_module()
        name = None
        if self._principal:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        if self._keytab:
            self._check_keytab()
        return gssapi.Credentials(name=name, usage="initiate", store=self._store)

    def _check_keytab(self) -> None:
        """Check that the keytab can be read: libkrb5 would report an unreadable one as one without our key.

        Raises AuthenticationRequired.
        """
        try:
            with Path(self._keytab).open("rb") as file:
                reason = "" if file.read(1) == KEYTAB_FIRST_BYTE else NO_KEYTAB
        except FileNotFoundError:
            reason = "Key table file is not there"
        except IsADirectoryError:
            reason = NO_KEYTAB
        except OSError as error:
            reason = error.strerror or str(error)
        if reason:
            raise kerberos_error(reason, who=self.who, where=self.where, server="HDFS")


class GssMechanism:
    """One login to the service `server_principal`. `server`: its name in error messages."""

    def __init__(
        self, login: KerberosLogin, server_principal: str, *, wanted: Sequence[Protection], server: str
    ) -> None:
        self._login = login
        self._server_principal = server_principal
        self._wanted = tuple(wanted)
        self._server = server
        self._context: Any = None
        self.layer: MessageLayer | None = None
        self.is_complete = False

    async def step(self, challenge: bytes) -> bytes:
        """The response to the server's message. Raises AuthenticationRequired, StorageUnavailable (no KDC answers)."""
        return await _in_thread(lambda: self._step(challenge), self._server)

    def _step(self, challenge: bytes) -> bytes:
        gssapi = gssapi_module()
        try:
            if self._context is None:
                self._context = self._begin(gssapi)
            elif self._context.complete:
                return self._agree(challenge)
            return self._context.step(challenge or None) or b""
        except gssapi.exceptions.GSSError as error:
            raise kerberos_error(
                str(error),
                who=self._login.who,
                where=self._login.where,
                server=self._server,
                is_keytab=self._login.is_keytab,
            ) from error

    def _begin(self, gssapi: Any) -> Any:
        flag = gssapi.RequirementFlag
        return gssapi.SecurityContext(
            name=gssapi.Name(self._server_principal, gssapi.NameType.kerberos_principal),
            creds=self._login.credentials(),
            usage="initiate",
            mech=gssapi.MechType.kerberos,
            flags=[flag.mutual_authentication, flag.integrity, flag.confidentiality, flag.out_of_sequence_detection],
        )

    def _agree(self, challenge: bytes) -> bytes:
        if self.is_complete:
            raise AuthenticationRequired(f"{self._server} went on with the login after its end")
        offer = self._context.unwrap(challenge).message
        protection, peer_bytes_max = chosen_layer(offer, self._wanted, self._server)
        answer: bytes = self._context.wrap(layer_answer(protection), False).message
        if protection is not Protection.AUTHENTICATION:
            is_sealed = protection is Protection.PRIVACY
            bytes_max = self._context.get_wrap_size_limit(peer_bytes_max, is_sealed)
            self.layer = GssLayer(self._context, is_sealed=is_sealed, bytes_max=bytes_max)
        self.is_complete = True
        return answer


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


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "bmq-kerberos")


async def _in_thread(work: Callable[[], T], server: str) -> T:
    try:
        async with asyncio.timeout(KDC_ANSWER_MAX_S):
            return await asyncio.get_running_loop().run_in_executor(_thread(), work)
    except TimeoutError:
        raise StorageUnavailable(f"{server}: no KDC has answered within {KDC_ANSWER_MAX_S:g} s") from None
