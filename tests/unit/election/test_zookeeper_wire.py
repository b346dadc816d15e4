"""Frames of ZooKeeper's protocol, beside kazoo's."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers
from kazoo.protocol.serialization import SASL, CloseInstance, Connect, int_struct

from bmq.election.zookeeper_wire import (
    ANSWER_BYTES_MAX,
    LENGTH,
    NoZooKeeper,
    SessionKey,
    answer_bytes,
    close_request,
    connect_request,
    is_closed,
    is_session_given,
    sasl_message,
    sasl_request,
)

pytestmark = pytest.mark.unit


@given(integers(-(2**63), 2**63 - 1), binary(max_size=40), integers(1, 2**31 - 1))
def test_requests_are_kazoos(session_id: int, password: bytes, timeout_ms: int) -> None:
    connect = bytes(Connect(0, 0, timeout_ms, session_id, password, False).serialize())
    assert connect_request(SessionKey(session_id, password), timeout_ms) == int_struct.pack(len(connect)) + connect
    close = int_struct.pack(1) + int_struct.pack(CloseInstance.type) + bytes(CloseInstance.serialize())
    assert close_request() == int_struct.pack(len(close)) + close


@given(binary(max_size=300))
def test_messages_of_logins_are_kazoos(message: bytes) -> None:
    sasl = int_struct.pack(1) + int_struct.pack(SASL.type) + bytes(SASL(message).serialize())
    assert sasl_request(message) == int_struct.pack(len(sasl)) + sasl
    assert sasl_message(struct.pack(">iqii", 1, 77, 0, len(message)) + message) == message


def test_a_login_goes_on_ends_or_is_refused() -> None:
    assert sasl_message(struct.pack(">iqii", 1, 77, 0, -1)) == b""
    for code in (-115, -124, 5):
        with pytest.raises(NoZooKeeper, match="does not accept our login"):
            sasl_message(struct.pack(">iqii", 1, 77, code, -1))
    with pytest.raises(NoZooKeeper, match="does not accept our login"):
        sasl_message(struct.pack(">iqi", 1, 77, -115))
    for length, message in ((3, b"ab"), (-1, b"a"), (-2, b""), (2**31 - 1, b""), (0, b"a")):
        with pytest.raises(NoZooKeeper, match="another protocol"):
            sasl_message(struct.pack(">iqii", 1, 77, 0, length) + message)
    with pytest.raises(NoZooKeeper, match="another protocol"):
        sasl_message(struct.pack(">iqi", 1, 77, 0))


@pytest.mark.parametrize(
    ("timeout_ms", "session_id", "is_given"), [(4000, 7, True), (4000, -7, True), (0, 0, False), (-1, 7, False)]
)
def test_a_session_is_given_or_refused(timeout_ms: int, session_id: int, is_given: bool) -> None:
    assert is_session_given(struct.pack(">iiqi16s?", 0, timeout_ms, session_id, 16, bytes(16), False)) == is_given
    assert is_session_given(struct.pack(">iiqi16s", 0, timeout_ms, session_id, 16, bytes(16))) == is_given  # before 3.4


def test_a_session_is_closed_or_not() -> None:
    assert is_closed(struct.pack(">iqi", 1, 77, 0))
    assert not is_closed(struct.pack(">iqi", 1, 77, -112)) and not is_closed(struct.pack(">iqi", 2, 77, 0))


@given(binary(max_size=60))
def test_whatever_is_answered_is_understood_or_none_of_zookeepers(answer: bytes) -> None:
    with suppress(NoZooKeeper):
        is_session_given(answer)
    with suppress(NoZooKeeper):
        is_closed(answer)
    with suppress(NoZooKeeper):
        sasl_message(answer)


@given(binary(min_size=LENGTH.size, max_size=LENGTH.size))
def test_no_length_makes_us_wait_for_much(length: bytes) -> None:
    with suppress(NoZooKeeper):
        assert 0 <= answer_bytes(length) <= ANSWER_BYTES_MAX
