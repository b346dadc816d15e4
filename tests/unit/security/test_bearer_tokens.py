"""Tokens of the REST API: what is kept cannot be used as a token, and nothing but a whole, present token is taken."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from bmq.security.bearer import BearerRefused
from bmq.security.bearer_tokens import (
    TOKENS_MAX,
    BadTokenFile,
    KeptToken,
    decode_tokens,
    encode_tokens,
    new_token,
    verified_user,
    wrong_user,
)

pytestmark = pytest.mark.unit


def made(user: str = "scraper", now_ms: int = 1_000, lifetime_ms: int = 500) -> tuple[str, KeptToken]:
    return new_token(user, now_ms, lifetime_ms, (), os.urandom)


def test_a_token_is_its_users_until_it_expires() -> None:
    token, kept = made()
    tokens = {kept.token_id: kept}
    assert verified_user(tokens, token, 1_499) == "scraper"
    with pytest.raises(BearerRefused, match=f"{kept.token_id} of scraper has expired"):
        verified_user(tokens, token, 1_500)


def test_nothing_else_is_taken() -> None:
    token, kept = made()
    other, of_other = made("other")
    tokens = {kept.token_id: kept, of_other.token_id: of_other}
    last = "A" if token[-1] != "A" else "B"
    mixed = token[:13] + other[13:]
    for wrong in (
        "",
        "bmq_",
        token[:-1],
        token[:-1] + last,
        token + "A",
        " " + token,
        token.upper(),
        mixed,
        kept.sha256,
    ):
        with pytest.raises(BearerRefused) as refused:
            verified_user(tokens, wrong, 1_000)
        assert token[13:] not in str(refused.value)
    with pytest.raises(BearerRefused, match="unknown or revoked"):
        verified_user({of_other.token_id: of_other}, token, 1_000)


def test_a_file_keeps_tokens_and_no_secret() -> None:
    both = [made(), made("ёж")]
    text = encode_tokens(kept for _, kept in both)
    assert decode_tokens(text) == {kept.token_id: kept for _, kept in both}
    assert not any(token[13:] in text for token, _ in both)
    assert not any(token[13:] in repr(kept) for token, kept in both)


def test_a_new_token_has_an_id_of_its_own() -> None:
    answers = iter((b"\0\0\0\1", b"\0\0\0\2", b"w" * 32))
    _, kept = new_token("alice", 0, 1, {"00000001"}, lambda count: next(answers))
    assert kept.token_id == "00000002"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not what `bmq token` writes"),
        ("[" * 100_000, "it is not what `bmq token` writes"),
        ("[]", "it is not what `bmq token` writes"),
        ('{"version": 1}', "it is not what `bmq token` writes"),
        ('{"version": 2, "tokens": []}', "it is of another release"),
        ('{"version": 1, "tokens": [{"token_id": 1}]}', "it is not what `bmq token` writes"),
        (json.dumps({"version": 1, "tokens": [0] * (TOKENS_MAX + 1)}), f"it has more than {TOKENS_MAX} tokens"),
    ],
)
def test_another_file_is_refused_as_a_whole(text: str, why: str) -> None:
    with pytest.raises(BadTokenFile, match=f"^{why}$"):
        decode_tokens(text)


def test_no_row_of_another_form_is_taken() -> None:
    _, kept = made()
    wrong_rows = [
        replace(kept, token_id="xyz"),
        replace(kept, sha256=kept.sha256[1:]),
        replace(kept, user="a\nb"),
        replace(kept, expires_ms=True),
    ]
    for row in wrong_rows:
        with pytest.raises(BadTokenFile):
            decode_tokens(encode_tokens([row]))
    with pytest.raises(BadTokenFile, match="twice"):
        decode_tokens(encode_tokens([kept, kept]))


def test_names_of_users() -> None:
    assert wrong_user("alice") is wrong_user("CN=a b,O=c") is None
    for name in ("", "a\n", " a", "a\x1b[31m", "x" * 256):
        assert wrong_user(name) is not None
