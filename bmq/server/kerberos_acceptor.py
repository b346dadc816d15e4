"""Logins by Kerberos on a client listener, by MIT's library (the package gssapi, extra `kerberos`).

Its calls may wait for files, so they run in threads of their own. The files are the replay cache and the keytab, which is
read at each login so that a new one needs no restart. No call here asks a KDC.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from bmq.security.kerberos.library import NoGssapi, gssapi_module
from bmq.security.listener_security import KerberosService
from bmq.security.sasl.gssapi import GssRefused, GssUnavailable

_MINOR: Final = re.compile(r"Minor \(\d+\): (.*?)\s*$", re.DOTALL)
_MAJOR: Final = re.compile(r"Major \(\d+\): (.*?), Minor", re.DOTALL)
_NOTHING: Final = "Unknown error"
_TEXT_CHARACTERS_MAX: Final = 300
_CODES_OF_MIT: Final = -1765328384
_PASSING: Final = {_CODES_OF_MIT + number for number in (21, 33, 34)}
"""Client or ticket not yet valid, and a replay, which may be none: Kafka lets clients try again, see its KerberosError."""
_REPLAY_CACHE: Final = range(-1765328225, -1765328211)
"""KRB5_RC_TYPE_EXISTS to KRB5_RC_IO_SPACE: the file that tells replays cannot be used."""
_ADVICE: Final = (
    ("Clock skew too great", "the clock of its machine differs from the one here: set both right"),
    ("keytab", "its ticket is not for a key of {keytab}: have the keytab written anew, or the client get a new ticket"),
    ("key table", "its ticket is not for a key of {keytab}: have the keytab written anew, or the client get a new ticket"),
    ("Ticket expired", "its ticket has expired"),
)  # fmt: skip


class NoKerberos(Exception):
    """Logins by Kerberos cannot be served with these settings; the message is one sentence."""


class KerberosAcceptor:
    """Accepts the logins of one listener."""

    def __init__(self, service: KerberosService) -> None:
        self._service = service

    def check(self) -> None:
        """Check that the package, the keytab and the key are there. Raises NoKerberos."""
        try:
            gssapi_module()
        except NoGssapi as error:
            raise NoKerberos(f"GSSAPI needs Kerberos, and {error}") from error
        try:
            self._credentials()
        except GssUnavailable as error:
            raise NoKerberos(str(error)) from None

    def begin(self) -> MitContext:
        """Begin a login. Raises GssUnavailable: the keytab is missing, unreadable or has no key of the principal."""
        gssapi = gssapi_module()
        try:
            context = gssapi.SecurityContext(creds=self._credentials(), usage="accept")
        except gssapi.exceptions.GSSError as error:
            raise GssUnavailable(_text(error)) from None
        # Else a failed step would return a token, and its error would come with the next call.
        context.__DEFER_STEP_ERRORS__ = False
        return MitContext(context, self._service)

    def _credentials(self) -> Any:
        gssapi = gssapi_module()
        service = self._service
        try:
            with Path(service.keytab).open("rb"):
                pass
        except OSError as error:
            raise GssUnavailable(f"the keytab {service.keytab} cannot be read: {error.strerror}") from None
        try:
            name = gssapi.Name(service.principal, gssapi.NameType.kerberos_principal)
            mechanism = gssapi.MechType.kerberos  # and no other by SPNEGO
            return gssapi.Credentials(name=name, usage="accept", mechs=[mechanism], store={"keytab": service.keytab})
        except gssapi.exceptions.GSSError as error:
            raise GssUnavailable(
                f"the keytab {service.keytab} has no usable key of {service.principal}: {_text(error)}"
            ) from None


class MitContext:
    """Implements bmq.security.sasl.gssapi.GssContext."""

    def __init__(self, context: Any, service: KerberosService) -> None:
        self._context = context
        self._service = service

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        return str(self._context.initiator_name)

    @property
    def own_realm(self) -> str:
        return default_realm()

    def accept(self, token: bytes) -> bytes:
        gssapi = gssapi_module()
        try:
            return self._context.step(token) or b""
        except gssapi.exceptions.GSSError as error:
            raise self._fault(error) from None

    def wrap(self, data: bytes) -> bytes:
        gssapi = gssapi_module()
        try:
            wrapped: bytes = self._context.wrap(data, False).message
        except gssapi.exceptions.GSSError as error:
            raise self._fault(error) from None
        return wrapped

    def unwrap(self, message: bytes) -> bytes:
        gssapi = gssapi_module()
        try:
            data: bytes = self._context.unwrap(message).message
        except gssapi.exceptions.GSSError as error:
            raise self._fault(error) from None
        return data

    def _fault(self, error: Any) -> GssRefused | GssUnavailable:
        return fault_of(int(error.min_code), _text(error), self._service.keytab)


def fault_of(minor: int, said: str, keytab: str) -> GssRefused | GssUnavailable:
    """The error of a failed login. `minor`: the library's code, as a signed or unsigned 32-bit number. `said`: its text."""
    code = (minor & 0xFFFFFFFF) - (1 << 32)
    if code in _PASSING or code in _REPLAY_CACHE:
        return GssUnavailable(said)
    for part, advice in _ADVICE:
        if part.lower() in said.lower():
            return GssRefused(f"{advice.format(keytab=keytab)} ({said})")
    return GssRefused(said)


@cache
def default_realm() -> str:
    """The default realm of krb5.conf; empty if it names none."""
    gssapi = gssapi_module()
    try:
        name = gssapi.Name("nobody", gssapi.NameType.kerberos_principal)
        return str(name.canonicalize(gssapi.MechType.kerberos)).partition("@")[2]
    except gssapi.exceptions.GSSError:
        return ""


def _text(error: Any) -> str:
    """The text as one line. A client may have chosen parts of it."""
    match = _MINOR.search(str(error))
    if match is not None and match[1].startswith(_NOTHING):
        match = _MAJOR.search(str(error))
    text = (match[1] if match else str(error)).partition("\n")[0].strip()
    return text[:_TEXT_CHARACTERS_MAX].encode("unicode_escape").decode()
