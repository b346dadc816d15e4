"""What decides about a bearer token: a store of tokens of our own, or an authority that signs them."""

from __future__ import annotations

from typing import Protocol

from bmq.protocol.errors import BmqError


class BearerRefused(BmqError):
    """The token is wrong, expired or not ours. Final; the message is for the log and has no part of the token."""


class BearerUnavailable(BmqError):
    """What decides cannot be asked now; the same token may be right later."""


class BearerVerifier(Protocol):
    """Checks tokens; it may be asked about any number of them at once."""

    async def verify(self, token: str) -> str:
        """The user's name, without a type. Raises BearerRefused, BearerUnavailable."""
