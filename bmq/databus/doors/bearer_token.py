"""The bearer token that a door demands, out of a file."""

from __future__ import annotations

import hmac

from bmq.rest_client.login import LoginUnusable, first_line


def token_fault(authorization: str, token_file: str) -> str:
    """Why this `authorization` is refused; empty: it has the token."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token:
        return "the agent demands a bearer token"
    try:
        wanted = first_line(token_file)
    except LoginUnusable:
        return "the agent's own token file cannot be used: see its log"
    return "" if hmac.compare_digest(token.strip().encode(), wanted.encode()) else "the bearer token is wrong"
