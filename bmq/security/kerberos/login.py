"""Our Kerberos credentials, a keytab or a ticket cache, and one login to a server by them (GSSAPI in SASL, RFC 4752).

A step may have to ask the KDC, and the library waits for it: `in_kerberos_thread` is for that.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bmq.security.kerberos.faults import NO_KEYTAB, KerberosFault, LoginParties, LoginSettings, kerberos_fault
from bmq.security.kerberos.library import gssapi_module

KEYTAB_FIRST_BYTE: Final = b"\x05"

_cache_numbers = itertools.count()


class KerberosLogin:
    """`principal`: empty: that of the ticket cache. `keytab`: a path; its tickets are kept in memory. Empty: the ticket cache.

    `settings`: what an operator calls both.
    """

    def __init__(self, principal: str, keytab: str, settings: LoginSettings) -> None:
        self.settings = settings
        self._who = principal or "the ticket cache's user"
        self._where = (
            f"the keytab {keytab}" if keytab else f"the ticket cache {os.environ.get('KRB5CCNAME', '')}".strip()
        )
        self._principal = principal
        self._keytab = keytab
        self._cache = f"MEMORY:bmq-{next(_cache_numbers)}"

    def credentials(self, server: str) -> Any:
        """Fresh ones: used again, they would still count as expired after the library has fetched a new ticket.

        Tickets by the keytab are kept for each server. The library empties what it keeps before it puts a renewed ticket there, and a
        login to another server, in another thread, would find none. Raises KerberosFault, NoGssapi, and GSSError.
        """
        gssapi = gssapi_module()
        name = None
        if self._principal:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        self.check_keytab()
        store = {"client_keytab": self._keytab, "ccache": f"{self._cache}-{server}"} if self._keytab else None
        return gssapi.Credentials(name=name, usage="initiate", store=store)

    def check_keytab(self) -> None:
        """The library takes a file that it cannot read for one without our key. Raises KerberosFault."""
        if not self._keytab:
            return
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
            raise kerberos_fault(reason, self._parties(self.settings.service), self.settings)

    def fault(self, error: Exception, server: str) -> KerberosFault:
        """`error`: a GSSError of a login at `server`."""
        return kerberos_fault(str(error), self._parties(server), self.settings)

    def _parties(self, server: str) -> LoginParties:
        return LoginParties(who=self._who, where=self._where, server=server, is_keytab=bool(self._keytab))


class GssInitiator:
    """One login to the service of `principal`. `server`: for messages.

    `agree`: our answer to the protections that the server offers, each as RFC 4752 has it. `context` protects messages
    afterwards, if that was agreed on.
    """

    def __init__(self, login: KerberosLogin, principal: str, server: str, agree: Callable[[bytes], bytes]) -> None:
        self.context: Any = None
        self.is_complete = False
        self._login = login
        self._principal = principal
        self._server = server
        self._agree = agree

    def step(self, challenge: bytes) -> bytes:
        """The answer to the server's message; the first is empty. Raises KerberosFault, NoGssapi, and what `agree` does."""
        gssapi = gssapi_module()
        try:
            if self.context is None:
                self.context = self._begin(gssapi)
            elif self.context.complete:
                return self._end(challenge)
            return self.context.step(challenge or None) or b""
        except gssapi.exceptions.GSSError as error:
            raise self._login.fault(error, self._server) from error

    def _begin(self, gssapi: Any) -> Any:
        flag = gssapi.RequirementFlag
        return gssapi.SecurityContext(
            name=gssapi.Name(self._principal, gssapi.NameType.kerberos_principal),
            creds=self._login.credentials(self._principal),
            usage="initiate",
            mech=gssapi.MechType.kerberos,
            flags=[flag.mutual_authentication, flag.integrity, flag.confidentiality, flag.out_of_sequence_detection],
        )

    def _end(self, challenge: bytes) -> bytes:
        if self.is_complete:
            raise KerberosFault(f"{self._server} went on with the login after its end")
        answer: bytes = self.context.wrap(self._agree(self.context.unwrap(challenge).message), False).message
        self.is_complete = True
        return answer
