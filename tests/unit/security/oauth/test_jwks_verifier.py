"""Bearer tokens: which are accepted, and what happens when keys change or cannot be read."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
import structlog

from bmq.security.bearer import BearerRefused, BearerUnavailable
from bmq.security.oauth.claims import ClaimRules
from bmq.security.oauth.jwks_verifier import JwksVerifier, KeysNotRead, RefreshTimes
from bmq.security.oauth.key_set import KEYS_MAX, KeySet, WrongKeySet
from tests.unit.controller.controller_lab import on_virtual_time
from tests.unit.security.oauth.issuer import AUDIENCE, ISSUER, Issuer

pytestmark = pytest.mark.unit

NOW_S = 1_700_000_000
RULES = ClaimRules(ISSUER, frozenset({AUDIENCE, "other"}))


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer(NOW_S)


class Source:
    """What keys are read from."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.is_reached = True
        self.reads = 0

    async def read(self) -> bytes:
        self.reads += 1
        await asyncio.sleep(0.01)
        if not self.is_reached:
            raise KeysNotRead("https://keys is not reached")
        return self.issuer.key_set()


def verifier(source: Source, rules: ClaimRules = RULES) -> JwksVerifier:
    return JwksVerifier(source.read, rules, lambda: NOW_S * 1000, RefreshTimes(refresh_s=100))


def judged(issuer: Issuer, token: str, rules: ClaimRules = RULES) -> str:
    return asyncio.run(verifier(Source(issuer), rules).verify(token))


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "ES256"])
def test_tokens_of_the_issuer_name_their_principal(issuer: Issuer, algorithm: str) -> None:
    found = asyncio.run(verifier(Source(issuer)).verified(issuer.token(algorithm, scope="read write")))
    assert (found.name, found.expires_at_ms, found.scopes) == (
        "alice",
        (NOW_S + 300) * 1000,
        frozenset({"read", "write"}),
    )


def unsigned(issuer: Issuer) -> str:
    return jwt.encode(issuer.claims(), None, algorithm="none", headers={"kid": "r1"})  # type: ignore[arg-type]


def by_public_key(issuer: Issuer) -> str:
    """HS256 with the text of the public key as its secret."""

    def part(value: dict[str, Any]) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    signed = part({"alg": "HS256", "typ": "JWT", "kid": "r1"}) + b"." + part(issuer.claims())
    signature = hmac.digest(issuer.public_pem(), signed, hashlib.sha256)
    return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def forged(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    claims = base64.urlsafe_b64encode(json.dumps(issuer.claims(sub="root")).encode()).rstrip(b"=").decode()
    return f"{head}.{claims}.{signature}"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (unsigned, "not signed by an algorithm with public keys"),
        (by_public_key, "not signed by an algorithm with public keys"),
        (forged, "signature is wrong"),
        (lambda one: one.token(headers={"kid": "e1"}), "algorithm is not that of its key"),
        (lambda one: one.token(headers={"kid": "new"}), "a key that its issuer does not publish"),
        (lambda one: one.token(headers={"kid": "k" * 1_001}), "kid is not the name of a key"),
        (lambda one: one.token(headers={"crit": ["exp"]}), "critical extensions|cannot be checked|not a signed"),
        (lambda one: "x", "not a signed JSON Web Token"),
        (lambda one: "a.b.c", "not a signed JSON Web Token"),
        (lambda one: "a" * 16_385, "more than 16384 characters"),
        (lambda one: one.token(exp=NOW_S - 30, iat=NOW_S - 300), "has expired"),
        (lambda one: one.token(exp=None), "claim exp is missing"),
        (lambda one: one.token(exp=10**20), "claim exp is missing, or is not a time"),
        (lambda one: one.token(iat=None), "claim iat is missing"),
        (lambda one: one.token(iat=NOW_S + 31), "issued in the future"),
        (lambda one: one.token(nbf=NOW_S + 31), "does not count yet"),
        (lambda one: one.token(iss=None), "another issuer"),
        (lambda one: one.token(iss="https://evil.example"), "another issuer"),
        (lambda one: one.token(aud=None), "another audience, or for none"),
        (lambda one: one.token(aud=["a", "b"]), "another audience"),
        (lambda one: one.token(aud=[AUDIENCE, {"a": 1}]), "neither a string nor a list"),
        (lambda one: one.token(sub=None), "claim sub is not the name"),
        (lambda one: one.token(sub=" "), "claim sub is not the name"),
        (lambda one: one.token(sub="a" * 1_025), "claim sub is not the name"),
        (lambda one: one.token(scope=["a", "a"]), "claim scope has"),
    ],
)
def test_other_tokens_are_refused(issuer: Issuer, make: Callable[[Issuer], str], reason: str) -> None:
    token = make(issuer)
    with pytest.raises(BearerRefused, match=reason) as refused:
        judged(issuer, token)
    assert token[:40] not in str(refused.value) or len(token) < 10


