"""OAUTHBEARER: a client's message, the JSON Web Token in it, and the set of keys that it is checked by."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm

from bmq.security.bearer import BearerRefused
from bmq.security.oauth.claims import ClaimRules, verified
from bmq.security.oauth.key_set import KeySet, UnknownKey, WrongKeySet
from bmq.security.oauth.verifier import VerifiedBearer
from bmq.security.sasl.oauthbearer import OauthBearer
from bmq.security.sasl.steps import Accepted, Awaited, Rejected, Step
from tests.fuzz.mutation import changed
from tests.fuzz.target import Target

_MESSAGE, _TOKEN, _KEYS = range(3)
_ISSUER, _AUDIENCE, _USER = "https://issuer.example", "bmq", "alice"
_NOW_S: Final = 1_700_000_000
_RULES: Final = ClaimRules(_ISSUER, frozenset({_AUDIENCE}))
_SIGNER: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
"""Its signatures repeat, as seeds have to."""
_CURVE: Final = derive_private_key(7, SECP256R1()).public_key()
_PUBLISHED: Final[Mapping[str, Any]] = {
    "keys": [
        {**OKPAlgorithm.to_jwk(_SIGNER.public_key(), as_dict=True), "kid": "k"},
        {**ECAlgorithm.to_jwk(_CURVE, as_dict=True), "kid": "e", "use": "sig", "alg": "ES256"},
        {"kty": "RSA", "kid": "r", "e": "AQAB", "n": base64.urlsafe_b64encode(bytes([255] * 256)).decode().rstrip("=")},
        {"kty": "oct", "kid": "o", "k": "c2VjcmV0"},
    ]
}
_KEY_SET: Final = KeySet.read(json.dumps(_PUBLISHED).encode())
_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    1e308,
    2**64,
    "",
    " ",
    "none",
    "HS256",
    "ES256",
    "RS256",
    "EdDSA",
    "k",
    "e",
    "r",
    "\x00",
    "é\n",
    "a" * 2_000,
    [],
    ["bmq", 1],
    {},
    {"kty": "OKP"},
    [[[]]],
)


class _Verifier:
    """Implements SessionVerifier without a loop."""

    async def verify(self, token: str) -> str:
        return (await self.verified(token)).name

    async def verified(self, token: str) -> VerifiedBearer:
        return _verified(_KEY_SET, token)


def _verified(keys: KeySet, token: str) -> VerifiedBearer:
    try:
        claims = keys.claims_of(token)
    except UnknownKey:
        raise BearerRefused("an unknown key") from None
    found = verified(claims, _RULES, _NOW_S * 1000)
    assert found.name.strip() and found.expires_at_ms > (_NOW_S - _RULES.skew_s) * 1000, "it is over, or is nobody's"
    return found


def check(data: bytes) -> bool:
    """The first byte says which of the three. A login is believed only with a signature of the key above."""
    if not data:
        return False
    match data[0] % 3, data[1:]:
        case (0, message):
            return _logged_in(message)
        case (1, text):
            return _is_believed(_KEY_SET, text.decode("latin-1"))
        case (_, document):
            try:
                keys = KeySet.read(document)
            except WrongKeySet as error:
                assert str(error) and "\n" not in str(error)
                return False
            assert 0 < len(keys) <= 100
            return _is_believed(keys, _signed(_header(), _claims()), is_ours=False)
    return False


def _logged_in(message: bytes) -> bool:
    mechanism = OauthBearer(_Verifier())
    step = _driven(mechanism.step(message))
    if not isinstance(step, Accepted):
        if not isinstance(step, Rejected):
            step = mechanism.step(b"\x01")
        assert isinstance(step, Rejected) and step.reason and "\n" not in step.reason
        return False
    token = message.split(b"auth=", 1)[1].split(b"\x01")[0].split()[-1].decode()
    _check_signature(token)
    assert step.user == _payload(token)["sub"], "it is another user"
    return True


def _driven(step: Step) -> Step:
    """The check above waits for nobody."""
    if not isinstance(step, Awaited):
        return step
    waiting: Any = step.work()
    try:
        waiting.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the check of a token waits")


def _is_believed(keys: KeySet, token: str, *, is_ours: bool = True) -> bool:
    try:
        _verified(keys, token)
    except BearerRefused as refused:
        assert str(refused) and "\n" not in str(refused)
        return False
    if is_ours:
        _check_signature(token)
    return True


def _check_signature(token: str) -> None:
    signed, _, signature = token.rpartition(".")
    try:
        _SIGNER.public_key().verify(base64.urlsafe_b64decode(signature + "=="), signed.encode())
    except (InvalidSignature, ValueError) as error:
        raise AssertionError("a token with a wrong signature is believed") from error


def _payload(token: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))


def _header(**changed: Any) -> dict[str, Any]:
    return {"alg": "EdDSA", "kid": "k", "typ": "JWT", **changed}


def _claims(**changed: Any) -> dict[str, Any]:
    usual = {"sub": _USER, "iss": _ISSUER, "aud": _AUDIENCE, "iat": _NOW_S, "exp": _NOW_S + 300, "scope": "a b"}
    return {**usual, **changed}


def _signed(header: Mapping[str, Any], claims: object) -> str:
    text = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
    return f"{text}.{_encoded(_SIGNER.sign(text.encode()))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _message(token: str, first: str = "n,,", extensions: str = "") -> bytes:
    return bytes([_MESSAGE]) + f"{first}\x01auth=Bearer {token}\x01{extensions}\x01".encode()


def seeds() -> Iterator[bytes]:
    token = _signed(_header(), _claims())
    yield _message(token)
    yield _message(token, f"n,a={_USER},", "traceId=1\x01")
    yield _message(token, "n,a=bob,")
    yield _message("x.y.z")
    for claims in (_claims(), _claims(aud=["other", _AUDIENCE]), _claims(exp=_NOW_S), _claims(nbf=_NOW_S)):
        yield bytes([_TOKEN]) + _signed(_header(), claims).encode()
    for header in (_header(alg="none"), _header(alg="HS256", kid="o"), _header(alg="ES256", kid="e"), _header(kid="x")):
        yield bytes([_TOKEN]) + _signed(header, _claims()).encode()
    yield bytes([_KEYS]) + json.dumps(_PUBLISHED).encode()
    for one in _PUBLISHED["keys"]:
        yield bytes([_KEYS]) + json.dumps({"keys": [one]}).encode()


def mutate(data: bytes, dice: Random) -> bytes:
    """A header, claims or a key with another value in it; tokens are signed again most of the time."""
    if dice.randrange(3) == 0:
        keys = json.loads(json.dumps(_PUBLISHED))
        one = dice.choice(keys["keys"])
        one[dice.choice([*one, "use", "d", "alg", "key_ops", "x5c"])] = dice.choice(_VALUES)
        made = json.dumps(keys).encode()
        return bytes([_KEYS]) + (made if dice.randrange(2) else changed(made, dice))
    header, claims = _header(), _claims()
    changing = dice.choice((header, claims))
    for _ in range(dice.randint(1, 2)):
        name = dice.choice([*changing, "crit", "b64", "nbf", "jwk", "x5u", "jti"])
        value = dice.choice(_VALUES)
        changing[name] = value
    token = _signed(header, dice.choice((claims, claims, claims, [], "text", 1)))
    if not dice.randrange(4):
        token = changed(token.encode(), dice).decode("latin-1")
    if dice.randrange(2):
        return bytes([_TOKEN]) + token.encode("latin-1")
    first = dice.choice(("n,,", "n,a=alice,", "n,a=al=2Cice,", "y,,", "p=x,,", "n,a=,"))
    message = _message(token, first, dice.choice(("", "a=b\x01", "a=b\x01a=c\x01", "auth=Bearer x\x01")))
    return message if dice.randrange(3) else changed(message, dice)


TARGET: Final = Target(
    "bearer", seeds, check, ("bmq.security.oauth", "bmq.security.sasl.oauthbearer", "bmq.security.bearer"), mutate
)
