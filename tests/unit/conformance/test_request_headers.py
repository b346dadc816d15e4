"""What the recording proxy notes of a connection's bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists, tuples

from tests.conformance.clients.recorder import RequestHeaders

pytestmark = pytest.mark.campaign("unit")

REQUESTS = lists(tuples(integers(0, 100), integers(0, 20), binary(max_size=40)), max_size=8)


def frames_of(requests: list[tuple[int, int, bytes]]) -> bytes:
    return b"".join(struct.pack(">ihh", 4 + len(rest), key, version) + rest for key, version, rest in requests)


@given(REQUESTS, integers(1, 60))
def test_every_request_is_noted_once_however_its_bytes_are_cut(
    requests: list[tuple[int, int, bytes]], step: int
) -> None:
    data = frames_of(requests)
    headers = RequestHeaders()
    found = [one for start in range(0, len(data), step) for one in headers.feed(data[start : start + step])]
    assert found == [(key, version) for key, version, _ in requests]


def test_a_length_that_is_too_short_for_a_header_does_not_stop_it() -> None:
    assert RequestHeaders().feed(struct.pack(">ihh", -1, 7, 1)) == [(7, 1)]
