"""PLAIN (RFC 4616): a password in clear text, checked against the listener's JAAS line or the users' SCRAM keys.

A user of the JAAS line has only that password. All others are checked by the PBKDF2 of their SCRAM keys, some
milliseconds in another thread; passwords that were right are remembered as an HMAC with a secret of this process.
Words of PlainSaslServer of Apache Kafka (4.3).
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from bmq.protocol.metadata_records import UserScramCredentialRecord
from bmq.security.sasl.scram_keys import BY_NUMBER, ITERATIONS_MIN, keys_of, salted_password
from bmq.security.sasl.steps import Accepted, Deferred, Rejected, Step

REMEMBERED_MAX: Final = 10_000
"""Users and passwords that were right; the one not used for longest is forgotten first."""
MESSAGE_BYTES_MAX: Final = 4_096
_INVALID: Final = "Authentication failed: Invalid username or password"
_PARTS: Final = 3
_NO_KEYS: Final[Mapping[int, UserScramCredentialRecord]] = {}


class RightPasswords:
    """Remembers logins that succeeded. `secret`: random bytes of this process.

    Several threads may call it: each of its steps on the dictionary is atomic, and a lost one costs a PBKDF2 only.
    """

    def __init__(self, secret: bytes, remembered_max: int = REMEMBERED_MAX) -> None:
        self._secret = secret
        self._remembered_max = remembered_max
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def is_known(self, password: bytes, keys: UserScramCredentialRecord) -> bool:
        """Whether this password was right for just these keys."""
        digest = self._digest(password, keys)
        try:
            self._known.move_to_end(digest)
        except KeyError:
            return False
        return True

    def remember(self, password: bytes, keys: UserScramCredentialRecord) -> None:
        self._known[self._digest(password, keys)] = None
        if len(self._known) > self._remembered_max:
            self._known.popitem(last=False)

    def _digest(self, password: bytes, keys: UserScramCredentialRecord) -> bytes:
        # The stored key stands for user, salt and iterations: with a new password it is another one.
        return hmac.digest(self._secret, keys.stored_key + keys.name.encode() + b"\0" + password, "sha256")


class Plain:
    """One exchange: `jaas_users` are names and passwords, `users` the SCRAM keys."""

    def __init__(
        self,
        jaas_users: Mapping[str, str],
        users: Mapping[str, Mapping[int, UserScramCredentialRecord]],
        right: RightPasswords,
        secret: bytes,
    ) -> None:
        self._jaas_users = jaas_users
        self._users = users
        self._right = right
        self._secret = secret

    def step(self, message: bytes) -> Step:
        """Implements Mechanism.step."""
        if len(message) > MESSAGE_BYTES_MAX:
            return Rejected(f"a PLAIN message of {len(message)} bytes", _INVALID)
        try:
            parts = bytes(message).decode().split("\0")
        except UnicodeDecodeError:
            return Rejected("a PLAIN message that is not UTF-8", _INVALID)
        if len(parts) != _PARTS:
            why = f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}"
            return Rejected(why, why)
        authorized, user, password = parts
        if not user:
            return Rejected("no user name", "Authentication failed: username not specified")
        if not password:
            return Rejected("no password", "Authentication failed: password not specified")
        if authorized and authorized != user:
            why = "Authentication failed: Client requested an authorization id that is different from username"
            return Rejected("it wants to be another user", why)
        expected = self._jaas_users.get(user)
        if expected is None:
            return self._by_keys(user, password.encode())
        if hmac.compare_digest(expected.encode(), password.encode()):
            return Accepted(user)
        return _wrong(user)

    def _by_keys(self, user: str, password: bytes) -> Step:
        keys = self._users.get(user, _NO_KEYS)
        known = [one for number, one in sorted(keys.items()) if number in BY_NUMBER]
        if any(self._right.is_known(password, one) for one in known):
            return Accepted(user)

        def check() -> Step:
            if not known:
                # As long as for a user with keys: the time must not tell who exists.
                salted_password(
                    BY_NUMBER[1], password, hmac.digest(self._secret, user.encode(), "sha256"), ITERATIONS_MIN
                )
                return _wrong(user)
            right = [one for one in known if _is_right(password, one)]
            if not right:
                return _wrong(user)
            self._right.remember(password, right[0])
            return Accepted(user)

        return Deferred(check)


def _is_right(password: bytes, keys: UserScramCredentialRecord) -> bool:
    mechanism = BY_NUMBER[keys.mechanism]
    salted = salted_password(mechanism, password, keys.salt, keys.iterations)
    return hmac.compare_digest(keys_of(mechanism, salted).stored_key, keys.stored_key)


def _wrong(user: str) -> Rejected:
    return Rejected(f"a wrong password, or no such user as {user[:100]!r}", _INVALID)
