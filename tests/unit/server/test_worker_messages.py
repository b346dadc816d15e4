"""What goes through the pipe between a worker and its supervisor."""

from __future__ import annotations

import select

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers

from bmq.election.zookeeper_wire import SessionKey
from bmq.server.worker_messages import BEAT, PASSWORD_BYTES_MAX, session_message, session_of

pytestmark = pytest.mark.unit

IDS = integers(-(2**63), 2**63 - 1)
PASSWORDS = binary(max_size=PASSWORD_BYTES_MAX)


@given(IDS, PASSWORDS)
def test_a_session_arrives_as_it_was_told(session_id: int, password: bytes) -> None:
    assert session_of(session_message(SessionKey(session_id, password))) == SessionKey(session_id, password)


@pytest.mark.parametrize("message", [BEAT, b"", b"s", b"s1234567", b"x" * 25])
def test_other_messages_tell_of_no_session(message: bytes) -> None:
    assert session_of(message) is None


@given(binary(max_size=300))
def test_whatever_comes_is_no_error(message: bytes) -> None:
    session_of(message)


def test_a_message_is_written_whole_or_not_at_all() -> None:
    longest = session_message(SessionKey(1, b"p" * PASSWORD_BYTES_MAX))
    assert 4 + len(longest) <= select.PIPE_BUF  # 4: in front of each message, for its length


def test_a_password_is_not_shown() -> None:
    key = SessionKey(0x100, b"secret")
    assert "secret" not in f"{key} {key!r}"
