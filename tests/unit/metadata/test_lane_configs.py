"""Configs of lanes for producers: of a topic, and the broker's defaults."""

from __future__ import annotations

import pytest

from bmq.log.lanes.stamps import LaneRule
from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.topic_configs import log_config, validate

pytestmark = pytest.mark.unit


def test_rules_of_a_topic_are_stronger_than_the_brokers() -> None:
    broker = {"bmq.lane.producers": "user:a=red", "bmq.lane.validate": "true"}
    own = log_config({"bmq.lane.producers": "client:b=blue, client:c*=blue"}, broker)
    assert own.lane_producers == (LaneRule(False, "b", False, "blue"), LaneRule(False, "c", True, "blue"))
    assert own.has_lanes_validated
    assert log_config({}, broker).lane_producers == (LaneRule(True, "a", False, "red"),)
    assert log_config({}, {}).lane_producers == () and not log_config({}, {}).has_lanes_validated


@pytest.mark.parametrize(
    "rules", ["blue", "client:a=x@y", "client:a=x/y", ",".join(f"client:{n}=a" for n in range(101))]
)
def test_bad_rules_are_refused(rules: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^bmq\.lane\.producers: "):
        validate({"bmq.lane.producers": rules}, {})