def test_clocks_may_differ_and_rules_may_be_waived_or_named_otherwise(issuer: Issuer) -> None:
    assert judged(issuer, issuer.token(iat=NOW_S + 29, nbf=NOW_S + 29)) == "alice"
    assert judged(issuer, issuer.token(exp=NOW_S - 29, iat=NOW_S - 300)) == "alice"
    assert judged(issuer, issuer.token(aud=["x", "other"])) == "alice"
    waived = ClaimRules(None, frozenset(), 0, "client_id", "scp")
    assert judged(issuer, issuer.token(iss="any", aud=None, client_id="svc", scp=["a"]), waived) == "svc"


@on_virtual_time
async def test_a_new_key_is_read_once_and_unknown_ones_not_again_for_a_while() -> None:
    source = Source(Issuer(NOW_S))
    one = verifier(source)
    assert await one.verify(source.issuer.token()) == "alice"
    source.issuer.rotate()
    token = source.issuer.token()
    assert await asyncio.gather(*(one.verify(token) for _ in range(20))) == ["alice"] * 20
    assert source.reads == 2
    for number in range(50):
        with pytest.raises(BearerRefused):
            await one.verify(source.issuer.token(headers={"kid": f"made-up-{number}"}))
    assert source.reads == 2
    await asyncio.sleep(10)
    with pytest.raises(BearerRefused):
        await one.verify(source.issuer.token(headers={"kid": "made-up"}))
    assert source.reads == 3


@on_virtual_time
async def test_keys_that_cannot_be_read_are_one_line_and_the_last_ones_stay() -> None:
    source = Source(Issuer(NOW_S))
    source.is_reached = False
    one = verifier(source)
    token = source.issuer.token()
    with structlog.testing.capture_logs() as logs:
        one.start()
        await asyncio.sleep(60)
        with pytest.raises(BearerUnavailable, match="not read yet"):
            await one.verify(token)
        assert [(line["event"], line.get("keys_kept")) for line in logs] == [("bearer_keys_not_read", 0)]
        source.is_reached = True
        await asyncio.sleep(11)
        assert await one.verify(token) == "alice"
        source.is_reached = False
        await asyncio.sleep(120)
        assert await one.verify(token) == "alice"
        with pytest.raises(BearerUnavailable, match="cannot be read again"):
            await one.verify(source.issuer.token(headers={"kid": "new"}))
    assert [line["event"] for line in logs] == ["bearer_keys_not_read", "bearer_keys_read", "bearer_keys_not_read"]
    assert logs[-1]["keys_kept"] == 2
    one.close()
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": 1}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}]}',
        b'{"keys": [{"kty": "RSA", "use": "enc", "kid": "a"}, 7]}',
        b'{"keys": [{"kty": ["RSA"], "kid": "a"}, {"kty": {}, "kid": "b"}]}',
        json.dumps({"keys": [{"kty": "RSA"}] * (KEYS_MAX + 1)}).encode(),
        b"[" * 100_000,
    ],
)
def test_what_is_no_set_of_keys(data: bytes) -> None:
    with pytest.raises(WrongKeySet):
        KeySet.read(data)


def test_a_broken_key_refuses_its_tokens_alone(issuer: Issuer) -> None:
    keys = json.loads(issuer.key_set())["keys"]
    keys[0] = {"kty": "RSA", "kid": keys[0]["kid"], "n": "AQAB"}
    read = KeySet.read(json.dumps({"keys": keys}).encode())
    with pytest.raises(BearerRefused, match="cannot be checked"):
        read.claims_of(issuer.token())
    assert read.claims_of(issuer.token("ES256"))["sub"] == "alice"
