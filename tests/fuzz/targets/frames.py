"""A connection's bytes in any pieces: cut into frames, and the frames' heads."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from bmq.protocol.apis import APIS
from bmq.protocol.codec import encode_request, message_format, parse_request_header
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.frames import FrameSplitter, ReceiveBuffer
from bmq.protocol.request_heads import RequestHeads
from tests.fuzz.random_messages import random_message
from tests.fuzz.target import Target

FRAME_BYTES_MAX: Final = 1 << 20
AT_FIRST_MAX: Final = 64
_RECEIVED_MAX: Final = 512
_shared = ReceiveBuffer(_RECEIVED_MAX)


def check(data: bytes) -> bool:
    """The first byte says how the rest is cut. Whole or in pieces, the same frames come out, until one is refused."""
    if not data:
        return False
    piece_bytes, stream = 1 + data[0], data[1:]
    frames, is_refused, held_bytes = _cut(stream, piece_bytes)
    expected, is_refused_at_once, _ = _cut(stream, _RECEIVED_MAX)
    assert (frames, is_refused) == (expected, is_refused_at_once), "it depends on the pieces"
    assert held_bytes <= max(AT_FIRST_MAX, 2 * len(stream)), "a frame that did not come takes memory"
    heads = RequestHeads()
    for frame in frames:
        known = _head(heads, frame)
        assert known == _head(None, frame) == _head(heads, frame), "a remembered head differs"
    return bool(frames) and not is_refused


def _cut(stream: bytes, piece_bytes: int) -> tuple[list[bytes], bool, int]:
    """Frames, whether the stream was refused, and the memory for an incomplete frame."""
    frames: list[bytes] = []
    splitter, place = FrameSplitter(_shared, FRAME_BYTES_MAX, AT_FIRST_MAX), 0
    while place < len(stream):
        room = splitter.get_buffer()
        assert len(room), "no room for the next bytes"
        piece = stream[place : place + min(piece_bytes, len(room))]
        room[: len(piece)] = piece
        place += len(piece)
        try:
            frames += map(bytes, splitter.feed(len(piece)))
        except MalformedMessage:
            # Frames before the bad one in the same piece are not handed out: the connection is closed.
            return [], True, splitter.held_bytes
    return frames, False, splitter.held_bytes


def _head(heads: RequestHeads | None, frame: bytes) -> tuple[object, ...] | None:
    try:
        return parse_request_header(frame) if heads is None else heads.parse(bytearray(frame))
    except MalformedMessage:
        return None


def seeds() -> Iterator[bytes]:
    dice = Random(2)
    for api_key, api in APIS.items():
        version = dice.randint(api.version_min, api.version_max)
        message = random_message(message_format("request", api_key).entity(version), dice)
        name = dice.choice((None, "", "client", "é" * 300))
        frame = encode_request(api_key, version, dice.getrandbits(31), name, message)
        framed = len(frame).to_bytes(4, "big") + frame
        yield bytes([dice.randrange(256)]) + framed * dice.randint(1, 3)


TARGET: Final = Target(
    "frames", seeds, check, ("bmq.protocol.frames", "bmq.protocol.request_heads", "bmq.protocol.codec")
)
