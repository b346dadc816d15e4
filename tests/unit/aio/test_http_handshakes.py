"""Requests of httpx that may be cancelled: each closes the connection of its TLS handshake."""

from __future__ import annotations

import pytest

from testing.processes import REPOSITORY

pytestmark = pytest.mark.unit


def test_every_client_of_httpx_closes_its_handshakes() -> None:
    """What each of them does then: tests/unit/server/test_silent_tls.py."""
    texts = {path.relative_to(REPOSITORY): path.read_text() for path in (REPOSITORY / "bmq").rglob("*.py")}
    clients = {str(path): text for path, text in texts.items() if "httpx.AsyncClient(" in text}
    assert len(clients) >= 6
    assert [path for path, text in clients.items() if '"trace": closing_handshakes()' not in text] == []
