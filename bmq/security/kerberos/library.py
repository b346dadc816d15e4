"""MIT's library: whether it is there, and the threads in which servers are logged in to."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from bmq.extras import install_command
from bmq.protocol.errors import BmqError
from bmq.security.kerberos.threads import KerberosThreads

KDC_ANSWER_MAX_S: Final = 30.0

T = TypeVar("T")
_threads: Final = KerberosThreads()


class NoGssapi(BmqError):
    """The package is missing; the message is a clause with the command that installs it."""


def gssapi_module() -> Any:
    """The package. Raises NoGssapi."""
    try:
        import gssapi
    except ImportError as error:
        raise NoGssapi(
            f"the package for it is missing ({error}): install libkrb5 with its headers and a C compiler (Debian:"
            f" libkrb5-dev gcc), then: {install_command('kerberos')}"
        ) from error
    return gssapi


def in_kerberos_thread(service: str, server: str, work: Callable[[], T]) -> Future[T]:
    """Run what may have to ask the KDC, and wait for it, in a thread, for each server one call at a time.

    `service`: as LoginSettings has it. (The first messages of two contexts for one server that are made in one microsecond
    would count as a replay, too.)
    """
    return _threads.submit(service, server, work)
