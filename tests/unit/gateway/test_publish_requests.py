"""Requests to publish: what is refused before anything is written, and the answer for each record."""

from __future__ import annotations

import pytest

from bmq.gateway.failure import GatewayFailed, invalid
from bmq.gateway.publish_requests import Outcome, Publishable, all_failed, publishable
from bmq.gateway.v1 import gateway_pb2 as pb

pytestmark = pytest.mark.unit


def request(*records: pb.Record, topic: str = "t") -> pb.PublishRequest:
    return pb.PublishRequest(topic=topic, records=records)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (request(), "has no record"),
        (request(pb.Record(), topic=""), "name is empty"),
        (request(*[pb.Record()] * 4), "has 4 records, 3 are allowed"),
        (request(pb.Record(), pb.Record(value=b"x" * 100)), "record 1 has 102 bytes, 100 are allowed"),
        (request(pb.Record(partition=-1)), "record 0 names partition -1"),
        (request(pb.Record(timestamp_ms=-5)), "has time -5"),
        (request(pb.Record(timestamp_ms=0)), "has time 0"),
        (request(pb.Record(headers=[pb.Header(name="")])), "empty or too long name"),
    ],
)
def test_what_is_refused(wrong: pb.PublishRequest, sentence: str) -> None:
    with pytest.raises(GatewayFailed, match=sentence) as failed:
        publishable(wrong, records_max=3, record_bytes_max=100)
    assert failed.value.status == "INVALID_ARGUMENT"


def test_what_is_taken() -> None:
    whole = pb.Record(
        key=b"", partition=0, timestamp_ms=1, headers=[pb.Header(name="a"), pb.Header(name="b", value=b"")]
    )
    some = request(whole, pb.Record(), pb.Record(key=b"k", value=b"v", partition=7), topic="t")
    assert publishable(some, records_max=3, record_bytes_max=100) == Publishable(
        "t",
        [
            {"value": None, "key": b"", "headers": [("a", None), ("b", b"")], "partition": 0, "timestamp": 1},
            {"value": None, "key": None},
            {"value": b"v", "key": b"k", "partition": 7},
        ],
        partition_max=7,
        is_plain=False,
    )


@pytest.mark.parametrize(
    "record",
    [
        pb.Record(value=b"v", partition=0),
        pb.Record(value=b"v", timestamp_ms=1),
        pb.Record(headers=[pb.Header(name="a")]),
    ],
)
def test_a_request_is_plain_without_headers_partitions_and_times(record: pb.Record) -> None:
    assert publishable(request(pb.Record(key=b"k"), pb.Record()), records_max=3, record_bytes_max=100).is_plain
    assert not publishable(request(pb.Record(key=b"k"), record), records_max=3, record_bytes_max=100).is_plain


def test_the_answer_has_a_place_for_each_record_and_joins_failures() -> None:
    outcome = Outcome(5)
    assert not outcome.written(0, 3, 10)
    assert not outcome.failed(3, invalid("too long"))
    assert not outcome.failed(2, invalid("too long"))
    assert not outcome.failed(1, GatewayFailed("NOT_FOUND", "no topic", "UNKNOWN_TOPIC_OR_PARTITION"))
    assert outcome.common_failure() is None
    assert outcome.written(4, 3, 11)
    assert outcome.is_done
    response = outcome.response()
    assert list(response.partitions) == [3, -1, -1, -1, 3]
    assert list(response.offsets) == [10, -1, -1, -1, 11]
    assert [(one.index, one.count, one.code, one.kafka_error) for one in response.failures] == [
        (1, 1, 5, "UNKNOWN_TOPIC_OR_PARTITION"),
        (2, 2, 3, ""),
    ]


def test_a_request_of_which_nothing_was_written() -> None:
    outcome = all_failed(3, invalid("wrong"))
    assert str(outcome.common_failure()) == "wrong"
    assert [(one.index, one.count) for one in outcome.response().failures] == [(0, 3)]
