"""The criteria of security: which samples lead to which figure."""

from __future__ import annotations

from typing import Any

import pytest

from bench.criteria import Evidence
from bench.security.criteria import CLUSTER_QUOTAS, OLD, PART_OF, PLAIN, QUOTAS, judge
from bench.security.plan import PARTS
from bench.security.strangers import Places

pytestmark = pytest.mark.campaign("unit")


def judged(parts: dict[str, Any]) -> dict[str, Any]:
    measured = {part: {"revision": "abc"} for part in parts}
    return {one["id"]: one for one in judge(Evidence(parts, {}, measured, {}))}


def under_quota(**bytes_per_s: float) -> dict[str, Any]:
    return {"wanted": 1, "rounds": [{"bytes_per_s": bytes_per_s}]}


def test_every_criterion_is_of_a_part_that_is_run() -> None:
    assert set(PART_OF.values()) == set(PARTS)


def test_a_quota_of_three_proxies_may_be_missed_by_fifteen_percent_on_either_side() -> None:
    for rate, holds in ((1_149_000.0, True), (851_000.0, True), (1_151_000.0, False), (849_000.0, False)):
        found = judged({CLUSTER_QUOTAS: {"bmq": under_quota(librdkafka=1_000_000.0, java=rate)}})
        one = found["cluster_quota_error_percent"]
        assert one["bound"] == 15 and one["holds"] is holds, one
        assert not found["quota_error_percent"]["holds"]


def test_the_quota_of_one_node_may_be_missed_by_ten() -> None:
    sides = {"bmq": under_quota(java=1_090_000.0), "kafka": under_quota(java=900_000.0)}
    one = judged({QUOTAS: sides})["quota_error_percent"]
    assert one["holds"] and one["value"] == pytest.approx(9)


def test_without_any_security_bmq_may_be_one_percent_slower_than_before() -> None:
    def side(answers: int) -> dict[str, Any]:
        return {load: {"answers": answers, "seconds": 2} for load in ("produce", "fetch", "small")}

    for answers, holds in ((991, True), (989, False)):
        pairs = [{"bmq": side(answers), OLD: side(1_000)}] * 3
        found = judged({PLAIN: {"wanted": 3, "pairs": pairs}})
        for name in ("plain_produce", "plain_fetch", "plain_small"):
            assert found[name]["holds"] is holds, found[name]


def test_places_of_strangers_are_taken_again_at_their_rate() -> None:
    places = Places(100, now_s=50)
    places.add(4_000)
    assert places.due(50.005) == 0
    taken = sum(places.due(50 + step * 0.125) for step in range(1, 81))
    assert taken == 1_000  # in ten seconds


def test_time_in_which_no_place_was_free_is_not_made_up_for() -> None:
    places = Places(100, now_s=0)
    assert places.due(10) == 0
    places.add(500)
    assert places.due(10.125) == 12


def test_strangers_of_a_flood_are_back_at_once() -> None:
    places = Places(None, now_s=0)
    places.add(700)
    assert places.due(0) == 700 and places.due(1) == 0
