"""Whether a token's claims let somebody in, and whom. Decisions only.

The signature was checked before. Claims are those of RFC 7519; which are demanded follows BrokerJwtValidator of Apache
Kafka (4.3), but issuer and audience are demanded unless they were waived by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.security.bearer import BearerRefused
from bmq.security.oauth.verifier import VerifiedBearer

NAME_CHARS_MAX: Final = 1_024
SCOPES_MAX: Final = 1_000
_SECONDS_MAX: Final = 2**53 / 1000


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """`issuer`, `audiences`: one of them has to be the token's; None, and empty: waived. `skew_s`: between clocks."""

    issuer: str | None
    audiences: frozenset[str]
    skew_s: int = 30
    sub_claim: str = "sub"
    scope_claim: str = "scope"


def verified(claims: Mapping[str, Any], rules: ClaimRules, now_ms: int) -> VerifiedBearer:
    """Raises BearerRefused."""
    now_s = now_ms / 1000
    expires_s = _seconds(claims, "exp")
    issued_s = _seconds(claims, "iat")
    if expires_s + rules.skew_s <= now_s:
        raise BearerRefused("the token has expired")
    if issued_s - rules.skew_s > now_s:
        raise BearerRefused("the token was issued in the future: compare the clocks")
    if expires_s <= issued_s:
        raise BearerRefused("the token ends before it was issued")
    if "nbf" in claims and _seconds(claims, "nbf") - rules.skew_s > now_s:
        raise BearerRefused("the token does not count yet: compare the clocks")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise BearerRefused("the token is of another issuer, or names none")
    if rules.audiences and rules.audiences.isdisjoint(_strings(claims, "aud")):
        raise BearerRefused("the token is for another audience, or for none")
    name = claims.get(rules.sub_claim)
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARS_MAX:
        raise BearerRefused(f"the claim {rules.sub_claim} is not the name of a principal")
    return VerifiedBearer(name, int(expires_s * 1000), _scopes(claims, rules.scope_claim))


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _SECONDS_MAX:
        raise BearerRefused(f"the claim {name} is missing, or is not a time")
    return float(value)


def _strings(claims: Mapping[str, Any], name: str) -> list[str]:
    """A claim that is one string, or a list of strings."""
    value = claims.get(name, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise BearerRefused(f"the claim {name} is neither a string nor a list of strings")
    return values


def _scopes(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    value = claims.get(name)
    scopes = value.split() if isinstance(value, str) else _strings(claims, name)
    if len(scopes) > SCOPES_MAX or len(set(scopes)) < len(scopes) or not all(one.strip() for one in scopes):
        raise BearerRefused(f"the claim {name} has an empty scope, one twice, or more than {SCOPES_MAX}")
    return frozenset(scopes)
