"""The field of a forwarded produce that continues a trace at the owner."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_request, parse_request_header
from bmq.protocol.hot_produce import (
    FORWARDED_PRODUCE_VERSION,
    encode_produce_request,
    parse_produce,
    trace_in,
    with_trace,
)

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=7)
CONTEXT = bytes(range(1, 25)) + b"\1"
CLAIMS = [{}, {"transactional_id": "t", "client_version": 12}]


def body_of(claim: dict[str, object], records: bytes = b"records") -> tuple[bytes, ...]:
    return tuple(
        encode_produce_request(TOPIC_ID, 3, records, acks=-1, timeout_ms=5, **claim)  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_rest_of_the_request_is_as_without_it(claim: dict[str, object]) -> None:
    plain = body_of(claim)
    traced = b"".join(with_trace(plain, CONTEXT))
    assert trace_in(traced) == CONTEXT
    assert trace_in(b"".join(plain)) is None
    version = FORWARDED_PRODUCE_VERSION
    assert parse_produce(traced, 0, version) == parse_produce(b"".join(plain), 0, version)


def test_a_node_that_does_not_know_the_field_skips_it() -> None:
    """The codec from Kafka's schemas knows none of our fields."""
    head = b"\0\0" + FORWARDED_PRODUCE_VERSION.to_bytes(2, "big") + b"\0\0\0\1" + b"\xff\xff" + b"\0"
    frame = bytearray(head + b"".join(with_trace(body_of({}), CONTEXT)))
    header = parse_request_header(frame)
    assert header.api_key == ApiKey.PRODUCE
    (topic,) = decode_request(header, frame).topic_data
    assert bytes(topic.partition_data[0].records) == b"records"


@pytest.mark.parametrize("frame", [b"\1", b"\0", CONTEXT, bytes(3) + CONTEXT, b"\1" * 80])
def test_other_ends_are_no_context(frame: bytes) -> None:
    assert trace_in(frame) is None
