"""The certificate and trust of one listener, taken anew when their files change."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import structlog

from bmq.server.tls import TlsFiles, WrongTls, fault_of, make_context

_log = structlog.get_logger("bmq.server")

T = TypeVar("T")

FILES_LOOK_S: Final = 5.0
"""How often files of certificates, and of tokens, are looked at."""


class RenewedFiles(Generic[T]):
    """`make`: what the files give, for a thread; raises WrongTls, OSError. `use`: takes it for later connections; those that
    are there go on.
    """

    def __init__(self, files: TlsFiles, make: Callable[[TlsFiles], T], use: Callable[[T], None]) -> None:
        self.files = files
        self._make = make
        self._use = use
        self._seen_ns = files.changed_ns

    async def look(self) -> None:
        """Take the files anew if they have changed."""
        if self.files.changed_ns != self._seen_ns:
            await self.renew()

    async def renew(self) -> None:
        """What cannot be used leaves the old ones in force."""
        seen_ns = self.files.changed_ns
        try:
            self._use(await asyncio.to_thread(self._make, self.files))
        except (WrongTls, OSError) as error:
            _log.warning("certificate_not_renewed", listener=self.files.listener, reason=str(error))
        else:
            _log.info("certificate_renewed", listener=self.files.listener)
        self._seen_ns = seen_ns


class ServedCertificate(RenewedFiles[ssl.SSLContext]):
    """The context of one listener."""

    def __init__(self, files: TlsFiles, use: Callable[[ssl.SSLContext], None]) -> None:
        super().__init__(files, _renewed, use)

    def first(self) -> None:
        """Make the context of the start; a line about a certificate that clients will refuse. Raises WrongTls."""
        context = make_context(self.files)
        self._use(context)
        if fault := fault_of(self.files, context):
            _log.warning("certificate_not_valid", listener=self.files.listener, reason=fault)


async def watch(certificates: Sequence[RenewedFiles[Any]]) -> None:
    """Look at all of them until cancelled."""
    while True:
        await asyncio.sleep(FILES_LOOK_S)
        for one in certificates:
            await one.look()


def _renewed(files: TlsFiles) -> ssl.SSLContext:
    """Raises WrongTls, for a certificate that clients will refuse, too: the one in force may be better. OSError."""
    context = make_context(files)
    if fault := fault_of(files, context):
        raise WrongTls(f"listener {files.listener}: {fault}")
    return context
