"""ShareFetch answers in pieces are those of the message's codec, and hold the records' own buffers."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, encode
from bmq.protocol.hot_parts import LeaderHint, NodeEndpoint
from bmq.protocol.share_state_messages import AcquiredRange
from bmq.protocol.turns import at_once
from bmq.proxy.share.fetch_response import ShareResult, empty_share_fetch, encode_share_fetch

pytestmark = pytest.mark.unit

A, B = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize("version", [1, 2])
def test_pieces_are_what_the_codec_writes(version: int) -> None:
    records = [memoryview(b"x" * 200), memoryview(b"y" * 3)]
    pieces = at_once(
        encode_share_fetch(
            [
                ShareResult(A, 0, views=records, acquired=[AcquiredRange(first=3, last=9, delivery_count=2)]),
                ShareResult(A, 1, 6, leader=LeaderHint(2, 5)),
                ShareResult(B, 300, acknowledge_error_code=121, acknowledge_message="no"),
            ],
            throttle_time_ms=7,
            lock_timeout_ms=30_000,
            endpoints=[NodeEndpoint(2, "h", 9092, "r")],
        )
    )
    assert any(piece is records[0] for piece in pieces) and any(piece is records[1] for piece in pieces)
    body = b"".join(pieces)
    response = decode("response", ApiKey.SHARE_FETCH, version, body)
    assert encode("response", ApiKey.SHARE_FETCH, version, response) == body
    assert (response.throttle_time_ms, response.error_code, response.acquisition_lock_timeout_ms) == (7, 0, 30_000)
    first, second = response.responses
    assert (first.topic_id, second.topic_id) == (A, B)
    assert bytes(first.partitions[0].records) == b"x" * 200 + b"y" * 3
    assert [
        (one.first_offset, one.last_offset, one.delivery_count) for one in first.partitions[0].acquired_records
    ] == [(3, 9, 2)]
    assert (first.partitions[1].error_code, first.partitions[1].current_leader.leader_epoch) == (6, 5)
    assert bytes(second.partitions[0].records) == b""
    assert (second.partitions[0].acknowledge_error_code, second.partitions[0].acknowledge_error_message) == (121, "no")
    assert [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints] == [(2, "h", 9092, "r")]


def test_a_refusal_has_no_partitions() -> None:
    body = b"".join(at_once(encode_share_fetch((), error_code=122, message="gone")))
    response = decode("response", ApiKey.SHARE_FETCH, 2, body)
    assert (response.error_code, response.error_message, list(response.responses)) == (122, "gone", [])


def test_an_answer_without_partitions_is_made_once() -> None:
    body = empty_share_fetch(7, 30_000)
    assert body == b"".join(at_once(encode_share_fetch((), throttle_time_ms=7, lock_timeout_ms=30_000)))
    assert body is empty_share_fetch(7, 30_000)
    assert body != empty_share_fetch(0, 30_000) and body != empty_share_fetch(7, 15_000)
