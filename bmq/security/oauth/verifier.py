"""What checks the bearer tokens of logins by OAUTHBEARER; the REST API needs less (bmq.security.bearer)."""

from __future__ import annotations

from typing import Protocol

from bmq.dataclass import dataclass
from bmq.security.bearer import BearerVerifier


@dataclass(frozen=True, slots=True)
class VerifiedBearer:
    """`name`: of the principal, without its type. `expires_at_ms`: wall time. `scopes`: as the token has them."""

    name: str
    expires_at_ms: int
    scopes: frozenset[str] = frozenset()


class SessionVerifier(BearerVerifier, Protocol):
    """One for each set of settings."""

    async def verified(self, token: str) -> VerifiedBearer:
        """As `verify`, with the token's end and scopes. Raises BearerRefused, BearerUnavailable."""
