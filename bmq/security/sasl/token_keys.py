"""SCRAM keys of delegation tokens, derived at a token's first login by a mechanism.

Kafka derives them at every broker when a token is made; a derivation takes milliseconds, and most tokens log in at few
nodes. The iterations and the password are Kafka's (DelegationTokenManager): base64 of the token's HMAC.
"""

from __future__ import annotations

import base64
import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from bmq.protocol.metadata_records import DelegationTokenRecord
from bmq.security.delegation_tokens import TokenMacs, is_expired
from bmq.security.sasl.scram import ScramSecret
from bmq.security.sasl.scram_keys import ITERATIONS_MIN, SALT_BYTES, ScramKeys, ScramMechanism, keys_of, salted_password

REMEMBERED_MAX: Final = 10_000
"""Derived keys; the oldest ones are forgotten first."""


class TokenKeys:
    """`secret`: random bytes of this process, for salts.

    Several threads may derive: each step on the dictionary is atomic, and a lost one costs a derivation only.
    """

    def __init__(self, macs: TokenMacs, secret: bytes, remembered_max: int = REMEMBERED_MAX) -> None:
        self._macs = macs
        self._secret = secret
        self._remembered_max = remembered_max
        self._known: OrderedDict[tuple[str, int], ScramKeys] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def secret_of(
        self, token: DelegationTokenRecord, mechanism: ScramMechanism, now_ms: int
    ) -> ScramSecret | Callable[[], ScramSecret] | None:
        """What the token logs in with, or what takes milliseconds to find it. None: it has expired."""
        if is_expired(token, now_ms):
            return None
        keys = self._known.get((token.token_id, mechanism.number))
        if keys is None:
            return lambda: self._secret_with(token, mechanism, self._derive(token, mechanism))
        return self._secret_with(token, mechanism, keys)

    def _salt(self, token: DelegationTokenRecord) -> bytes:
        return hmac.digest(self._secret, token.token_id.encode(), "sha256")[:SALT_BYTES]

    def _derive(self, token: DelegationTokenRecord, mechanism: ScramMechanism) -> ScramKeys:
        password = base64.b64encode(self._macs.of(token.token_id))
        keys = keys_of(mechanism, salted_password(mechanism, password, self._salt(token), ITERATIONS_MIN))
        self._known[token.token_id, mechanism.number] = keys
        if len(self._known) > self._remembered_max:
            self._known.popitem(last=False)
        return keys

    def _secret_with(self, token: DelegationTokenRecord, mechanism: ScramMechanism, keys: ScramKeys) -> ScramSecret:
        owner = token.owner.partition(":")[2]
        ends_ms = min(token.max_timestamp, token.expiration_timestamp)
        return ScramSecret(
            owner,
            self._salt(token),
            keys.stored_key,
            keys.server_key,
            ITERATIONS_MIN,
            is_token=True,
            expires_at_ms=ends_ms,
        )
