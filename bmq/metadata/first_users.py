"""Users for a cluster that has not been started yet: a file in the store's root, read by its first controller.

`first-users.json` has SCRAM keys, no passwords. Only a controller that finds an empty metadata log reads it; later it
has no effect. So whoever may write to the store before the first start decides who may log in, and nobody afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from bmq.log.store import CorruptFile, SegmentStore
from bmq.protocol.errors import BmqError
from bmq.protocol.metadata_records import UserScramCredentialRecord, decode_record, encode_record

FIRST_USERS_FILE: Final = "first-users.json"
_BYTES_MAX: Final = 1 << 20
_VERSION: Final = 1


class FirstUsersUnreadable(BmqError):
    """The file is there and cannot be understood. A start without its users could let nobody in."""


async def write_first_users(store: SegmentStore, users: Iterable[UserScramCredentialRecord], holder: str) -> None:
    """Write the file. Raises AlreadyExists, StoreError."""
    content = {"version": _VERSION, "users": [encode_record(user).hex() for user in users]}
    await store.write_file(FIRST_USERS_FILE, json.dumps(content).encode() + b"\n", holder=holder)


async def read_first_users(store: SegmentStore) -> tuple[UserScramCredentialRecord, ...]:
    """The users of the file; empty without one. Raises FirstUsersUnreadable, StoreError."""
    status = await store.status(FIRST_USERS_FILE)
    if status is None:
        return ()
    try:
        if status.is_open:
            raise ValueError("it is unfinished")
        content = json.loads(await store.read_file(FIRST_USERS_FILE, length_bytes_max=_BYTES_MAX))
        records = tuple(decode_record(bytes.fromhex(text)) for text in content["users"])
        users = tuple(record for record in records if isinstance(record, UserScramCredentialRecord))
        if len(users) != len(records) or content["version"] != _VERSION:
            raise ValueError("it is of another version")
    except (ValueError, KeyError, TypeError, CorruptFile, BmqError) as error:
        raise FirstUsersUnreadable(
            f"{FIRST_USERS_FILE} in the store's root cannot be read ({error}): delete it and run `bmq user bootstrap` again"
        ) from None
    return users
