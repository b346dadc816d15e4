"""The histogram behind every latency on /metrics."""

from __future__ import annotations

import pytest

from bmq.log.latency import LatencyHistogram

pytestmark = pytest.mark.unit


def test_buckets_are_cumulative_and_bounds_belong_to_their_bucket() -> None:
    histogram = LatencyHistogram((0.001, 0.01))
    for seconds in (0.0005, 0.001, 0.002, 5.0):
        histogram.observe(seconds)
    assert histogram.buckets() == [("0.001", 2.0), ("0.01", 3.0), ("+Inf", 4.0)]
    assert histogram.sum_s == pytest.approx(5.0035)
