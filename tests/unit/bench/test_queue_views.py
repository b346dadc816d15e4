"""Views' benchmark: what its records are, and what is judged."""

from __future__ import annotations

from typing import Any

import pytest

from bench.criteria import BMQ, Evidence
from bench.queues.views.criteria import ALL, BASE, FIRST, NEXT, READS, TAIL, judge
from bench.queues.views.tagged import ONE_IN, batch_of
from bmq.protocol.batch_records import decode_records

pytestmark = pytest.mark.campaign("unit")


def read(seconds: float, received_bytes: int) -> dict[str, Any]:
    return {"seconds": seconds, "received_bytes": received_bytes, "records": 1}


def test_one_record_in_a_hundred_has_the_tag() -> None:
    tags = [dict(record.headers)["bmq-tag"] for record in decode_records(batch_of(0, 5 * ONE_IN))]
    assert tags.count(b"a") == 5 and tags.count(b"b") == 5 * ONE_IN - 5


def test_views_are_judged_beside_the_base_and_alone() -> None:
    pair = {BASE: read(2.0, 1_000), FIRST: read(0.5, 10), NEXT: read(0.1, 10), ALL: read(3.0, 1_000)}
    tail = {"wanted": 1, "rounds": [{"one_reader_us": 2.0, "ten_readers_us": 9.0, "plain_reader_us": 1.0, "wrong": 0}]}
    parts: dict[str, Any] = {READS: {"wanted": 1, "pairs": [pair]}, TAIL: {BMQ: tail}}
    evidence = Evidence(parts, {}, {part: {"revision": "abc"} for part in parts}, {})
    found = {one["id"]: (one["value"], one.get("holds")) for one in judge(evidence)}
    assert found["view_read_ratio"] == (0.25, False)
    assert found["view_read_bytes_ratio"] == (0.01, True)
    assert found["view_all_ratio"] == (1.5, False)
    assert found["view_next_read_ratio"][0] == 0.05
    assert found["view_owner_cpu_us"] == (2.0, True)
    assert found["view_tail_wrong"] == (0, True)
