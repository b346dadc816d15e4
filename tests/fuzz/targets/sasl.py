"""A login: frames of a client that has not authenticated, by PLAIN, SCRAM and a delegation token, before and after its end."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import encode_request
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from bmq.protocol.metadata_records import DelegationTokenRecord
from bmq.security.delegation_tokens import TokenMacs
from bmq.security.sasl.authenticator import Answer, Authenticated, Failed, SaslAuthenticator, Work
from bmq.security.sasl.plain import Plain, RightPasswords
from bmq.security.sasl.scram import Scram, ScramSecret
from bmq.security.sasl.scram_keys import BY_NAME, SHA_256, SHA_512
from bmq.security.sasl.steps import Deferred
from bmq.security.sasl.token_keys import TokenKeys
from tests.fuzz.mutation import changed
from tests.fuzz.target import Target
from tests.unit.security.sasl.scram_client import ScramClient, keys

PASSWORD: Final = "open sesame"
USER: Final = "alice"
SCRAM_USER: Final = "bob,=é"
_NONCE: Final = "servernonce"
_SECRET: Final = bytes(32)
_FRAMES_MAX: Final = 30
_KEYS: Final = {name: keys(SCRAM_USER, PASSWORD, mechanism) for name, mechanism in BY_NAME.items()}
_USERS: Final = {SCRAM_USER: {made.mechanism: made for made in _KEYS.values()}}
_FRAME_LENGTH_BYTES: Final = 2
_NOW_MS: Final = 1_000_000
_TOKEN: Final = "token-id"
_OWNER: Final = "dora"
_MACS: Final = TokenMacs("secret")
_TOKEN_PASSWORD: Final = base64.b64encode(_MACS.of(_TOKEN)).decode()
_TOKENS: Final = {
    name: DelegationTokenRecord(
        owner=f"User:{_OWNER}",
        requester=f"User:{_OWNER}",
        renewers=(),
        issue_timestamp=0,
        max_timestamp=ends_ms,
        expiration_timestamp=ends_ms,
        token_id=name,
    )
    for name, ends_ms in ((_TOKEN, _NOW_MS + 60_000), ("expired", _NOW_MS - 1))
}
_TOKEN_KEYS: Final = TokenKeys(_MACS, _SECRET)


def _authenticator() -> SaslAuthenticator:
    def scram(name: str) -> Scram:
        def lookup(user: str, is_token: bool) -> ScramSecret | Callable[[], ScramSecret] | None:
            made = _KEYS[name]
            if is_token:
                token = _TOKENS.get(user)
                return None if token is None else _TOKEN_KEYS.secret_of(token, BY_NAME[name], _NOW_MS)
            if user != SCRAM_USER:
                return None
            return ScramSecret(user, made.salt, made.stored_key, made.server_key, made.iterations)

        return Scram(BY_NAME[name], lookup, _NONCE, _SECRET)

    mechanisms: dict[str, Any] = {
        "PLAIN": lambda: Plain({USER: PASSWORD}, _USERS, RightPasswords(_SECRET), _SECRET),
        SHA_256.name: lambda: scram(SHA_256.name),
        SHA_512.name: lambda: scram(SHA_512.name),
    }
    elapsed_s = iter(range(0, 1000, 2))
    return SaslAuthenticator(mechanisms, lambda name: 1000, lambda: _NOW_MS, lambda: float(next(elapsed_s)))


def check(data: bytes) -> bool:
    """Each frame behind its int16 length. A login ends as one of two users, with its password, or as a token's owner."""
    authenticator, principals, frames = _authenticator(), set(), _frames(data)
    for frame in frames:
        outcome = authenticator.receive(bytearray(frame))
        while isinstance(outcome, Work):
            outcome = authenticator.resume(outcome.work())
        if isinstance(outcome, Authenticated):
            users = [USER, SCRAM_USER] if b"tokenauth=true" not in data else [USER, SCRAM_USER, _OWNER]
            assert outcome.principal in [f"User:{user}" for user in users], f"it is {outcome.principal!r}"
            assert outcome.mechanism != "PLAIN" or PASSWORD.encode() in data, "a login without the password"
            principals.add(outcome.principal)
        shown = outcome.frame if isinstance(outcome, Answer | Authenticated | Failed) else b""
        assert PASSWORD.encode() not in (shown or b""), "the password is sent back"
        if isinstance(outcome, Failed):
            assert "\n" not in outcome.reason, "the reason is no line for a log"
            break
    assert len(principals) <= 1, "the principal changed"
    return bool(principals)


