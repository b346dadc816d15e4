"""GSSAPI (RFC 4752): tokens until the context stands, then one message each way about the protection of the connection.

Only `auth` is offered, as Kafka does: nothing is wrapped afterwards. The client's authorization id is not looked at, as
Kafka does not either: stock clients send the service's name there. The context alone proves who the client is.
Sources: RFC 4752; SaslServerCallbackHandler of Apache Kafka (4.3) and the GssKrb5Server of its JDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from bmq.security.kerberos_names import ShortNameRules
from bmq.security.mapping_rules import NoRule
from bmq.security.sasl.steps import Accepted, Awaited, Challenge, Rejected, Step, Unavailable

AUTHENTICATION_ALONE: Final = 1
OFFER: Final = bytes((AUTHENTICATION_ALONE, 0, 0, 0))
"""The layers as bits, and the largest wrapped message in bytes, which is 0 without a layer."""


class GssRefused(Exception):
    """Final: what the client sent proves nothing. The message is for the log."""


class GssUnavailable(Exception):
    """Not final: the fault is ours, or passes. The message is for the log."""


class GssContext(Protocol):
    """The acceptor's side of one context. Its methods may wait for files and raise GssRefused, GssUnavailable."""

    @property
    def is_complete(self) -> bool: ...

    @property
    def initiator(self) -> str:
        """The client's principal, with its realm."""

    @property
    def own_realm(self) -> str:
        """The realm of this machine."""

    def accept(self, token: bytes) -> bytes:
        """The answer to the client's next token; may be empty."""

    def wrap(self, data: bytes) -> bytes:
        """With a checksum, not encrypted."""

    def unwrap(self, message: bytes) -> bytes: ...


RunBlocking = Callable[[Callable[[], Step]], Awaitable[Step]]


class Gssapi:
    """One exchange. `begin` makes its context; `run` runs what may wait in another thread, for a bounded time."""

    def __init__(self, begin: Callable[[], GssContext], rules: ShortNameRules, run: RunBlocking) -> None:
        self._begin = begin
        self._rules = rules
        self._run = run
        self._context: GssContext | None = None
        self._next: Callable[[bytes], Step] = self._agree

    def step(self, message: bytes) -> Step:
        """Implements Mechanism.step."""
        return Awaited(lambda: self._run(lambda: self._advanced(message)))

    def _advanced(self, message: bytes) -> Step:
        try:
            return self._next(message)
        except GssUnavailable as error:
            return Unavailable(str(error))
        except GssRefused as error:
            return Rejected(str(error))

    def _agree(self, token: bytes) -> Step:
        if self._context is None:
            self._context = self._begin()
        answer = self._context.accept(token)
        if not self._context.is_complete:
            return Challenge(answer)
        if not answer:
            return self._offered()
        self._next = self._offer
        return Challenge(answer)

    def _offer(self, message: bytes) -> Step:
        if message:
            return Rejected("a GSSAPI message that goes on after the context is complete")
        return self._offered()

    def _offered(self) -> Step:
        assert self._context is not None
        self._next = self._choice
        return Challenge(self._context.wrap(OFFER))

    def _choice(self, message: bytes) -> Step:
        assert self._context is not None
        choice = self._context.unwrap(message)
        if len(choice) < len(OFFER):
            return Rejected("a GSSAPI message with the choice of a protection that is too short")
        if not choice[0] & AUTHENTICATION_ALONE:
            return Rejected("it wants a protection by GSSAPI, which is not offered: set the client's QOP to auth")
        try:
            return Accepted(self._rules.short_name(self._context.initiator, self._context.own_realm))
        except NoRule as error:
            return Rejected(str(error))
