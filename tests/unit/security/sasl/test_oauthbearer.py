"""OAUTHBEARER's messages: forms, the refusal in two steps, and who one may be."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from bmq.security.bearer import BearerRefused, BearerUnavailable
from bmq.security.oauth.verifier import VerifiedBearer
from bmq.security.sasl.oauthbearer import OauthBearer
from bmq.security.sasl.steps import Accepted, Awaited, Challenge, Rejected, Step, Unavailable

pytestmark = pytest.mark.unit


@dataclass
class Fixed:
    """Implements BearerVerifier: the token `good` is alice's."""

    error: Exception | None = None

    async def verify(self, token: str) -> str:
        return (await self.verified(token)).name

    async def verified(self, token: str) -> VerifiedBearer:
        if self.error is not None:
            raise self.error
        if token != "good":
            raise BearerRefused("the token's signature is wrong")
        return VerifiedBearer("alice", 7_000)


def told(message: bytes, error: Exception | None = None) -> tuple[OauthBearer, Step]:
    exchange = OauthBearer(Fixed(error))
    step = exchange.step(message)
    if isinstance(step, Awaited):

        async def work() -> Step:
            return await step.work()

        return exchange, asyncio.run(work())
    return exchange, step


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\1auth=Bearer good\1\1",
        b"n,,\1auth=bEARER  good\1\1",
        b"n,a=alice,\1auth=Bearer good\1\1",
        b"n,,\1auth=Bearer good\1traceId=1 2\1other=x\1\1",
        b"n,,\1first=x\1auth=Bearer good\1\1",
    ],
)
def test_a_good_token_is_its_principal(message: bytes) -> None:
    assert told(message)[1] == Accepted("alice", expires_at_ms=7_000)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        b"n,,\1\1",
        b"n,,\1auth=Bearer good\1",
        b"y,,\1auth=Bearer good\1\1",
        b"p=x,,\1auth=Bearer good\1\1",
        b"n,,\1auth=Basic good\1\1",
        b"n,,\1auth=Bearer\1\1",
        b"n,,\1auth=Bearer a b\1\1",
        b"n,,\1trace=x\1\1",
        b"n,,\1auth=Bearer good\1auth=Bearer other\1\1",
        b"n,,\1auth=Bearer good\1x=1\1x=2\1\1",
        b"n,,\1auth=Bearer good\1x1=1\1\1",
        b"n,,\1auth=Bearer good\1x=\xff\1\1",
        b"n,,\1auth=Bearer good\1" + b"".join(b"x%s=1\1" % (b"y" * n) for n in range(101)) + b"\1",
    ],
)
def test_other_forms_are_refused_at_once(message: bytes) -> None:
    assert isinstance(told(message)[1], Rejected)


@pytest.mark.parametrize("after", [b"\1", b"", b"n,,\1auth=Bearer good\1\1"])
def test_a_refused_token_is_told_first_and_then_final(after: bytes) -> None:
    exchange, first = told(b"n,,\1auth=Bearer bad\1\1")
    assert first == Challenge(b'{"status":"invalid_token"}')
    last = exchange.step(after)
    assert isinstance(last, Rejected) and last.message == '{"status":"invalid_token"}'
    assert "signature is wrong" in last.reason


def test_one_may_not_be_somebody_else_and_without_keys_nothing_is_final() -> None:
    other = told(b"n,a=root,\1auth=Bearer good\1\1")[1]
    assert isinstance(other, Rejected) and "different from the token's principal name" in other.message
    assert told(b"n,,\1auth=Bearer good\1\1", BearerUnavailable("no keys"))[1] == Unavailable("no keys")
