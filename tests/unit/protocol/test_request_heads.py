"""Headers that are remembered parse as those that are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.codec import RequestHeader, parse_request_header
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.request_heads import KINDS_MAX, RequestHeads

pytestmark = pytest.mark.unit


def frame_of(api_key: int, api_version: int, correlation_id: int, client_id: bytes | None, rest: bytes) -> bytearray:
    head = api_key.to_bytes(2, "big", signed=True) + api_version.to_bytes(2, "big", signed=True)
    head += correlation_id.to_bytes(4, "big", signed=True)
    head += (-1 if client_id is None else len(client_id)).to_bytes(2, "big", signed=True)
    return bytearray(head + (client_id or b"") + rest)


FRAMES = st.builds(
    frame_of,
    st.sampled_from((0, 1, 8, 18, 68, 999)),
    st.integers(-1, 13),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.sampled_from((b"", b"a", b"ab", b"\xff", b"x" * 300)),
    st.sampled_from((b"", b"\0", b"\0rest", b"\1\0\1x", b"\2\0\1x\0\1yrest")),
) | st.binary(max_size=20).map(bytearray)


def parsed(parse: Callable[[bytearray], RequestHeader], frame: bytearray) -> RequestHeader | None:
    try:
        return parse(frame)
    except MalformedMessage:
        return None


@given(st.lists(FRAMES, max_size=30))
def test_any_requests_of_a_connection(frames: list[bytearray]) -> None:
    heads = RequestHeads()
    for frame in (*frames, *frames):
        header = parsed(heads.parse, frame)
        assert header == parsed(parse_request_header, frame)
        assert header is None or isinstance(header, RequestHeader)


def test_a_peer_that_makes_up_versions_costs_no_memory() -> None:
    heads = RequestHeads()
    for version in range(10 * KINDS_MAX):
        heads.parse(frame_of(999, version, 7, b"client", b""))
        heads.parse(frame_of(18, 3, version, b"x" * 10_000, b"\0"))
    assert heads.count == KINDS_MAX
