"""The certificate and trust of one listener, reloaded when their files change."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import structlog

from bmq.security.certificate_changes import CertificateNames, change_fault
from bmq.server.tls import TlsFiles, WrongTls, fault_of, make_context, names_of

_log = structlog.get_logger("bmq.server")

T = TypeVar("T")

FILES_CHECK_INTERVAL_S: Final = 5.0
"""How often files of certificates, and of tokens, are looked at."""


class RenewedFiles(Generic[T]):
    """`make`: reads the files, in a thread; raises WrongTls, OSError. `use`: receives the result for later connections. Open
    connections keep what they have.
    """

    def __init__(self, files: TlsFiles, make: Callable[[TlsFiles], T], use: Callable[[T], None]) -> None:
        self.files = files
        self._make = make
        self._use = use
        self._seen_ns = files.changed_ns

    async def reload_if_changed(self) -> None:
        """Reload the files if they have changed."""
        if self.files.changed_ns != self._seen_ns:
            await self.renew()

    async def renew(self) -> None:
        """Reload the files. If they are unusable, the old ones stay in force."""
        seen_ns = self.files.changed_ns
        try:
            self._use(await asyncio.to_thread(self._make, self.files))
        except (WrongTls, OSError) as error:
            _log.warning("certificate_not_renewed", listener=self.files.listener, reason=str(error))
        else:
            _log.info("certificate_renewed", listener=self.files.listener)
        self._seen_ns = seen_ns


class _Made(NamedTuple):
    """A context, and the names in its certificate; None if no client could read it."""

    context: ssl.SSLContext
    names: CertificateNames | None


class ServedCertificate(RenewedFiles[_Made]):
    """The TLS context of one listener. A new certificate with other names is used where the settings allow that."""

    def __init__(self, files: TlsFiles, use: Callable[[ssl.SSLContext], None]) -> None:
        self._names: CertificateNames | None = None
        self._use_context = use
        super().__init__(files, self._renewed, self._install)

    def first(self) -> None:
        """Make the first context; warn about a certificate that clients will refuse. Raises WrongTls, OSError."""
        context = make_context(self.files)
        fault = fault_of(self.files, context)
        self._install(_Made(context, names_of(self.files, context)))
        if fault:
            _log.warning("certificate_not_valid", listener=self.files.listener, reason=fault)

    def _install(self, made: _Made) -> None:
        self._names = made.names
        self._use_context(made.context)

    def _renewed(self, files: TlsFiles) -> _Made:
        """The new context. Raises OSError, and WrongTls also for a certificate that clients will refuse: the one in force may
        be better.
        """
        context = make_context(files)
        fault = fault_of(files, context)
        names = names_of(files, context)
        if not fault and self._names is not None and names is not None:
            fault = change_fault(
                self._names, names, allows_dn=files.allows_dn_changes, allows_san=files.allows_san_changes
            )
        if fault:
            raise WrongTls(f"listener {files.listener}: {fault}")
        return _Made(context, names)


async def watch(certificates: Sequence[RenewedFiles[Any]]) -> None:
    """Reload changed files of all of them, until cancelled."""
    while True:
        await asyncio.sleep(FILES_CHECK_INTERVAL_S)
        for one in certificates:
            await one.reload_if_changed()
