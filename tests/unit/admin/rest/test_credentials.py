"""The header Authorization: what it says, or why it cannot be read."""

from __future__ import annotations

import base64

import pytest

from bmq.admin.rest.credentials import Bearer, Password, Unreadable, credentials_of

pytestmark = pytest.mark.unit


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


def test_what_a_header_says() -> None:
    assert credentials_of([(b"accept", b"*/*")]) is None
    assert credentials_of([(b"authorization", basic("alice:a:b"))]) == Password("alice", "a:b")
    assert credentials_of([(b"authorization", basic("ёж:пароль"))]) == Password("ёж", "пароль")
    assert credentials_of([(b"authorization", b"BEARER a.b.c")]) == Bearer("a.b.c")


def test_two_headers_say_nothing() -> None:
    twice = [(b"authorization", basic("alice:a")), (b"authorization", basic("bob:b"))]
    assert credentials_of(twice) == Unreadable("more than one Authorization header")


def test_secrets_are_not_shown() -> None:
    assert "geheim" not in repr(credentials_of([(b"authorization", basic("alice:geheim"))]))
    assert "geheim" not in repr(credentials_of([(b"authorization", b"Bearer geheim")]))
    for wrong in (b"Digest geheim", b"Basic geheim geheim", b"Bearer geheim geheim"):
        found = credentials_of([(b"authorization", wrong)])
        assert isinstance(found, Unreadable)
        assert "geheim" not in found.reason
