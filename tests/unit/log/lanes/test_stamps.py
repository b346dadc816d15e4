"""Rules that give producers' records a lane."""

from __future__ import annotations

import pytest

from bmq.log.lanes.names import LaneRefused
from bmq.log.lanes.stamps import RULES_MAX, LaneRule, lane_of_producer, lane_rule, lane_rules

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("client:shop-blue=blue", LaneRule(False, "shop-blue", False, "blue")),
        (" user:canary=blue ", LaneRule(True, "canary", False, "blue")),
        ("client:shop-*=blue.2", LaneRule(False, "shop-", True, "blue.2")),
        ("client:*=all", LaneRule(False, "", True, "all")),
        ("user:CN=shop=blue", LaneRule(True, "CN=shop", False, "blue")),
    ],
)
def test_rule_is_read(text: str, rule: LaneRule) -> None:
    assert lane_rule(text) == rule


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "blue",
            "client:shop",
            "client:=blue",
            "group:shop=blue",
            "client:shop=",
            "client:shop=a@b",
            "client:shop=a/b",
        ),
        f"client:{'x' * 256}=blue",
        f"client:shop={'x' * 65}",
    ],
)
def test_other_texts_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(LaneRefused) as refused:
        lane_rule(text)
    assert 10 < len(str(refused.value)) < 300 and "\n" not in str(refused.value)


def test_rules_are_bounded() -> None:
    assert len(lane_rules([f"client:{number}=blue" for number in range(RULES_MAX)])) == RULES_MAX
    with pytest.raises(LaneRefused, match="101 rules"):
        lane_rules([f"client:{number}=blue" for number in range(RULES_MAX + 1)])


@pytest.mark.parametrize(
    ("client_id", "principal", "lane"),
    [
        ("shop-blue", "User:ANONYMOUS", "blue"),
        ("shop-blue-2", "User:ANONYMOUS", None),
        ("test-1", "User:ANONYMOUS", "test"),
        ("any", "User:canary", "red"),
        ("test-1", "User:canary", "test"),
        ("any", "Service:canary", None),
        (None, "User:", None),
        ("", "User:other", None),
    ],
)
def test_first_rule_that_fits_counts(client_id: str | None, principal: str, lane: str | None) -> None:
    rules = lane_rules(["client:shop-blue=blue", "client:test-*=test", "user:canary=red", "client:shop-blue=never"])
    assert lane_of_producer(rules, client_id, principal) == lane
