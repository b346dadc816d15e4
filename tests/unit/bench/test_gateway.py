"""The load of bench/gateway and what is made of its samples."""

from __future__ import annotations

import pytest

from bench.gateway.__main__ import BOUNDS, figures
from bench.gateway.load import LoadFailed, Publisher, requests_of
from bmq.gateway.v1.gateway_pb2 import PublishRequest, PublishResponse, RecordFailure

pytestmark = pytest.mark.unit


def test_figures_are_medians_of_pairs() -> None:
    def pair(gateway: float, java: float) -> dict[str, dict[str, float]]:
        return {
            "gateway": {"records_per_s": gateway, "cpu_us": 4.0},
            "java": {"records_per_s": java, "cpu_us": 2.0},
        }

    found = figures([pair(100, 200), pair(100, 400), pair(300, 400)])
    assert found["throughput_ratio"] == 0.5
    assert (found["gateway_records_per_s"], found["java_records_per_s"]) == (100, 400)
    assert (found["gateway_cpu_us"], found["java_cpu_us"]) == (4.0, 2.0)
    assert BOUNDS.keys() <= found.keys()


def test_a_request_for_each_partition() -> None:
    found = [PublishRequest.FromString(each) for each in requests_of("t", 2, 100, 3)]
    assert [[record.partition for record in each.records] for each in found] == [[0] * 3, [1] * 3]
    assert {len(record.value) for each in found for record in each.records} == {100}


def test_no_more_is_sent_than_may_be_unanswered() -> None:
    publisher = Publisher([b"a", b"b"], records=2, unanswered_max=2)
    sent = publisher.sent()
    assert [next(sent), next(sent)] == [b"a", b"b"]
    publisher.take(PublishResponse(partitions=[0, 0], offsets=[1, 2]).SerializeToString())
    assert next(sent) == b"a"
    assert publisher.confirmed == 2
    publisher.stop()
    assert list(sent) == []


def test_refused_records_end_the_load() -> None:
    publisher = Publisher([b"a"], records=1, unanswered_max=1)
    failed = PublishResponse(partitions=[-1], offsets=[-1], failures=[RecordFailure(count=1, message="full")])
    with pytest.raises(LoadFailed, match="full"):
        publisher.take(failed.SerializeToString())
