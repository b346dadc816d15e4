"""What checks a bearer token: the port that logins by OAUTHBEARER and the REST API use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bmq.protocol.errors import BmqError


class BearerRefused(BmqError):
    """The token is wrong: the message is one sentence for the server's log, and has nothing of the token's signature."""


class BearerUnavailable(BmqError):
    """The token cannot be judged now, because there are no keys: the client may try again."""


@dataclass(frozen=True, slots=True)
class VerifiedBearer:
    """`name`: of the principal, without its type. `expires_at_ms`: wall time. `scopes`: as the token has them."""

    name: str
    expires_at_ms: int
    scopes: frozenset[str] = frozenset()


class BearerVerifier(Protocol):
    """One for each set of settings."""

    async def verify(self, token: str) -> str:
        """The name of the token's principal, without its type. Raises BearerRefused, BearerUnavailable."""

    async def verified(self, token: str) -> VerifiedBearer:
        """The same, with the token's end and scopes. Raises BearerRefused, BearerUnavailable."""
