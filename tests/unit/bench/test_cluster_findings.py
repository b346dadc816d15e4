"""What a run that measures some of it again keeps of the one before."""

from __future__ import annotations

from typing import Any

import pytest

from bench.cluster.criteria import PAIRS
from bench.cluster.findings import Findings

pytestmark = pytest.mark.unit

EARLIER: dict[str, Any] = {
    "parts": {"move": {"bmq": {"a": 1}, "kafka": {"a": 2}}, "scale": {"bmq": {"a": 3}}},
    "pairs": [{"order": ["bmq", "kafka"]}],
    "failures": {"move": ["bmq: stuck", "kafka: stuck"], "scale": ["bmq: stuck"]},
}


def test_only_what_is_measured_again_is_left_out() -> None:
    kept = Findings.without(EARLIER, ["move"], ["bmq"])
    assert kept.parts == {"move": {"kafka": {"a": 2}}, "scale": {"bmq": {"a": 3}}}
    assert kept.failures == {"move": ["kafka: stuck"], "scale": ["bmq: stuck"]}
    assert kept.pairs == EARLIER["pairs"]


def test_pairs_are_measured_all_together() -> None:
    kept = Findings.without(EARLIER, [PAIRS], ["bmq", "kafka"])
    assert kept.pairs == [] and kept.parts == EARLIER["parts"] and kept.failures == EARLIER["failures"]
