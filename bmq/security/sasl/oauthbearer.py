"""OAUTHBEARER (RFC 7628): one message with a token; a refused token is answered by JSON first, and the client says \\x01.

Extensions are looked at for their form, and otherwise ignored, as no part of bmq uses them.
Sources: KIP-255, OAuthBearerSaslServer and OAuthBearerClientInitialResponse of Apache Kafka (4.3).
"""

from __future__ import annotations

import re
from typing import Final

from bmq.security.bearer import BearerRefused, BearerUnavailable
from bmq.security.oauth.verifier import SessionVerifier
from bmq.security.sasl.steps import Accepted, Awaited, Challenge, Rejected, Step, Unavailable

INVALID_TOKEN: Final = '{"status":"invalid_token"}'
EXTENSIONS_MAX: Final = 100
_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<authorized>[\x01-\x7f]+?))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)+)\x01"
)
_AUTH: Final = re.compile(rb"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9=+/]+)[ \t\r\n]*")
_GIVE_UP: Final = b"\x01"


class OauthBearer:
    """One exchange."""

    def __init__(self, verifier: SessionVerifier) -> None:
        self._verifier = verifier
        self._refused: str | None = None

    def step(self, message: bytes) -> Step:
        """Implements Mechanism.step."""
        if self._refused is not None:
            reason = (
                self._refused if message == _GIVE_UP else f"{self._refused}, and another message than 0x01 followed"
            )
            return Rejected(reason, INVALID_TOKEN)
        parsed = _FIRST.fullmatch(message)
        if parsed is None:
            return Rejected("a first OAUTHBEARER message of another form")
        pairs = [pair.partition(b"=")[::2] for pair in parsed["pairs"].split(b"\x01") if pair]
        names = [name for name, _ in pairs]
        if names.count(b"auth") != 1 or len(set(names)) < len(names) or len(names) > EXTENSIONS_MAX + 1:
            return Rejected("an OAUTHBEARER message without `auth`, with one more of it, or with an extension twice")
        auth = _AUTH.fullmatch(dict(pairs)[b"auth"])
        if auth is None or auth["scheme"].lower() != b"bearer":
            return Rejected("an OAUTHBEARER message whose `auth` is no bearer token")
        token, authorized = auth["token"].decode(), (parsed["authorized"] or b"").decode()
        return Awaited(lambda: self._check(token, authorized))

    async def _check(self, token: str, authorized: str) -> Step:
        try:
            found = await self._verifier.verified(token)
        except BearerUnavailable as error:
            return Unavailable(str(error))
        except BearerRefused as error:
            self._refused = str(error)
            return Challenge(INVALID_TOKEN.encode())
        name = authorized.replace("=2C", ",").replace("=3D", "=")
        if name and name != found.name:
            other = "Authentication failed: Client requested an authorization id that is different from the token's principal name"
            return Rejected("it wants to be another user", other)
        return Accepted(found.name, expires_at_ms=found.expires_at_ms)