def _frames(data: bytes) -> list[bytes]:
    frames: list[bytes] = []
    place = 0
    while place + _FRAME_LENGTH_BYTES <= len(data) and len(frames) < _FRAMES_MAX:
        begin = place + _FRAME_LENGTH_BYTES
        place = begin + int.from_bytes(data[place:begin], "big")
        frames.append(data[begin:place])
    return frames


def seeds() -> Iterator[bytes]:
    for version in (0, 1, 2):
        for user in (USER, SCRAM_USER, "carol"):
            yield _joined(_login("PLAIN", [f"\0{user}\0{PASSWORD}".encode()], version))
            yield _joined(_login("PLAIN", [f"{user}\0{user}\0{PASSWORD}".encode()], version))
        for mechanism in (SHA_256, SHA_512):
            yield _joined(_login(mechanism.name, _scram_tokens(mechanism.name), version))
            yield _joined(_login(mechanism.name, _scram_tokens(mechanism.name, ",tokenauth=true,x=y"), version))
            for name in (*_TOKENS, SCRAM_USER):
                tokens = _scram_tokens(mechanism.name, ",tokenauth=true", name, _TOKEN_PASSWORD)
                yield _joined(_login(mechanism.name, tokens, version))
    twice = _login("PLAIN", [f"\0{USER}\0{PASSWORD}".encode()], 2)
    yield _joined([*twice, *twice[1:]])
    yield _joined([*twice, *_login(SHA_256.name, _scram_tokens(SHA_256.name), 2)[1:]])
    raw = [_request(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest(mechanism="PLAIN"))]
    yield _joined([*raw, f"\0{USER}\0{PASSWORD}".encode()])
    yield _joined([_request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="GSSAPI"))])


def _scram_tokens(name: str, extensions: str = "", user: str = SCRAM_USER, password: str = PASSWORD) -> list[bytes]:
    client = ScramClient(user, password, BY_NAME[name], extensions)
    mechanism = _authenticator()._mechanisms[name]()
    challenge: Any = mechanism.step(client.first())
    while isinstance(challenge, Deferred):
        challenge = challenge.work()
    return [client.first(), client.last(challenge.data)]


def _login(mechanism: str, tokens: Sequence[bytes], version: int) -> list[bytes]:
    software = ApiVersionsRequest(client_software_name="fuzz", client_software_version="1")
    return [
        _request(ApiKey.API_VERSIONS, 3, software),
        _request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism)),
        *(_request(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token)) for token in tokens),
    ]


def _request(api_key: ApiKey, version: int, message: Any) -> bytes:
    return encode_request(api_key, version, 7, "client", message)


def _joined(frames: Sequence[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(_FRAME_LENGTH_BYTES, "big") + frame for frame in frames)


_PARTS: Final = (b"n,,", b"y,,", b"p=x,,", b"n=", b",r=", b"=2C", b"=3D", b"\0", b",p=", b"biws", b",m=", b"n,a=bob,")


def mutate(data: bytes, dice: Random) -> bytes:
    """A frame changed, left out, or sent twice; or a token changed inside a right frame."""
    frames = _frames(data)
    if not frames:
        return _joined(_login("PLAIN", [f"\0{USER}\0{PASSWORD}".encode()], 1))
    place = dice.randrange(len(frames))
    match dice.randrange(5):
        case 0:
            del frames[place]
        case 1:
            frames.insert(place, dice.choice(frames))
        case 2:
            frames[place] = changed(frames[place], dice, _PARTS)
        case _:
            name = dice.choice(("PLAIN", SHA_256.name, SHA_512.name))
            if name == "PLAIN":
                tokens = [f"\0{USER}\0{PASSWORD}".encode()]
            elif dice.randrange(2):
                tokens = _scram_tokens(name)
            else:
                tokens = _scram_tokens(name, ",tokenauth=true", _TOKEN, _TOKEN_PASSWORD)
            number = dice.randrange(len(tokens))
            tokens[number] = changed(tokens[number], dice, _PARTS)
            frames = _login(name, tokens, dice.randrange(3))
    return _joined(frames)


TARGET: Final = Target("sasl", seeds, check, ("bmq.security.sasl",), mutate)
