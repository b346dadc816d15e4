"""What a ZooKeeper sends on our own small connection, and the content of the nodes in it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Final

from bmq.election import zookeeper_layout as layout
from bmq.election.election import ControllerClaim, Member, MetadataMark
from bmq.election.zookeeper_wire import (
    ANSWER_BYTES_MAX,
    NoZooKeeper,
    answer_bytes,
    is_closed,
    is_session_given,
    sasl_message,
)
from tests.fuzz.target import Target

_CLAIM: Final = ControllerClaim(1, "10.0.0.1", 9093, 7)
_MEMBER: Final = Member(2, "a1", "é", 9093)
_MARK: Final = MetadataMark(3, 2**63 - 1)
_READERS: Final = (layout.decode_claim, layout.decode_member, layout.decode_mark)


def check(data: bytes) -> bool:
    """The first byte says what it is: an answer, or a node's content."""
    if not data:
        return False
    kind, body = data[0] % 5, data[1:]
    if kind == 0:
        return _is_answer(body)
    if kind == 1:
        epoch = layout.decode_epoch(body)
        assert epoch is None or 0 <= epoch <= layout.EPOCH_MAX
        return epoch is not None
    read = _READERS[kind - 2]
    found = read(body)
    if found is None:
        return False
    assert read(layout.encoded(found)) == found, "it is not kept"
    return True


def _is_answer(body: bytes) -> bool:
    if len(body) < 4:
        return False
    try:
        count = answer_bytes(body[:4])
        assert 0 <= count <= ANSWER_BYTES_MAX
        answer = body[4 : 4 + count]
        is_session_given(answer)
        with suppress(NoZooKeeper):
            assert answer.endswith(sasl_message(answer)), "a message that was not sent"
        return is_closed(answer)
    except NoZooKeeper:
        return False


def seeds() -> Iterator[bytes]:
    given = struct.pack(">iiqi", 0, 6000, 0x1234, 16) + bytes(17)
    login = struct.pack(">iqii", 1, 5, 0, 3) + b"abc"
    for body in (given, login, struct.pack(">iqi", 1, 5, 0), struct.pack(">iqi", 1, 5, -101)):
        yield b"\0" + len(body).to_bytes(4, "big") + body
    yield from (b"\1" + number for number in (b"0", b"17", b"2147483647", b"2147483648", b"-1"))
    for number, value in enumerate((_CLAIM, _MEMBER, _MARK)):
        yield bytes([2 + number]) + layout.encoded(value)  # type: ignore[arg-type]


def mutate(data: bytes, dice: Random) -> bytes:
    """Another JSON value in place of a word."""
    words = (
        b"null",
        b"true",
        b"1e400",
        b"-0",
        b"[]",
        b"{}",
        b'""',
        b"NaN",
        b"9" * 30,
        b"9" * 5000,
        b"[" * 2000,
        b'"\\ud800"',
    )
    place = dice.randrange(len(data) + 1)
    return data[:place] + dice.choice(words) + data[place + dice.randrange(6) :]


TARGET: Final = Target(
    "zookeeper", seeds, check, ("bmq.election.zookeeper_wire", "bmq.election.zookeeper_layout"), mutate
)
