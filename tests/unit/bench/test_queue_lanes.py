"""Lanes' benchmark: what its ledger calls wrong, and what is judged."""

from __future__ import annotations

import pytest

from bench.criteria import BMQ, Evidence
from bench.queues.lanes.criteria import LANES, judge
from bench.queues.lanes.flip_ledger import FlipLedger

pytestmark = pytest.mark.campaign("unit")

PRODUCED = range(6)
"""0, 2 and 4 are of the lane."""


def wrong(ledger: FlipLedger) -> dict[str, int]:
    found = ledger.found(PRODUCED)
    return {name: found[name] for name in ("skipped", "doubled", "misrouted") if found[name]}


def ledger_of(base: list[int], lane: list[int], copies: list[int]) -> FlipLedger:
    ledger = FlipLedger()
    ledger.lane_committed(lane)
    for number in base:
        ledger.base_saw(number, is_copy=False)
    for number in copies:
        ledger.base_saw(number, is_copy=True)
    return ledger


def test_each_record_once_is_right_wherever_it_was_seen() -> None:
    ledger = ledger_of([0, 1, 3, 5], [2], [4])
    assert wrong(ledger) == {} and ledger.has_all(PRODUCED)
    assert {name: ledger.found(PRODUCED)[name] for name in ("by_base", "by_lane", "copied")} == {
        "by_base": 5,
        "by_lane": 1,
        "copied": 1,
    }


def test_what_is_wrong_is_counted() -> None:
    assert wrong(ledger_of([1, 3, 5], [2], [4])) == {"skipped": 1}
    assert not ledger_of([1, 3, 5], [2], [4]).has_all(PRODUCED)
    assert wrong(ledger_of([0, 1, 2, 3, 5], [2], [4])) == {"doubled": 1}
    assert wrong(ledger_of([1, 3, 5], [0, 2, 2], [4, 4])) == {"doubled": 2}
    assert wrong(ledger_of([0, 1, 5], [2, 3], [4])) == {"misrouted": 1}


def test_one_skipped_record_fails() -> None:
    rounds = [{"skipped": 1, "doubled": 0, "misrouted": 0, "by_lane": 9, "copied": 2, "join_p50_s": 0.5}]
    evidence = Evidence({LANES: {BMQ: {"wanted": 1, "rounds": rounds}}}, {}, {LANES: {"revision": "abc"}}, {})
    found = {one["id"]: (one["value"], one.get("holds")) for one in judge(evidence)}
    assert found["lane_flips_skipped"] == (1, False)
    assert found["lane_flips_doubled"] == (0, True)
    assert found["lane_flips_copied"] == (2, None)
