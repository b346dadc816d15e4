"""The acceptor's side of GSSAPI, with a context that only counts its messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bmq.security.kerberos_names import ShortNameRules
from bmq.security.sasl.gssapi import OFFER, Gssapi, GssContext, GssRefused, GssUnavailable
from bmq.security.sasl.steps import Accepted, Awaited, Challenge, Rejected, Step, Unavailable

pytestmark = pytest.mark.unit

REALM = "BMQ.TEST"


class Context:
    """Implements GssContext: complete after the answers are given out; "wrapped" messages begin with w."""

    own_realm = REALM

    def __init__(self, answers: list[bytes], initiator: str = f"alice@{REALM}") -> None:
        self.initiator = initiator
        self._answers = answers

    @property
    def is_complete(self) -> bool:
        return not self._answers

    def accept(self, token: bytes) -> bytes:
        if not token.startswith(b"token"):
            raise GssRefused("no token")
        return self._answers.pop(0)

    def wrap(self, data: bytes) -> bytes:
        return b"w" + data

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"w"):
            raise GssRefused("not wrapped")
        return message[1:]


async def at_once(work: Callable[[], Step]) -> Step:
    return work()


async def told(begin: Callable[[], GssContext], *messages: bytes) -> Step:
    """The step after the last message; those before have to be challenges."""
    exchange = Gssapi(begin, ShortNameRules(), at_once)
    for number, message in enumerate(messages):
        awaited = exchange.step(message)
        assert isinstance(awaited, Awaited)
        step = await awaited.work()
        if number < len(messages) - 1:
            assert isinstance(step, Challenge), step
    return step


CHOICE = b"w\x01\0\0\0"


@pytest.mark.parametrize("authorization_id", [b"", b"alice@BMQ.TEST", b"kafka@localhost", b"root"])
async def test_the_context_says_who_it_is_and_the_authorization_id_does_not(authorization_id: bytes) -> None:
    step = await told(lambda: Context([b"mutual"]), b"token", b"", CHOICE + authorization_id)
    assert step == Accepted("alice")


async def test_the_offer_follows_the_last_token_or_an_empty_message_after_it() -> None:
    assert await told(lambda: Context([b""]), b"token") == Challenge(b"w" + OFFER)
    assert await told(lambda: Context([b"one", b"two"]), b"token") == Challenge(b"one")
    assert await told(lambda: Context([b"one", b"two"]), b"token", b"token") == Challenge(b"two")
    assert await told(lambda: Context([b"one", b"two"]), b"token", b"token", b"") == Challenge(b"w" + OFFER)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ((b"garbage",), "no token"),
        ((b"",), "no token"),
        ((b"token", b"more"), "goes on after the context is complete"),
        ((b"token", b"", b"\x01\0\0\0"), "not wrapped"),
        ((b"token", b"", b"w\x01\0\0"), "too short"),
        ((b"token", b"", b"w"), "too short"),
        ((b"token", b"", b"w\x04\0\0\0"), "set the client's QOP to auth"),
        ((b"token", b"", b"w\x00\0\0\0"), "set the client's QOP to auth"),
    ],
)
async def test_what_proves_nothing_is_refused_for_good(messages: tuple[bytes, ...], why: str) -> None:
    step = await told(lambda: Context([b"mutual"]), *messages)
    assert isinstance(step, Rejected) and why in step.reason and not step.message


async def test_a_principal_without_a_rule_is_refused() -> None:
    step = await told(lambda: Context([b""], "eve@OTHER.TEST"), b"token", CHOICE)
    assert isinstance(step, Rejected) and "no rule" in step.reason and "'eve@OTHER.TEST'" in step.reason


async def test_a_fault_of_ours_is_not_final() -> None:
    def begin() -> GssContext:
        raise GssUnavailable("the keytab k cannot be read")

    assert await told(begin, b"token") == Unavailable("the keytab k cannot be read")
