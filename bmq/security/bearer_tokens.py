"""Bearer tokens for the REST API: long random words, of which only a SHA-256 is kept. Decisions only.

A token is `bmq_ID_WORD`. The word has 256 random bits, so that a quick hash is as good as a slow one: nobody can try them
all. ID names the token in lists and logs. The file is one JSON document.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError
from bmq.security.bearer import BearerRefused

PREFIX: Final = "bmq_"
TOKENS_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
USER_CHARACTERS_MAX: Final = 255
_VERSION: Final = 1
_ID_BYTES: Final = 4
_WORD_BYTES: Final = 32
_TOKEN: Final = re.compile(r"bmq_(?P<id>[0-9a-f]{8})_[A-Za-z0-9_-]{43}", re.ASCII)
_ID: Final = re.compile(r"[0-9a-f]{8}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class BadTokenFile(BmqError):
    """The file of tokens cannot be used; the message is one sentence and has no part of a token."""


@dataclass(frozen=True, slots=True)
class KeptToken:
    """`sha256`: of the whole token, in hex. Times are of the wall."""

    token_id: str
    user: str
    sha256: str
    created_ms: int
    expires_ms: int


def new_token(
    user: str, now_ms: int, lifetime_ms: int, taken: Iterable[str], random_bytes: Callable[[int], bytes]
) -> tuple[str, KeptToken]:
    """The token, which nobody can tell again, and what is kept of it. `taken`: ids that are in use."""
    ids = frozenset(taken)
    while (token_id := random_bytes(_ID_BYTES).hex()) in ids:
        pass
    word = base64.urlsafe_b64encode(random_bytes(_WORD_BYTES)).rstrip(b"=").decode()
    token = f"{PREFIX}{token_id}_{word}"
    return token, KeptToken(token_id, user, _digest(token), now_ms, now_ms + lifetime_ms)


def verified_user(tokens: Mapping[str, KeptToken], token: str, now_ms: int) -> str:
    """The user of the token. Raises BearerRefused."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise BearerRefused("a bearer token of another form")
    kept = tokens.get(match["id"])
    if kept is None or not hmac.compare_digest(kept.sha256, _digest(token)):
        raise BearerRefused(f"an unknown or revoked bearer token, {match['id']}")
    if now_ms >= kept.expires_ms:
        raise BearerRefused(f"the bearer token {kept.token_id} of {kept.user} has expired")
    return kept.user


def wrong_user(name: str) -> str | None:
    """Why nobody can be called that; None: it is fine."""
    if not name or len(name) > USER_CHARACTERS_MAX:
        return f"a user's name has 1 to {USER_CHARACTERS_MAX} characters"
    if not name.isprintable() or name != name.strip():
        return "a user's name has printable characters, and no space at its ends"
    return None


def encode_tokens(tokens: Iterable[KeptToken]) -> str:
    """The file, oldest first."""
    rows = [asdict(one) for one in sorted(tokens, key=lambda one: (one.created_ms, one.token_id))]
    return json.dumps({"version": _VERSION, "tokens": rows}, indent=1) + "\n"


def decode_tokens(text: str) -> dict[str, KeptToken]:
    """By id. Raises BadTokenFile, without its name."""
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise BadTokenFile("it is of another release")
        rows = document["tokens"]
        if len(rows) > TOKENS_MAX:
            raise BadTokenFile(f"it has more than {TOKENS_MAX} tokens")
        found = {one.token_id: one for one in map(_token, rows)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadTokenFile("it is not what `bmq token` writes") from None
    if len(found) < len(rows):
        raise BadTokenFile("it has an id twice")
    return found


def _token(row: Any) -> KeptToken:
    one = KeptToken(**row)
    is_right = (
        _ID.fullmatch(one.token_id) is not None
        and _DIGEST.fullmatch(one.sha256) is not None
        and wrong_user(one.user) is None
        and type(one.created_ms) is int
        and type(one.expires_ms) is int
    )
    if not is_right:
        raise ValueError
    return one


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
