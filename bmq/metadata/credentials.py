"""Users' SCRAM keys and delegation tokens, as the metadata log has them.

An image keeps what `users` and `tokens` return: later changes make new mappings. Both hold secrets: nothing here is
logged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bmq.protocol.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

CredentialRecord = (
    UserScramCredentialRecord | RemoveUserScramCredentialRecord | DelegationTokenRecord | RemoveDelegationTokenRecord
)
Users = Mapping[str, Mapping[int, UserScramCredentialRecord]]
"""SCRAM keys by user and by the mechanism's number (1 SHA-256, 2 SHA-512)."""
Tokens = Mapping[str, DelegationTokenRecord]
"""Delegation tokens by id."""


class Credentials:
    """What the records replayed so far say."""

    __slots__ = ("_are_tokens_changed", "_are_users_changed", "_tokens", "_tokens_seen", "_users", "_users_seen")

    def __init__(self) -> None:
        self._users: dict[str, dict[int, UserScramCredentialRecord]] = {}
        self._tokens: dict[str, DelegationTokenRecord] = {}
        self._users_seen: Users = {}
        self._tokens_seen: Tokens = {}
        self._are_users_changed = self._are_tokens_changed = False

    def take(self, record: CredentialRecord) -> bool:
        """Apply one record; False: it removes what is not there."""
        match record:
            case UserScramCredentialRecord():
                # Images share the inner mappings, so these are never changed.
                self._users[record.name] = {**self._users.get(record.name, {}), record.mechanism: record}
                self._are_users_changed = True
            case RemoveUserScramCredentialRecord():
                keys = dict(self._users.get(record.name, {}))
                if keys.pop(record.mechanism, None) is None:
                    return False
                if keys:
                    self._users[record.name] = keys
                else:
                    del self._users[record.name]
                self._are_users_changed = True
            case DelegationTokenRecord():
                self._tokens[record.token_id] = record
                self._are_tokens_changed = True
            case RemoveDelegationTokenRecord():
                if self._tokens.pop(record.token_id, None) is None:
                    return False
                self._are_tokens_changed = True
        return True

    def users(self) -> Users:
        """For an image: the same object until something changes."""
        if self._are_users_changed:
            self._users_seen, self._are_users_changed = dict(self._users), False
        return self._users_seen

    def tokens(self) -> Tokens:
        """For an image: the same object until something changes."""
        if self._are_tokens_changed:
            self._tokens_seen, self._are_tokens_changed = dict(self._tokens), False
        return self._tokens_seen

    def records(self) -> Iterator[CredentialRecord]:
        """Records that lead to this from nothing."""
        for keys in self._users.values():
            yield from keys.values()
        yield from self._tokens.values()
