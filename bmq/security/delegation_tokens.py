"""Delegation tokens: who may ask about them, their secrets (HMACs), and which one has a given HMAC. Decisions only.

Sources: KIP-48, KafkaApis, DelegationTokenControlManager and DelegationTokenManager of Apache Kafka (4.3).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from bmq.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from bmq.protocol.metadata_records import DelegationTokenRecord
from bmq.protocol.request_context import ANONYMOUS
from bmq.security.listener_security import SecurityProtocol

SECRET_KEY: Final = "delegation.token.secret.key"
"""The broker config without which there are no tokens; all nodes need the same value."""
USER_TYPE: Final = "User"

Tokens = Mapping[str, DelegationTokenRecord]
"""By id."""


def may_ask(protocol: SecurityProtocol, principal: str, *, is_token: bool) -> bool:
    """Whether a client of this listener may send requests about tokens: only one that proved who it is, not by a token."""
    if is_token or protocol is SecurityProtocol.PLAINTEXT:
        return False
    return protocol is not SecurityProtocol.SSL or principal != ANONYMOUS


def is_owner_or_renewer(token: DelegationTokenRecord, principal: str) -> bool:
    return principal == token.owner or principal in token.renewers


def owner_of(request: CreateDelegationTokenRequest, requester: str) -> tuple[str, str]:
    """Type and name of whom the token is for. `requester`: TYPE:NAME."""
    if request.owner_principal_name:
        return request.owner_principal_type or "", request.owner_principal_name
    kind, _, name = requester.partition(":")
    return kind, name


def create_refused(
    request: CreateDelegationTokenRequest, requester: str, code: ErrorCode
) -> CreateDelegationTokenResponse:
    """An answer without a token."""
    kind, name = owner_of(request, requester)
    requester_kind, _, requester_name = requester.partition(":")
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
    )


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


class TokenMacs:
    """The HMACs of one secret key, which must not be empty. The record of a token does not have it."""

    def __init__(self, secret_key: str) -> None:
        self._secret = secret_key.encode()
        self._ids: dict[bytes, str] = {}
        self._of: Tokens = {}

    def of(self, token_id: str) -> bytes:
        """64 bytes. In base64 they are the token's password."""
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def find(self, tokens: Tokens, mac: bytes) -> DelegationTokenRecord | None:
        """The token with this HMAC. Only new tokens since the last call cost an HMAC each."""
        if tokens is not self._of:
            known = set(self._ids.values())
            self._ids = {one: token_id for one, token_id in self._ids.items() if token_id in tokens}
            self._ids.update((self.of(token_id), token_id) for token_id in tokens if token_id not in known)
            self._of = tokens
        token_id = self._ids.get(mac)
        return None if token_id is None else tokens[token_id]


def macs_of(secret_key: object) -> TokenMacs | None:
    """None: tokens are switched off."""
    return TokenMacs(str(secret_key)) if secret_key else None
